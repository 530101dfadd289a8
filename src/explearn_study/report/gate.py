"""`explearn gate`: is a run within noise of another, or has a figure or the verdict become worse than a rule allows?"""

from __future__ import annotations

import math
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from explearn.core import validation
from explearn.core.documents import PathLike, parse_json, read_json, read_yaml
from explearn.core.errors import DataError, ParamsError, located, shown
from explearn.core.escape import printable
from explearn.core.validation import NonNegativeFloat, Section, Shape
from explearn.metrics.arrays import RESOLUTION
from explearn.metrics.base import Direction
from explearn.metrics.registry import CATALOGUE
from explearn.show.markdown import Markdown, table

METRICS = "reports/metrics.json"


Verdict = Literal["worse", "gone", "better", "new", "within noise", "same", "not comparable"]


class GateRule(Section):
    """The figures that must not become worse, and by how much they may differ."""

    metric: str
    """The keys that lead to a figure of reports/metrics.json, joined by dots; * stands for any characters."""
    direction: Direction
    """Which direction is better; may be left out if the last key is a metric of the catalogue."""
    tolerance: NonNegativeFloat
    """Differences up to this are noise, in the figure's own unit or, if `relative`, as a share of its old value."""
    relative: bool = False

    @model_validator(mode="before")
    @classmethod
    def _direction_of_catalogue(cls, rule: Any) -> Any:
        if isinstance(rule, Mapping) and "direction" not in rule and isinstance(rule.get("metric"), str):
            metric = CATALOGUE.get(rule["metric"].rpartition(".")[2])
            if metric is not None and metric.direction is not None:
                return {**rule, "direction": metric.direction}
        return rule


class Gate(Section):
    rules: Annotated[list[GateRule], Field(min_length=1)]


class _BestMethods(Shape):
    verdict: dict[str, list[str]] = Field(default_factory=dict)
    """Metric -> the methods that are best."""


@dataclass(frozen=True, slots=True)
class FigureChange:
    """A figure, or the best methods, before and after, None if missing or undefined, and the verdict on the change."""

    metric: str
    old: float | str | None
    new: float | str | None
    tolerance: float
    verdict: Verdict

    @property
    def regression(self) -> bool:
        return self.verdict in ("worse", "gone")


def load_gate(path: PathLike) -> Gate:
    """Read a file of rules.

    Raises:
        ParamsError: a rule is not valid; the message names file and rule.
    """
    rules: Gate = validation.check(Gate, read_yaml(path), ParamsError, before=f"{path}: ")
    return rules


def read_metrics(source: str) -> Any:
    """Read reports/metrics.json from a project folder or a git revision, or a similar file.

    Raises:
        ParamsError: the source is empty.
        DataError: there is no such file, or it is not JSON.
    """
    if not source:
        raise ParamsError("--base: got ''; expected a git revision, a file or a project's folder")
    path = Path(source)
    if path.is_dir():
        return read_json(path / METRICS)
    if path.exists():
        return read_json(path)
    command = ["git", "show", "--end-of-options", f"{source}:./{METRICS}"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").partition("\n")[0].removeprefix("fatal: ")
        raise DataError(f"{METRICS} at {source}: {reason}; expected a git revision, a file or a project's folder")
    try:
        return parse_json(done.stdout)
    except ValueError as error:
        raise DataError(f"{METRICS} at {source}: {error}") from error


def figures(document: object, prefix: str = "") -> Iterator[tuple[str, float | None]]:
    """Yield path and value of every number and null in a JSON document; booleans, text and lists are skipped.

    A number that is not finite counts as null.

    Raises:
        DataError: a number is larger than a float can be.
    """
    if isinstance(document, Mapping):
        for key, value in document.items():
            yield from figures(value, f"{prefix}{key}.")
        return
    path = prefix.removesuffix(".")
    if document is None:
        yield path, None
    elif isinstance(document, int | float) and not isinstance(document, bool):
        figure: float | None = None
        try:
            if math.isfinite(document):
                figure = float(document)
        except OverflowError as error:
            raise DataError(f"{path}: got {shown(document)}; expected one below 1e308") from error
        yield path, figure


def check(gate: Gate, old: object, new: object) -> list[FigureChange]:
    """Apply every rule to the metrics of two runs, and compare their verdicts.

    The headline is that of the explainer under study; if the two runs have studied different ones, it is not compared.
    A verdict is worse if no method that was the best, or not clearly worse, is so now.

    Args:
        gate: the rules.
        old: the metrics before.
        new: the metrics after.

    Returns:
        The changes in the order of the rules and of the figures, the verdicts last. A figure that becomes undefined or
        disappears is gone; one that did not exist before is new.

    Raises:
        DataError: a rule matches no figure of either run, no rule matches a figure of the earlier run, or a figure or
            verdict cannot be read.
    """
    same_explainer = _at(old, "headline", "explainer") == _at(new, "headline", "explainer")
    with located(f"{METRICS} of the earlier run, "):
        before = dict(figures(old))
    with located(f"{METRICS} of this run, "):
        after = dict(figures(new))
    changes = []
    for rule in gate.rules:
        names = [name for name in dict.fromkeys([*before, *after]) if fnmatchcase(name, rule.metric)]
        if not names:
            raise DataError(f"rule {rule.metric!r}: no such figure in {METRICS} of either run; expected at least one")
        for name in names:
            change = _change(rule, name, before.get(name), after.get(name))
            if name.startswith("headline.") and not same_explainer:
                change = replace(change, verdict="not comparable")
            changes.append(change)
    if all(change.old is None for change in changes):
        raise DataError(f"{METRICS} of the earlier run: none of the figures that the rules name; expected some")
    return [*changes, *_verdict_changes(old, new)]


def _at(document: Any, *keys: str) -> Any:
    """Return the value under some keys of nested mappings; None if there is none."""
    for key in keys:
        if not isinstance(document, Mapping):
            return None
        document = document.get(key)
    return document


def _verdict_changes(old: object, new: object) -> Iterator[FigureChange]:
    """Yield the changes of the best methods by each figure that both runs have a verdict on."""
    before = validation.check(_BestMethods, old, before=f"{METRICS} of the earlier run, ").verdict
    after = validation.check(_BestMethods, new, before=f"{METRICS} of this run, ").verdict
    for metric in before:
        if metric not in after:
            continue
        verdict: Verdict = "worse"
        if before[metric] == after[metric]:
            verdict = "same"
        elif not before[metric]:
            verdict = "better"
        elif set(before[metric]) & set(after[metric]):
            verdict = "within noise"
        earlier = ", ".join(before[metric]) or "none"
        later = ", ".join(after[metric]) or "none"
        yield FigureChange(f"verdict.{metric}", earlier, later, 0.0, verdict)


def _change(rule: GateRule, name: str, old: float | None, new: float | None) -> FigureChange:
    tolerance = rule.tolerance
    if rule.relative and old is not None:
        tolerance *= abs(old)
    verdict: Verdict = "same"
    if old is None and new is not None:
        verdict = "new"
    elif new is None and old is not None:
        verdict = "gone"
    elif old is not None and new is not None and old != new:
        gain = new - old
        if rule.direction == "lower":
            gain = old - new
        verdict = "worse"
        if gain > 0:
            verdict = "better"
        # Rounding errors do not count: in floating point, 0.8 - 0.7 is more than 0.1.
        if abs(gain) <= tolerance + RESOLUTION * max(1.0, abs(old)):
            verdict = "within noise"
    return FigureChange(name, old, new, tolerance, verdict)


def change_table(changes: Sequence[FigureChange]) -> str:
    """Return changes as a Markdown table: figures with four decimals, names as they are, a dash for what is missing."""
    rows = []
    for change in changes:
        row: list[str] = [printable(change.metric)]
        difference = "–"
        if isinstance(change.old, float) and isinstance(change.new, float):
            difference = f"{change.new - change.old:+.4f}"
        for value in (change.old, change.new):
            if isinstance(value, str):
                row.append(printable(value))
            elif value is None:
                row.append(Markdown("–"))
            else:
                row.append(Markdown(f"{value:.4f}"))
        rows.append([*row, *map(Markdown, (difference, f"±{change.tolerance:.4g}", f"**{change.verdict}**"))])
    return table(("Figure", "Before", "After", "Change", "Noise", "Verdict"), rows)


def summary(changes: Sequence[FigureChange]) -> str:
    """Say in one line whether the runs are within noise of each other, and how many figures have each verdict."""
    counts = Counter(change.verdict for change in changes)
    listed = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in get_args(Verdict) if counts[verdict])
    worse = sum(change.regression for change in changes)
    if worse:
        start = f"Worse: {worse:,} of {len(changes):,} figures became worse than allowed"
    elif counts["better"] or counts["new"]:
        start = f"Not worse: none of {len(changes):,} figures became worse than allowed"
    else:
        start = f"Within noise: all {len(changes):,} figures"
    return f"{start} ({listed})."

"""`explearn gate`: has any figure become worse, from one run to another, than a rule allows?"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from explearn.core import validation
from explearn.core.documents import parse_json, read_json, read_yaml
from explearn.core.errors import DataError, ParamsError, first_line
from explearn.core.extras import check_installed
from explearn.core.validation import Section
from explearn.judge.catalogue import CATALOGUE, Direction

Verdict = Literal["worse", "gone", "within tolerance", "same", "better", "new"]

WORKSPACE = "workspace"
"""Stands for the files in the working tree where a git revision is expected."""


class Rule(Section):
    """Which figures must not become worse, and by how much they may."""

    metric: str
    """The keys that lead to a figure, joined by dots; * stands for any characters, dots included."""
    direction: Direction
    """Which direction is better; may be left out where the last key is a metric of the catalogue."""
    tolerance: Annotated[float, Field(ge=0)]
    """How much worse a figure may become, in its own unit or, where `relative`, as a share of its earlier value."""
    relative: bool = False
    file: str = "reports/metrics.json"
    """The file with the figures, from the project's root."""

    @model_validator(mode="before")
    @classmethod
    def _direction_of_catalogue(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and "direction" not in given and isinstance(given.get("metric"), str):
            known = CATALOGUE.get(given["metric"].rpartition(".")[2])
            if known is not None and known.direction is not None:
                return {**given, "direction": known.direction}
        return given


class Gate(Section):
    rules: Annotated[list[Rule], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Change:
    """A figure before and after; None where it is missing or undefined. `allowed`: how much worse it may be."""

    file: str
    metric: str
    rule: Rule
    old: float | None
    new: float | None
    allowed: float
    verdict: Verdict

    @property
    def regression(self) -> bool:
        return self.verdict in ("worse", "gone")


def load_gate(path: str | os.PathLike[str]) -> Gate:
    """Read a file of rules.

    Raises ParamsError naming file, rule, what was got and what was expected.
    """
    rules: Gate = validation.check(Gate, read_yaml(path), ParamsError, before=f"{path}: ")
    return rules


def figures(document: object, prefix: str = "") -> Iterator[tuple[str, float | None]]:
    """Path and value of every number and null in a JSON document; true, false, text and lists are not figures."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            yield from figures(value, f"{prefix}.{key}" if prefix else str(key))
    elif document is None or (isinstance(document, int | float) and not isinstance(document, bool)):
        yield prefix, None if document is None or not math.isfinite(document) else float(document)


def check(gate: Gate, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Apply every rule to two runs.

    Args:
        old, new: file -> its JSON document; files that a run does not have are left out.

    Returns the changes in the order of the rules and of the figures. A figure that becomes undefined or disappears is
    gone; one that was not there before is new.
    Raises DataError where a rule matches no figure of either run.
    """
    changes = []
    for rule in gate.rules:
        before, after = (dict(figures(run.get(rule.file, {}))) for run in (old, new))
        names = [name for name in dict.fromkeys([*before, *after]) if fnmatchcase(name, rule.metric)]
        if not names:
            raise DataError(f"rule {rule.metric!r}: no such figure in {rule.file} of either run; expected one at least")
        changes += [_change(rule, name, before.get(name), after.get(name)) for name in names]
    return changes


def _change(rule: Rule, name: str, old: float | None, new: float | None) -> Change:
    allowed = rule.tolerance * (abs(old) if rule.relative and old is not None else 1.0)
    if old is None:
        verdict: Verdict = "same" if new is None else "new"
    elif new is None:
        verdict = "gone"
    else:
        loss = old - new if rule.direction == "higher" else new - old
        # Rounding alone is no regression: in floating point, 0.8 - 0.7 is more than 0.1.
        if loss > allowed + 1e-12 * max(1.0, abs(old)):
            verdict = "worse"
        else:
            verdict = "within tolerance" if loss > 0 else "same" if loss == 0 else "better"
    return Change(rule.file, name, rule, old, new, allowed, verdict)


def from_revision(files: Sequence[str], revision: str) -> dict[str, Any]:
    """Read files of a git revision through DVC, or those of the workspace; missing files are left out.

    Raises DataError for an unknown revision, or a file that is not JSON.
    """
    if revision == WORKSPACE:
        return {file: read_json(file) for file in files if Path(file).exists()}
    check_installed("dvc", extra="pipeline", what=f"reading the revision {revision!r}")
    # DVC takes a second to load.
    from dvc.api import DVCFileSystem
    from dvc.exceptions import DvcException

    found = {}
    # One file system for all files: it takes long to open a revision.
    with closing(DVCFileSystem(rev=revision)) as project:
        for file in files:
            try:
                found[file] = parse_json(project.read_text(file, encoding="utf-8"))
            except FileNotFoundError:
                continue
            except ValueError as error:
                raise DataError(f"{file} at {revision}: {error}") from error
            except DvcException as error:
                raise DataError(f"{file} at {revision}: {first_line(error)}") from error
    return found


def from_path(files: Sequence[str], path: Path) -> dict[str, Any]:
    """Read the files below a project's folder, or `path` itself, as the one file of the rules with its name.

    Raises DataError where not exactly one file of the rules has that name.
    """
    if path.is_dir():
        return {file: read_json(path / file) for file in files if (path / file).exists()}
    document = read_json(path)
    same = [file for file in files if PurePath(file).name == path.name]
    if len(same) != 1:
        raise DataError(f"{path}: {len(same)} files of the rules have this name; expected one of {', '.join(files)}")
    return {same[0]: document}

"""The plan of a comparison: its methods and texts within a time budget, and how an interrupted comparison resumes."""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from explearn.comparison.texts import UserTexts
from explearn.core.documents import read_json
from explearn.core.errors import ParamsError, UnsupportedError, shown
from explearn.core.examples import Example
from explearn.core.validation import MOST, Shape, check
from explearn.core.writing import write_json
from explearn.methods import __file__ as METHODS
from explearn.methods.base.explainer import Explainer
from explearn.methods.registry import get_explainer, get_info, with_seed
from explearn.metrics.params import SanityParams
from explearn.metrics.significance import FEWEST_TEXTS
from explearn.predictors.predictor import Predictor
from explearn.show.blocks import several
from explearn.text.units import Unit

ROSTERS = Path(METHODS).with_name("rosters.json")
"""Roster -> method -> options; `make index` writes it from conf/roster/."""

FLOOR = "random"
"""The method that a budget never drops."""

LEADING = ("marker", "consensus", "reader", "attn_lrp", "lime")
"""Methods that a comparison tries first and drops last."""

JUDGING_PASSES = 8
"""Estimated passes, in whole texts, to evaluate one method on one text: some 16 shortened or masked inputs are
classified, many of them short, duplicates once."""

TIMED_TEXTS = 4
"""Number of texts on which a method's speed is measured."""

TIMED_TEXTS_COSTLY = 2
"""The same for methods of tens of passes or more."""

SANITY_TEXTS = 5
"""Number of texts explained again on perturbed models."""

PLAN = "plan.json"
"""First file written to a comparison's folder."""

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}

Tell = Callable[[str], None]


# ---- the methods -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidates:
    """The methods that a comparison may use.

    Attributes:
        options: method -> its options.
        explainers: methods that were passed as objects, by name.
        seed: seed of methods that draw at random.
    """

    options: Mapping[str, Mapping[str, Any]]
    explainers: Mapping[str, Explainer]
    seed: int

    @classmethod
    def from_methods(cls, methods: str | Explainer | Sequence[str | Explainer], seed: int) -> Candidates:
        """Return the methods of rosters, names and explainers.

        Raises:
            UnknownNameError: there is no such method.
            ParamsError: a method needs training or is named twice, or there is none.
        """
        if isinstance(methods, Explainer):
            methods = [methods]
        names: Any = methods
        given: list[Explainer] = []
        if isinstance(methods, list | tuple):
            names = [method for method in methods if not isinstance(method, Explainer)]
            given = [method for method in methods if isinstance(method, Explainer)]
        explainers = {explainer.name: explainer for explainer in given}
        if len(explainers) < len(given):
            raise ParamsError(f"methods: got {', '.join(explainer.name for explainer in given)}; expected each once")
        options: dict[str, Mapping[str, Any]] = dict(choose_methods(names))
        for name, explainer in explainers.items():
            options[name] = explainer.settings()
        if not options:
            raise ParamsError("methods: got none; expected at least one roster, name or explainer")
        return cls(options, explainers, seed)

    def make(self, name: str) -> tuple[Explainer, dict[str, Any]]:
        """Return a method and its options: a copy of one of the explainers, since checks change it, or a new one."""
        if name in self.explainers:
            return copy.copy(self.explainers[name]), dict(self.options[name])
        options = with_seed(name, self.options[name], self.seed)
        return get_explainer(name, **options), options


def choose_methods(wanted: str | Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the options of rosters' and named methods: FLOOR, then quick methods, LEADING ones first in each group.

    A named method gets its options in the roster light, else its defaults.

    Args:
        wanted: names, as a list or separated by commas.

    Returns:
        Method -> options.

    Raises:
        UnknownNameError: there is no such method.
        ParamsError: a method needs training or is named twice, or got anything but names.
    """
    rosters: dict[str, dict[str, Any]] = json.loads(ROSTERS.read_text(encoding="utf-8"))
    names: Sequence[str] = wanted
    if isinstance(wanted, str):
        names = wanted.split(",")
    if not isinstance(names, Sequence) or not all(isinstance(name, str) and name.strip() for name in names):
        raise ParamsError(f"methods: got {shown(wanted)}; expected {', '.join(rosters)}, or names of methods")
    names = [name.strip() for name in names]
    if len(set(names)) != len(names):
        raise ParamsError(f"methods: {shown(wanted)} repeats a name; expected each once")
    chosen: dict[str, dict[str, Any]] = {}
    for name in names:
        if name in rosters:
            chosen |= rosters[name]
        else:
            if get_info(name).untrained:
                raise ParamsError(
                    f"methods: {name!r} needs training; train it with `explearn train` and pass it (--explainer "
                    "FOLDER, or the explainer itself in the list), or leave it out"
                )
            chosen[name] = rosters["light"].get(name, {})
    return {name: chosen[name] for name in sorted(chosen, key=_rank)}


def _rank(name: str) -> tuple[bool, bool, bool]:
    return name != FLOOR, get_info(name).costly, name not in LEADING


# ---- the budget ------------------------------------------------------------------------------------------------------


def parse_budget(value: str | float | None) -> float | None:
    """Return seconds from a number, or from a string such as 90s, 10m or 1.5h.

    Raises:
        ParamsError: got anything else.
    """
    if value is None:
        return None
    if isinstance(value, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", value.strip())
        if match is None:
            raise ParamsError(f"budget: got {value!r}; expected a time such as 90s, 10m or 1.5h")
        value = float(match[1]) * _UNITS[match[2]]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST:
        raise ParamsError(f"budget: got {shown(value)}; expected seconds, more than 0 and at most {MOST:,}")
    return float(value)


class Plan(Shape):
    """The methods and texts of a comparison.

    Attributes:
        methods: names.
        texts: how many texts they explain.
        left_out: method -> why it is not compared.
    """

    methods: Annotated[list[str], Field(min_length=1)]
    texts: Annotated[int, Field(ge=1)]
    left_out: dict[str, str]


def make_plan(
    classifier: Predictor,
    texts: UserTexts,
    candidates: Candidates,
    most: int,
    budget: float | None,
    end: float,
    unit: Unit,
    tell: Tell,
) -> Plan:
    """Choose methods and texts. With a budget, every method is first timed on a few texts, for at most half of it.

    Args:
        classifier: the classifier to explain.
        texts: the user's texts.
        candidates: the methods.
        most: most texts.
        budget: the budget in seconds; None: without one.
        end: its end, by `time.perf_counter`.
        unit: what methods score.
        tell: called with a sentence if the budget does not suffice.

    Raises:
        UnsupportedError: no method can explain the classifier.
    """
    left_out: dict[str, str] = {}
    usable: dict[str, Explainer] = {}
    for name in candidates.options:
        explainer, _ = candidates.make(name)
        try:
            explainer.check_explains(classifier)
        except UnsupportedError as error:
            left_out[name] = str(error)
        else:
            usable[name] = explainer
    if not usable:
        raise UnsupportedError(f"{classifier.name}: no method can explain it ({'; '.join(left_out.values())})")
    if budget is None:
        return Plan(methods=list(usable), texts=most, left_out=left_out)
    sample = texts.examples[:TIMED_TEXTS]
    forward = _seconds(lambda some: classifier.predict_proba(classifier.encode(some)), sample)
    seconds: dict[str, float] = {}
    checks = 0.0
    for name, explainer in usable.items():
        if len(seconds) > 1 and end - time.perf_counter() < budget / 2:
            left_out[name] = "no time for it within the budget"
            continue
        costly = get_info(name).costly
        explain = partial(explainer.explain, classifier, unit=unit)
        try:
            explaining = _seconds(explain, sample[:TIMED_TEXTS_COSTLY] if costly else sample)
        except UnsupportedError as error:
            left_out[name] = str(error)
            continue
        seconds[name] = explaining + JUDGING_PASSES * forward
        if not costly:
            # Sanity checks of quick methods explain a few texts on each perturbed model.
            checks += SANITY_TEXTS * (2 + SanityParams().noise_samples) * explaining
    remaining = end - time.perf_counter() - checks
    if texts.labels:
        # The classifier's figures need all texts.
        remaining -= forward * len(texts.examples)
    plan = within_budget(seconds, most, max(0.0, remaining))
    expected = plan.texts * sum(seconds[name] for name in plan.methods)
    if expected > end - time.perf_counter():
        tell(
            f"The budget of {budget:g} s does not suffice: {several(len(plan.methods), 'method')} on "
            f"{several(plan.texts, 'text')} would take about {expected:.0f} s, plus sanity checks and the page"
        )
    return plan.model_copy(update={"left_out": {**left_out, **plan.left_out}})


def _seconds(run: Callable[[Sequence[Example]], object], sample: Sequence[Example]) -> float:
    """Return the time for one text."""
    run(sample[:1])  # first calls load packages and allocate buffers
    start = time.perf_counter()
    run(sample)
    return (time.perf_counter() - start) / len(sample)


def within_budget(seconds: Mapping[str, float], texts: int, budget: float) -> Plan:
    """Plan as many texts as a budget allows; rather than going below FEWEST_TEXTS, drop the slowest methods.

    At least two methods stay, FLOOR among them if it is there; quick methods in LEADING are dropped last.

    Args:
        seconds: method -> time to explain one text and to judge it.
        texts: number of texts.
        budget: remaining seconds.
    """
    order = sorted(seconds, key=seconds.__getitem__)
    left_out: dict[str, str] = {}
    # Without FLOOR, or with FLOOR alone, figures say nothing.
    slow = [name for name in order if name != FLOOR]
    slow.sort(key=lambda name: name not in LEADING or get_info(name).costly)
    fewest = min(FEWEST_TEXTS, texts)
    while len(slow) > 1 and len(order) > 2 and fewest * sum(map(seconds.__getitem__, order)) > budget:
        slowest = slow.pop()
        order.remove(slowest)
        left_out[slowest] = f"too slow for the budget: {seconds[slowest]:.2g} s per text"
    fitting = int(budget / sum(map(seconds.__getitem__, order)))
    return Plan(methods=order, texts=max(fewest, min(texts, fitting)), left_out=left_out)


# ---- resuming --------------------------------------------------------------------------------------------------------


class _Planned(Shape):
    request: dict[str, Any]
    plan: Plan


def kept_plan(folder: Path | None, request: Mapping[str, Any], make: Callable[[], Plan]) -> Plan:
    """Return the plan of an earlier call in this folder with the same request, or else make one, and keep it there.

    Choices by speed are kept, so that an interrupted comparison resumes unchanged.

    Args:
        folder: the folder; None: nothing is kept.
        request: the arguments that the figures depend on.
        make: makes the plan.

    Raises:
        DataError: the plan is damaged.
    """
    if folder is None:
        return make()
    path = folder / PLAN
    if path.exists():
        hint = "; remove it, or work in another folder"
        planned: _Planned = check(_Planned, read_json(path), before=f"{path}, ", after=hint)
        if planned.request == request:
            return planned.plan
    plan = make()
    write_json(path, {"request": request, "plan": plan.model_dump()})
    return plan

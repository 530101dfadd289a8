"""The plan of a comparison: its methods and texts within a time budget."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated

from pydantic import Field

from explearn.core.errors import ParamsError, UnansweredError, UnsupportedError, shown
from explearn.core.examples import Example
from explearn.core.validation import MOST, Shape, check
from explearn.methods.base.explainer import Explainer
from explearn.methods.defaults import FLOOR, defaults
from explearn.methods.registry import get_info
from explearn.metrics.params import SanityParams
from explearn.metrics.significance import FEWEST_TEXTS
from explearn.show.blocks import several
from explearn.subject.subject import Subject
from explearn.text.units import Unit

JUDGING_PASSES = 8
"""Estimated passes, in whole texts, to evaluate one method on one text: some 16 shortened or masked inputs are
classified, many of them short, duplicates once."""

TIMED_TEXTS = 4
"""Number of texts on which a method's speed is measured."""

TIMED_TEXTS_COSTLY = 2
"""The same for methods of tens of passes or more."""

SANITY_TEXTS = 5
"""Number of texts explained again on perturbed models."""

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}

Tell = Callable[[str], None]


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


def kept_plan(subject: Subject, most: int, budget: float | None, end: float, unit: Unit, tell: Tell) -> Plan:
    """Return the plan that an earlier call made and kept, or make one: choices by speed stay as they were.

    Arguments and errors are those of `make_plan`.

    Raises:
        DataError: the kept plan is damaged.
    """
    make = partial(make_plan, subject, most, budget, end, unit, tell)
    kept = subject.work.part("plan", subject.origin.request, lambda: make().model_dump())
    plan: Plan = check(Plan, kept, before="plan.json, ", after="; remove it, or work in another folder")
    return plan


def make_plan(
    subject: Subject,
    most: int,
    budget: float | None,
    end: float,
    unit: Unit,
    tell: Tell,
) -> Plan:
    """Choose methods and texts. With a budget, every method is first timed on a few texts, for at most half of it.

    Args:
        subject: the classifier, the texts and the methods.
        most: most texts.
        budget: the budget in seconds; None: without one.
        end: its end, by `time.perf_counter`.
        unit: what methods score.
        tell: called with a sentence if the budget does not suffice.

    Raises:
        UnsupportedError: no method can explain the classifier.
    """
    classifier = subject.classifier
    texts = subject.texts
    left_out: dict[str, str] = {}
    usable: dict[str, Explainer] = {}
    for name, explainer in subject.explainers.items():
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
    forward = _seconds(lambda some: classifier.predict_proba(classifier.read(some)), sample)
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
        except (UnansweredError, UnsupportedError) as error:
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

    At least two methods stay, FLOOR among them if it is there; quick defaults of `compare` are dropped last.

    Args:
        seconds: method -> time to explain one text and to judge it.
        texts: number of texts.
        budget: remaining seconds.
    """
    order = sorted(seconds, key=seconds.__getitem__)
    left_out: dict[str, str] = {}
    # Without FLOOR, or with FLOOR alone, figures say nothing.
    slow = [name for name in order if name != FLOOR]
    first = [default.method for default in defaults("compare")]
    slow.sort(key=lambda name: name not in first or get_info(name).costly)
    fewest = min(FEWEST_TEXTS, texts)
    while len(slow) > 1 and len(order) > 2 and fewest * sum(map(seconds.__getitem__, order)) > budget:
        slowest = slow.pop()
        order.remove(slowest)
        left_out[slowest] = f"too slow for the budget: {seconds[slowest]:.2g} s per text"
    fitting = int(budget / sum(map(seconds.__getitem__, order)))
    return Plan(methods=order, texts=max(fewest, min(texts, fitting)), left_out=left_out)

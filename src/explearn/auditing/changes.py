"""Changes of reasons, inputs and answers since a reference, tested day by day.

A change counts if it began within the last days. The evidence of a figure is the mean over the days on which it may
have begun, each an e-value on whatever day one looks; so at most one watch in twenty names a change of reasons in a
whole year where there is none. Figures are corrected together by e-BH, which is Benjamini and Hochberg's procedure on
the inverse of e-values (Wang and Ramdas 2022, False discovery rate control with e-values).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explearn.auditing.claims import FEWEST_TEXTS
from explearn.auditing.tallies import LEVELS, Tally
from explearn.auditing.tested import CONFIDENCE, LEVEL, false_discovery
from explearn.core.arrays import Array, Counts, Mask
from explearn.metrics.betting import difference_interval, log_evidence_of_change, means

LEAST_CHANGE = 0.01
"""Smallest change that matters: one of a hundred texts."""

HORIZON = 365
"""Days after which a new reference is due: so many days may be the one on which a change began."""

MOST_ROWS = 200
"""Most changes on a page, for each of reasons, inputs and answers."""

TEXTS = "other texts"
CLASSIFIER = "another classifier"
RELATION = "another relation of reason and answer"
UNKNOWN = "other texts or another classifier"
"""Causes of a change of reasons."""

About = Literal["reasons", "inputs", "answers"]
ABOUT: tuple[About, ...] = ("reasons", "inputs", "answers")


class Figure(NamedTuple):
    """A share of texts, which may change; its fields are those of a `ChangedFigure`."""

    about: About
    element: str
    kind: str
    target: str
    group: str


@dataclass(frozen=True, slots=True)
class ChangedFigure:
    """A figure in the reference and now, each a share of texts.

    Attributes:
        about: what the figure is. reasons: the mean weight of the element in texts with this answer, 1 in a text where
            it has a quarter of the scores or more. inputs: the share of texts that have it. answers: that of texts with
            this answer.
        element: the element, in words; empty for an answer.
        kind: its kind.
        target: the answer; empty for inputs.
        group: the group; empty: all texts.
        texts: number of texts since `since` that have weight, the element or the answer.
        reference: the figure in the reference.
        now: the figure since `since`.
        difference: `now` less `reference`.
        low: lower bound of its 95 % interval, which holds on whatever day one looks.
        high: upper bound.
        corrected: p-value of a change by more than what matters, valid on whatever day one looks, corrected over all
            figures of reasons, inputs or answers (e-BH).
        changed: whether it is at most 0.05.
        since: the day on which the change began most probably; of what did not change, today.
        through_texts: of a changed reason's difference, how much comes from how often texts have the element.
        cause: why a reason changed; empty for others.
        effect_reference: mean fall of the answer's probability where the element is taken out of, or rise where it is
            put into, texts of the reference; None without a classifier.
        effect_now: the same in texts of today.
    """

    about: About
    element: str
    kind: str
    target: str
    group: str
    texts: int
    reference: float
    now: float
    difference: float
    low: float
    high: float
    corrected: float
    changed: bool
    since: str
    through_texts: float | None = None
    cause: str = ""
    effect_reference: float | None = None
    effect_now: float | None = None


def count_figures(tallies: Sequence[Tally]) -> tuple[list[Figure], Counts]:
    """Return the figures for which there are enough texts, and their counts by level, (tallies, figures, levels).

    Args:
        tallies: the reference, and each day.
    """
    names = list(tallies[0].lexicon.numbers)
    strata = sorted(set().union(*(tally.texts for tally in tallies)))
    figures: list[Figure] = []
    parts: list[NDArray[np.int32]] = []
    for group in sorted({group for _, group in strata}):
        targets = [target for target, of_group in strata if of_group == group]
        answered = np.zeros((len(tallies), len(targets)), dtype=np.int64)
        for day, number in np.ndindex(answered.shape):
            answered[day, number] = tallies[day].texts[targets[number], group]
        texts = answered.sum(axis=1, keepdims=True)
        having = np.zeros((len(tallies), len(names)), dtype=np.int64)
        for number, target in enumerate(targets):
            weights = np.stack([tally.of((target, group)) for tally in tallies])
            present = weights.sum(axis=2)
            having += present
            chosen = np.flatnonzero(present.sum(axis=0) >= FEWEST_TEXTS).tolist()
            counts = weights[:, chosen]
            counts[:, :, 0] += answered[:, [number]] - present[:, chosen]
            figures += [Figure("reasons", names[i][1], names[i][0], target, group) for i in chosen]
            parts.append(counts)
        chosen = np.flatnonzero(having.sum(axis=0) >= FEWEST_TEXTS).tolist()
        figures += [Figure("inputs", names[i][1], names[i][0], "", group) for i in chosen]
        figures += [Figure("answers", "", "answer", target, group) for target in targets]
        parts += [_yes_or_no(having[:, chosen], texts), _yes_or_no(answered, texts)]
    return figures, np.concatenate(parts, axis=1)


def _yes_or_no(hits: Counts, texts: Counts) -> NDArray[np.int32]:
    """Return counts of the lowest and the highest level, (tallies, figures, levels)."""
    counts = np.zeros((*hits.shape, LEVELS + 1), dtype=np.int32)
    counts[:, :, 0] = texts - hits
    counts[:, :, -1] = hits
    return counts


class JudgedDays(NamedTuple):
    """Figures that were tested.

    Attributes:
        figures: the figures.
        reference: counts by level in the reference, (figures, levels).
        today: the same of today.
        now: the same since the change began; of what did not change, of today.
        corrected: corrected p-values, (figures,).
        changed: whether each changed, (figures,).
        days: number of the days since the change began, today included, (figures,).
    """

    figures: Sequence[Figure]
    reference: Counts
    today: Counts
    now: Counts
    corrected: Array
    changed: Mask
    days: Counts


def judge(tallies: Sequence[Tally], least: float, horizon: int) -> JudgedDays:
    """Test whether figures changed by more than what matters.

    Args:
        tallies: the reference, and each day; the last is today.
        least: the smallest change that matters.
        horizon: number of days on which a change may begin.
    """
    figures, counts = count_figures(tallies)
    logs = []
    window = np.zeros_like(counts[0])
    for day in counts[:0:-1]:
        window = window + day
        logs.append(log_evidence_of_change(counts[0], window, least))
    evidence = np.logaddexp.reduce(logs) - np.log(horizon)
    corrected = np.exp(-np.maximum(evidence, 0))
    about = np.array([figure.about for figure in figures])
    for kind in ABOUT:
        corrected[about == kind] = false_discovery(corrected[about == kind])
    changed = corrected <= LEVEL
    days = np.where(changed, np.argmax(logs, axis=0) + 1, 1)
    now = counts[-1].copy()
    for row in np.flatnonzero(changed):
        now[row] = counts[-days[row] :, row].sum(axis=0)
    return JudgedDays(figures, counts[0], counts[-1], now, corrected, changed, days)


def changes(judged: JudgedDays, days: Sequence[str], other_classifier: bool) -> list[ChangedFigure]:
    """Return the changes for a page: those that rose, then those that fell, each by size; then what did not change.

    Args:
        judged: the figures.
        days: names of the days, today last.
        other_classifier: whether the classifier is another one.
    """
    before = means(judged.reference)
    after = means(judged.now)
    order = np.lexsort([-np.abs(after - before), judged.changed & (after < before), ~judged.changed])
    frequencies = {}
    for row, figure in enumerate(judged.figures):
        if figure.about == "inputs":
            frequencies[figure] = before[row], after[row]
    shown: dict[str, list[ChangedFigure]] = {about: [] for about in ABOUT}
    for row in order.tolist():
        figure = judged.figures[row]
        if len(shown[figure.about]) == MOST_ROWS:
            continue
        low, high = difference_interval(judged.reference[row], judged.now[row], CONFIDENCE)
        change = ChangedFigure(
            **figure._asdict(),
            texts=int(judged.now[row, 1:].sum()),
            reference=float(before[row]),
            now=float(after[row]),
            difference=float(after[row] - before[row]),
            low=low,
            high=high,
            corrected=float(judged.corrected[row]),
            changed=bool(judged.changed[row]),
            since=days[-judged.days[row]],
        )
        if change.changed and figure.about == "reasons":
            having = frequencies[figure._replace(about="inputs", target="")]
            change = _with_cause(change, *having, other_classifier)
        shown[figure.about].append(change)
    return list(chain.from_iterable(shown.values()))


def _with_cause(change: ChangedFigure, before: float, after: float, other_classifier: bool) -> ChangedFigure:
    """Tell how much of a reason's change comes from how often texts have it, from `before` to `after`.

    A figure is r f, where f is the share of all texts that have the element, and r all else: how such texts are
    answered, and the weight of the element in them. The difference is that of f times the mean r, which other texts
    make, and that of r times the mean f, which another classifier makes, or texts in which the element goes with other
    answers.
    """
    rates = [figure / share for figure, share in ((change.reference, before), (change.now, after)) if share]
    through_texts = float((after - before) * np.mean(rates))
    cause = RELATION
    if other_classifier:
        cause = CLASSIFIER
    if abs(through_texts) >= abs(change.difference - through_texts):
        cause = TEXTS
        if other_classifier and not before:
            cause = UNKNOWN
    return replace(change, through_texts=through_texts, cause=cause)

"""What changed between a reference and the days since: reasons, inputs and answers, each tested on every day.

A change counts if it began within the last days. The evidence of an element is the mean over the days on which it may
have begun; without any it stays an e-value on whatever day one looks, and so at most one watch in twenty names a change
of reasons in a whole year where there is none. Elements are corrected together by e-BH, which is Benjamini and
Hochberg's procedure on the inverse of e-values (Wang and Ramdas 2022, False discovery rate control with e-values).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from explearn.auditing.claims import FEWEST_TEXTS
from explearn.auditing.tallies import Lexicon, Name, Stratum, Tally
from explearn.auditing.tested import CONFIDENCE, LEVEL, false_discovery
from explearn.core.arrays import Array, Counts, Mask
from explearn.metrics.betting import difference_interval, log_evidence_of_change, means

LEAST_CHANGE = 0.01
"""Smallest change that matters: one of a hundred texts."""

HORIZON = 365
"""Days after which a new reference is due: so many days may be the one on which a change began."""

MOST_ROWS = 200
"""Most elements that are told of, of each of reasons, inputs and answers."""

TEXTS = "other texts"
CLASSIFIER = "another classifier"
RELATION = "another relation of reason and answer"
UNKNOWN = "other texts or another classifier"
"""Causes of a change of reasons."""

About = Literal["reasons", "inputs", "answers"]
ABOUT: tuple[About, ...] = ("reasons", "inputs", "answers")


@dataclass(frozen=True, slots=True)
class Change:
    """An element's figure in the reference and now, each a share of texts.

    Attributes:
        about: what the figure is. reasons: the mean weight of the element in texts with this answer, 1 in a text where
            it has a quarter of the scores or more. inputs: the share of texts that have it. answers: that of texts with
            this answer.
        element: the element, in words; empty for an answer.
        kind: its kind.
        target: the answer; empty for inputs.
        group: the group; empty: all texts.
        texts: number of texts with it since `since`.
        reference: the figure in the reference.
        now: the figure since `since`.
        difference: `now` less `reference`.
        low: lower bound of its 95 % interval, which holds on whatever day one looks.
        high: upper bound.
        corrected: p-value of a change by more than what matters, valid on whatever day one looks, corrected over all
            elements (e-BH).
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


class Figures(NamedTuple):
    """Figures of one kind, each as counts of equally spaced levels.

    Attributes:
        about: which kind.
        rows: name of the element and stratum of each.
        reference: counts in the reference, (rows, levels).
        days: the same for each day.
    """

    about: About
    rows: Sequence[tuple[Name, Stratum]]
    reference: Counts
    days: Sequence[Counts]


def figures_of(reference: Tally, days: Sequence[Tally]) -> list[Figures]:
    """Return all figures for which there are enough texts."""
    lexicon = reference.lexicon
    tallies = [reference, *days]
    strata = sorted(set().union(*(tally.texts for tally in tallies)))
    groups = sorted({group for _, group in strata})
    names = list(lexicon.numbers)
    reasons: list[tuple[Name, Stratum]] = []
    weights: list[list[Counts]] = [[] for _ in tallies]
    answers: list[tuple[Name, Stratum]] = []
    answered: list[list[Counts]] = [[] for _ in tallies]
    for stratum in strata:
        counts = [tally.of(stratum) for tally in tallies]
        chosen = np.flatnonzero(np.sum([of_tally.sum(axis=1) for of_tally in counts], axis=0) >= FEWEST_TEXTS)
        reasons += [(names[number], stratum) for number in chosen]
        answers.append((("answer", ""), stratum))
        for place, tally in enumerate(tallies):
            present: Counts = counts[place][chosen].astype(np.int64)
            present[:, 0] += tally.texts[stratum] - present.sum(axis=1)
            weights[place].append(present)
            answered[place].append(_two_levels(np.array([tally.texts[stratum]]), texts_in(tally, stratum[1])))
    inputs: list[tuple[Name, Stratum]] = []
    having: list[list[Counts]] = [[] for _ in tallies]
    for group in groups:
        present_in = [texts_with(tally, group) for tally in tallies]
        chosen = np.flatnonzero(np.sum(present_in, axis=0) >= FEWEST_TEXTS)
        inputs += [(names[number], ("", group)) for number in chosen]
        for place, tally in enumerate(tallies):
            having[place].append(_two_levels(present_in[place][chosen], texts_in(tally, group)))
    found = []
    for about, rows, parts in zip(ABOUT, (reasons, inputs, answers), (weights, having, answered), strict=True):
        if rows:
            joined = [np.concatenate(of_tally) for of_tally in parts]
            found.append(Figures(about, rows, joined[0], joined[1:]))
    return found


def texts_in(tally: Tally, group: str) -> int:
    """Return the number of a group's texts."""
    return sum(count for (_, of_group), count in tally.texts.items() if of_group == group)


def texts_with(tally: Tally, group: str) -> Counts:
    """Return how many of a group's texts have each element, (elements,)."""
    total = np.zeros(len(tally.lexicon.numbers), dtype=np.int64)
    for stratum in list(tally.counts):
        if stratum[1] == group:
            total += tally.of(stratum).sum(axis=1)
    return total


def _two_levels(hits: Counts, texts: int) -> Counts:
    return np.stack([texts - hits, hits], axis=1)


class Judged(NamedTuple):
    """Figures, tested.

    Attributes:
        figures: the figures.
        corrected: corrected p-values, (rows,).
        changed: whether each changed, (rows,).
        window: number of the days since the change began, today included, (rows,).
    """

    figures: Figures
    corrected: Array
    changed: Mask
    window: Counts

    def since(self, row: int) -> Counts:
        """Return the counts of a figure since its change began."""
        days = self.figures.days[-self.window[row] :]
        return np.asarray(np.sum([day[row] for day in days], axis=0))


def judge(figures: Figures, least: float, horizon: int) -> Judged:
    """Test whether figures changed by more than what matters.

    Args:
        figures: the figures; the last day is today.
        least: the smallest change that matters.
        horizon: number of days on which a change may begin.
    """
    logs = []
    window = np.zeros_like(figures.reference)
    for day in reversed(figures.days):
        window = window + day
        logs.append(log_evidence_of_change(figures.reference, window, least))
    evidence = np.logaddexp.reduce(logs) - np.log(horizon)
    corrected = false_discovery(np.exp(-np.maximum(evidence, 0)))
    changed = corrected <= LEVEL
    best = np.where(changed, np.argmax(logs, axis=0) + 1, 1)
    return Judged(figures, corrected, changed, best)


def changes(
    judged: Judged, days: Sequence[str], reference: Tally, tallies: Sequence[Tally], other_classifier: bool
) -> list[Change]:
    """Return the figures that are told of: those that rose first, then those that fell, the largest differences first.

    Args:
        judged: the figures.
        days: names of the days, today last.
        reference: the reference.
        tallies: the days.
        other_classifier: whether the classifier is another one.
    """
    figures = judged.figures
    windows = np.array([judged.since(row) for row in range(len(figures.rows))])
    differences = means(windows) - means(figures.reference)

    def place(row: int) -> tuple[bool, bool, float]:
        changed = bool(judged.changed[row])
        return not changed, changed and differences[row] < 0, -abs(differences[row])

    order = sorted(range(len(figures.rows)), key=place)
    told = []
    for row in order[:MOST_ROWS]:
        (kind, element), (target, group) = figures.rows[row]
        first, second = figures.reference[row], windows[row]
        low, high = difference_interval(first, second, CONFIDENCE)
        change = Change(
            about=figures.about,
            element=element,
            kind=kind,
            target=target,
            group=group,
            texts=int(second[1:].sum()),
            reference=float(means(first)),
            now=float(means(second)),
            difference=float(differences[row]),
            low=low,
            high=high,
            corrected=float(judged.corrected[row]),
            changed=bool(judged.changed[row]),
            since=days[-judged.window[row]],
        )
        if change.changed and change.about == "reasons":
            recent = tallies[-judged.window[row] :]
            change = _with_cause(change, reference, recent, other_classifier)
        told.append(change)
    return told


def _with_cause(change: Change, reference: Tally, days: Sequence[Tally], other_classifier: bool) -> Change:
    """Tell how much of a reason's change comes from how often texts have it.

    A figure is r f, where f is the share of all texts that have the element, and r all else: how such texts are
    answered, and the weight of the element in them. The difference is that of f times the mean r, which other texts
    make, and that of r times the mean f, which another classifier makes, or texts in which the element goes with other
    answers.
    """
    number = reference.lexicon.numbers[change.kind, change.element]
    before = texts_with(reference, change.group)[number] / max(1, texts_in(reference, change.group))
    having = sum(texts_with(day, change.group)[number] for day in days)
    after = having / max(1, sum(texts_in(day, change.group) for day in days))
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


def history_rows(judged: Judged, lexicon: Lexicon, today: Tally) -> Iterator[dict[str, object]]:
    """Yield today's rows of the history."""
    figures = judged.figures
    values = means(figures.days[-1])
    for row, ((kind, element), (target, group)) in enumerate(figures.rows):
        counts: Sequence[int] = ()
        texts = int(figures.days[-1][row][1:].sum())
        if figures.about == "reasons":
            counts = today.of((target, group))[lexicon.numbers[kind, element]].tolist()
            texts = sum(counts)
        if not texts:
            continue
        yield {
            "about": figures.about,
            "element": element,
            "kind": kind,
            "target": target,
            "group": group,
            "texts": texts,
            "value": float(values[row]),
            "corrected": float(judged.corrected[row]),
            "changed": bool(judged.changed[row]),
            "counts": counts,
        }

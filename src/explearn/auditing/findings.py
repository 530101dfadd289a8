"""What an audit finds: claims that were tested, causes of errors, and groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from explearn.report.result import frame_of

if TYPE_CHECKING:
    import pandas as pd

FEWEST_VALUES = 8
"""Texts below which a claim is not tested."""

NO_GROUP = "no group"
"""Stands for the group of texts whose group is not known."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim that an element counts for a class, and what interventions say of it.

    Attributes:
        element: the element, in words.
        kind: word, phrase, order, together, place, class of words, punctuation, pattern or length.
        target: the class for which it counts.
        source: where the claim comes from: attributions, word counts (words that go with the answer), or both.
        texts: number of texts that have it.
        score: mean share of a text's attributions beyond that of as many average words, over the searched texts with
            this answer; None if it has none.
        score_low: lower bound of its 95 % interval.
        score_high: upper bound.
        taken_out: mean fall of the class's probability where it was taken out; None if it was not.
        put_in: mean rise of the class's probability where it was put in.
        effect: mean over both; of a phrase, words together, an order or a place, like the two before, the change beyond
            that of its words, the other order or the other place.
        low: lower bound of the effect's 95 % interval.
        high: upper bound.
        changed: number of texts that were changed.
        p_value: of Wilcoxon's signed-rank test over these texts.
        corrected: the same, corrected over all claims (Benjamini and Hochberg).
        confirmed: whether the claim stands.
    """

    element: str
    kind: str
    target: str
    source: str
    texts: int
    score: float | None
    score_low: float | None
    score_high: float | None
    taken_out: float | None
    put_in: float | None
    effect: float | None
    low: float | None
    high: float | None
    changed: int
    p_value: float
    corrected: float
    confirmed: bool


@dataclass(frozen=True, slots=True)
class ErrorCause:
    """A confirmed finding that counts on the wrong side.

    Attributes:
        element: the element, in words.
        kind: its kind.
        target: the wrong answer.
        wrong: number of texts with this wrong answer that have the element (at most 200 are looked at).
        mended: number of these that get the right answer without it.
        right_lost: number of right answers of this class, of as many texts that have it, that are lost without it.
        right: number of these texts.
    """

    element: str
    kind: str
    target: str
    wrong: int
    mended: int
    right_lost: int
    right: int


@dataclass(frozen=True, slots=True)
class FalseAlarms:
    """What the classifier answers to texts that should pass.

    Attributes:
        passes: the answer that they should get.
        texts: number of the texts.
        alarms: number of those that get another answer.
        share: share of these.
        low: lower bound of its 95 % interval.
        high: upper bound.
        causes: confirmed findings without which they would pass, those that mend most first.
    """

    passes: str
    texts: int
    alarms: int
    share: float
    low: float | None
    high: float | None
    causes: Sequence[ErrorCause]


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """What the classifier does with the texts of a group.

    Attributes:
        group: its name; NO_GROUP for the texts without one, which are only counted.
        texts: number of its texts.
        rates: class -> share of its texts with this answer; empty without a group.
        accuracy: share of right answers to texts with a label; None without labels.
        accuracy_low: lower bound of its 95 % interval.
        accuracy_high: upper bound.
        small: whether it has fewer than 20 texts, so that its figures say little.
    """

    group: str
    texts: int
    rates: Mapping[str, float]
    accuracy: float | None
    accuracy_low: float | None
    accuracy_high: float | None
    small: bool


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """A confirmed finding whose effect in a group was compared with the other texts.

    Attributes:
        group: name of the group.
        element: the element, in words.
        kind: its kind.
        target: the class for which it counts.
        inside: mean fall of the probability in the group where it is taken out.
        outside: the same in the other texts.
        corrected: p-value of the Mann-Whitney test, corrected over all such comparisons.
        differs: whether it is at most 0.05.
    """

    group: str
    element: str
    kind: str
    target: str
    inside: float
    outside: float
    corrected: float
    differs: bool


class FindingList(list[Finding]):
    """The findings of an audit, confirmed ones first, the largest effects first."""

    @property
    def confirmed(self) -> FindingList:
        """Those that stand."""
        return FindingList(finding for finding in self if finding.confirmed)

    @property
    def untested(self) -> FindingList:
        """Those for which too few texts could be changed."""
        return FindingList(finding for finding in self if finding.changed < FEWEST_VALUES)

    def of_class(self, target: str) -> FindingList:
        """Return those of a class."""
        return FindingList(finding for finding in self if finding.target == target)

    def to_frame(self) -> pd.DataFrame:
        """Return a frame with one row a finding.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return frame_of(self, Finding)

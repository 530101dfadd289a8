"""What changed between two classifiers: answers, findings and reasons, in sentences, and its page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from explearn.auditing.result import Result
from explearn.auditing.tables import MOST_NAMED, listed, percent, records_table
from explearn.auditing.tested import LEAST_EFFECT, LEVEL
from explearn.show.blocks import Block, Bullets, Heading, Paragraph, bold, several

MOST_ANSWERS = 100
"""Changed answers on the page; all are in the JSON beside it."""


@dataclass(frozen=True, slots=True)
class ChangedFinding:
    """A finding that is confirmed for one of two classifiers or both.

    Attributes:
        element: the element, in words.
        kind: its kind.
        target: the class for which it counts.
        status: came, went, grew, shrank, or the same.
        before: mean effect on the old classifier's probability.
        after: the same for the new one.
        difference: `after` less `before`.
        low: lower bound of its 95 % interval.
        high: upper bound.
        corrected: p-value of the difference, corrected over all these findings.
    """

    element: str
    kind: str
    target: str
    status: str
    before: float
    after: float
    difference: float
    low: float | None
    high: float | None
    corrected: float


@dataclass(frozen=True, slots=True)
class ChangedAnswer:
    """A text whose answer changed.

    Attributes:
        id: its id.
        text: its words.
        before: the old answer.
        after: the new one.
        probability_before: the old classifier's probability of the new answer.
        probability: the new classifier's.
    """

    id: str
    text: str
    before: str
    after: str
    probability_before: float
    probability: float


@dataclass(frozen=True, slots=True)
class ChangedReasons:
    """A text whose answer stayed, with how far the scores of its words did.

    Attributes:
        id: its id.
        text: its words.
        answer: the answer.
        correlation: Spearman's rank correlation of old and new scores.
        before: the highest-scoring words for the old classifier.
        after: the same for the new one.
    """

    id: str
    text: str
    answer: str
    correlation: float
    before: str
    after: str


@dataclass(frozen=True, slots=True, repr=False)
class Diff(Result):
    """A comparison of two classifiers on the same texts.

    Attributes:
        findings: findings confirmed for either classifier, those that changed most first.
        answers: texts whose answer changed, those whose probability changed most first.
        reasons: texts whose answer stayed, those whose scores changed most first.
        texts: number of texts.
        method: the method of the attributions.
        origin: where it comes from.
        page: path of the page; None if none was written.

    Example:
        >>> import explearn
        >>> def predict_proba(texts):
        ...     return [[0.1, 0.9] if "moron" in text else [0.8, 0.2] for text in texts]
        >>> classifier = explearn.FunctionPredictor(predict_proba, ["polite", "rude"])
        >>> texts = [f"what a {word} said {i}" for i in range(40) for word in ("moron", "friend")]
        >>> explearn.diff(classifier, classifier, texts).share
        0.0
    """

    name = "diff"
    saved = ("findings", "answers", "reasons", "texts", "method")
    table = "findings"
    row = ChangedFinding
    filtered = "Kinds of findings"

    findings: Sequence[ChangedFinding]
    answers: Sequence[ChangedAnswer]
    reasons: Sequence[ChangedReasons]
    texts: int
    method: str

    def __str__(self) -> str:
        return f"{several(len(self.answers), 'changed answer')} on {several(self.texts, 'text')}"

    @property
    def share(self) -> float:
        """Share of the texts whose answer changed."""
        return len(self.answers) / self.texts

    def bold_sentences(self) -> list[str]:
        """Return what changed: answers, findings, the largest changes, and reasons."""
        changed = len(self.answers)
        answers = bold(f"{changed:,} of {several(self.texts, 'answer')} changed")
        counts = Counter(change.status for change in self.findings)
        statuses = [f"{counts[status]} {status}" for status in ("came", "went", "grew", "shrank")]
        largest = [change for change in self.findings if change.status != "the same"][:MOST_NAMED]
        named = [
            f"{bold(change.element)} for {change.target} {change.status} ({change.before:+.2f} to {change.after:+.2f})"
            for change in largest
        ]
        strongest = "No confirmed finding changed by more than chance."
        if named:
            strongest = f"The largest changes: {listed(named)} (mean change of the probability of this answer)."
        reasons = "No text kept its answer and can be compared."
        if self.reasons:
            least = self.reasons[0]
            reasons = (
                f"Among answers that stayed, the reasons changed most for ‘{least.text[:80]}’: once {least.before}, "
                f"now {least.after}."
            )
            if math.isclose(least.correlation, 1):
                reasons = "Among answers that stayed, no reasons changed."
        return [
            f"{answers} ({percent(changed / self.texts)}) from the old classifier to the new.",
            f"Of {several(len(self.findings), 'finding')} confirmed for either, {listed(statuses)}; "
            f"{counts['the same']} without a change beyond chance.",
            strongest,
            reasons,
        ]

    def blocks(self) -> list[Block]:
        """Return the page of a difference, but for how it was made."""
        finding_columns = {
            "Element": "element",
            "Counts for": "target",
            "Change": "status",
            "Difference": "difference",
            "Effect before": "before",
            "Effect now": "after",
            "Corrected p-value": "corrected",
            "Kind": "kind",
        }
        answer_columns = {
            "Text": "text",
            "Answer before": "before",
            "Answer now": "after",
            "Its probability before": "probability_before",
            "Its probability now": "probability",
        }
        reason_columns = {
            "Text": "text",
            "Answer": "answer",
            "Strongest words before": "before",
            "Strongest words now": "after",
            "Rank correlation": "correlation",
        }
        answers = self.answers[:MOST_ANSWERS]
        return [
            Heading("What changed between two classifiers", level=1),
            Bullets(self.bold_sentences()),
            Heading("Findings"),
            records_table("Findings confirmed for either classifier", self.findings, finding_columns),
            Heading("Changed answers"),
            records_table(f"Texts with another answer, at most {MOST_ANSWERS}", answers, answer_columns),
            Heading("Changed reasons"),
            records_table("Texts with the same answer whose scores changed most", self.reasons, reason_columns),
            Heading("How this was done"),
            Paragraph(
                f"Both classifiers were audited on the same texts, explained by {self.method}; the claims of both were "
                f"tested on both, by the same changes of the same texts. A change counts if p is at most {LEVEL:g} in "
                "Wilcoxon's signed-rank test of the two effects over the changed texts, after Benjamini and Hochberg's "
                f"correction, and the difference is at least {LEAST_EFFECT:g}."
            ),
        ]

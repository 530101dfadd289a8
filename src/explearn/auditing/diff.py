"""Two classifiers on the same texts: which answers, findings and reasons changed; and the page that shows it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from explearn.auditing.claims import Claim, find_claims
from explearn.auditing.findings import FEWEST_VALUES, Finding
from explearn.auditing.reading import AuditOptions, AuditText, audited_texts, explain_texts, halves
from explearn.auditing.tables import EFFECT, MOST_NAMED, percent, records_table
from explearn.auditing.tested import CONFIDENCE, LEAST_EFFECT, LEVEL, Tested, centred_at_zero, known
from explearn.core.arguments import inputs_left_as_they_came, options_of
from explearn.core.arrays import Array
from explearn.core.documents import checked_path
from explearn.core.errors import ParamsError, listed
from explearn.methods.base.explainer import Explainer, unread_words_known
from explearn.metrics.arrays import without_rounding
from explearn.metrics.sanity import rank_correlations
from explearn.metrics.significance import holm, mean_interval
from explearn.report.result import Result
from explearn.show.blocks import Block, Bullets, Heading, Paragraph, bold, several
from explearn.subject.subject import make_subject
from explearn.text.elements import Element, Pattern
from explearn.text.scored import Vocabulary, bare

MOST_SHOWN = 50
"""Texts whose reasons changed most."""

TOP_WORDS = 3

ORDER = {"came": 0, "went": 0, "grew": 1, "shrank": 1, "the same": 2}
"""Status of a finding -> its place on the page."""

MOST_ANSWERS = 100
"""Changed answers on the page; all are in the JSON beside it."""


FINDING_COLUMNS = {
    "Element": "element",
    "Counts for": "target",
    "Change": "status",
    "Texts with it": "texts",
    "Difference": "difference",
    "Effect before": "before",
    "Effect now": "after",
    "Corrected p-value": "corrected",
    "Kind": "kind",
}
"""Heading -> attribute of a `ChangedFinding`."""

ANSWER_COLUMNS = {
    "Text": "text",
    "Answer before": "before",
    "Answer now": "after",
    "Its probability before": "probability_before",
    "Its probability now": "probability",
}
"""Heading -> attribute of a `ChangedAnswer`."""


@inputs_left_as_they_came
def diff(
    classifier: Any,
    against: Any,
    texts: Any,
    method: str | Explainer | None = None,
    *,
    out: str | Path | None = None,
    options: AuditOptions | None = None,
) -> Diff:
    """Compare two classifiers on the same texts: answers, confirmed findings, and reasons.

    The claims of both (`explearn.audit`) are tested on both, by the same changes of the same texts. A finding came if
    it is confirmed for the new classifier only, and its effects differ (Wilcoxon's signed-rank test over the changed
    texts, corrected after Holm over all claims) by 0.01 or more; it went, grew or shrank likewise. So at most one
    comparison in twenty names a change where two classifiers differ by noise alone.

    Args:
        classifier: the new one, as for `explearn.explain`.
        against: the old one, with the same classes in any order.
        texts: as for `explearn.audit`.
        method: a method's name, or an explainer, for both. None: as `explearn.explain` for the new one.
        out: a page to write (`Diff.save`).
        options: further settings.

    Returns:
        The changes.

    Raises:
        ParamsError: the classifiers have other classes, or an argument cannot be used.
        DataError: as `explearn.audit`.
        ModelError: a classifier cannot be loaded.
        UnsupportedError: the method cannot explain one of them.

    Example:
        >>> import explearn
        >>> def classifier(word, name):
        ...     def predict_proba(texts):
        ...         return [[0.1, 0.9] if word in text else [0.8, 0.2] for text in texts]
        ...     return explearn.FunctionPredictor(predict_proba, ["polite", "rude"], name=name)
        >>> texts = [f"what a {word} said {i}" for i in range(40) for word in ("moron", "friend")]
        >>> changes = explearn.diff(classifier("moron", "new"), classifier("friend", "old"), texts)
        >>> changes.share
        1.0
        >>> [change.status for change in changes.findings if change.element == "‘moron’"][:1]
        ['came']
    """
    options = options_of(AuditOptions, options)
    if out is not None:
        Diff.check_place(Path(checked_path(out, "out")))
    patterns = [Pattern(pattern) for pattern in dict.fromkeys(options.patterns)]
    subject_of = partial(
        make_subject,
        "explearn.diff",
        seed=options.seed,
        compute=options.compute,
        files=[texts],
        settings={"patterns": list(options.patterns)},
    )
    user_texts = audited_texts(texts, None, None, options.columns)
    new = subject_of(classifier, user_texts, [method], work=options.work)
    # Each keeps its own parts: functions may differ where their fingerprints, answers to fixed texts, do not.
    of_old = options.work and Path(options.work) / "against"
    old = subject_of(against, new.texts, list(new.explainers.values()), work=of_old)
    if len(old.texts.examples) < len(new.texts.examples):  # those without an answer of one are left out for both
        new = subject_of(classifier, old.texts, [method], work=options.work)
    labels = new.classifier.labels
    if sorted(labels) != sorted(old.classifier.labels):
        raise ParamsError(
            f"against: got the classes {', '.join(old.classifier.labels)}; expected those of the new classifier, "
            f"{', '.join(labels)} (rename them: --against-class-name, `Predictor.renamed`)"
        )
    searched, held_out = halves(new.texts.examples, options.seed)
    every = range(len(new.texts.examples))
    with unread_words_known():
        read = explain_texts(new, labels, every, None, options.show_progress)
        before = explain_texts(old, labels, every, None, options.show_progress)
    vocabulary = Vocabulary.from_texts([*read, *before])
    claims: dict[tuple[Element, int], Claim] = {}
    for answered in (read, before):
        chosen = [answered[i] for i in searched if answered[i].shares is not None]
        for claim in find_claims(chosen, vocabulary, patterns):
            claims.setdefault((claim.element, claim.target), claim)
    effects = []
    findings = []
    for subject, answered in ((new, read), (old, before)):
        tested = Tested(subject, labels, answered, vocabulary, searched, held_out, list(claims.values()))
        findings.append(tested.run(options.show_progress))
        effects.append([tested.effects[element].of_class(target) for element, target in claims])
    result = Diff(
        findings=_changes(list(claims), findings, effects, labels),
        answers=changed_answers(read, before, labels),
        reasons=_changed_reasons(read, before, labels),
        texts=len(read),
        method=next(iter(new.explainers)),
        hint=new.texts.hint,
        origin=replace(new.origin, request={**new.origin.request, "against": old.classifier.fingerprint}),
    )
    if out is None:
        return result
    return result.save(out)


def _changes(
    claims: Sequence[tuple[Element, int]],
    tested: Sequence[Sequence[Finding]],
    effects: Sequence[Sequence[Array]],
    labels: Sequence[str],
) -> list[ChangedFinding]:
    """Return the confirmed findings of either classifier, in the order of `_order`.

    Differences are corrected over all claims that could be tested: those that are confirmed were chosen by the same
    effects.

    Args:
        claims: element and index of the class for which it counts.
        tested: what was found of each claim, for the new and the old classifier.
        effects: by text, likewise.
        labels: the classes.
    """
    after, before = tested
    differences = [new - old for new, old in zip(*effects, strict=True)]
    testable = np.array([len(known(values)) >= FEWEST_VALUES for values in differences], dtype=np.bool_)
    corrected = centred_at_zero(differences)
    corrected[testable] = holm(corrected[testable])
    changes = []
    for i, (element, target) in enumerate(claims):
        if not (after[i].confirmed or before[i].confirmed):
            continue
        both = ~np.isnan(differences[i])
        values = differences[i][both]
        p_value = float(corrected[i])
        difference = float(values.mean())
        low, high = mean_interval(values, CONFIDENCE, -2, 2)
        status = "the same"
        if p_value <= LEVEL and abs(difference) >= LEAST_EFFECT:
            status = _status(before[i].confirmed, after[i].confirmed, difference)
        means = float(effects[1][i][both].mean()), float(effects[0][i][both].mean())
        label = labels[target]
        changes.append(
            ChangedFinding(
                str(element), element.kind, label, status, after[i].texts, *means, difference, low, high, p_value
            )
        )
    return sorted(changes, key=_order)


def _order(change: ChangedFinding) -> tuple[int, float, str]:
    """Return what a change is sorted by: what came or went first, what does most over all texts first."""
    return ORDER[change.status], -abs(change.difference) * change.texts, change.element


def _status(was: bool, stands: bool, difference: float) -> str:
    if difference > 0:
        if was:
            return "grew"
        return "came"
    if stands:
        return "shrank"
    return "went"


def changed_answers(
    after: Sequence[AuditText], before: Sequence[AuditText], labels: Sequence[str]
) -> list[ChangedAnswer]:
    changed = []
    for new, old in zip(after, before, strict=True):
        if new.predicted != old.predicted:
            probabilities = float(old.probabilities[new.predicted]), float(new.probabilities[new.predicted])
            answers = labels[old.predicted], labels[new.predicted]
            changed.append(ChangedAnswer(new.example.id, " ".join(new.words), *answers, *probabilities))
    return sorted(changed, key=lambda answer: (answer.probability_before - answer.probability, answer.id))


def _changed_reasons(
    after: Sequence[AuditText], before: Sequence[AuditText], labels: Sequence[str]
) -> list[ChangedReasons]:
    """Return the texts with the same answer whose scores correlate least (Spearman)."""
    changed = []
    for new, old in zip(after, before, strict=True):
        if new.predicted != old.predicted or new.shares is None or old.shares is None:
            continue
        correlation = float(rank_correlations([without_rounding(new.shares)], [without_rounding(old.shares)])[0])
        if np.isnan(correlation):
            continue
        text = " ".join(new.words)
        answer = labels[new.predicted]
        changed.append(ChangedReasons(new.example.id, text, answer, correlation, _top_words(old), _top_words(new)))
    return sorted(changed, key=lambda reasons: (reasons.correlation, reasons.id))[:MOST_SHOWN]


def _top_words(text: AuditText) -> str:
    return ", ".join(f"‘{bare(text.words[number])}’" for number in text.strongest(TOP_WORDS))


# ---- the result ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChangedFinding:
    """A finding that is confirmed for one of two classifiers or both.

    Attributes:
        element: the element, in words.
        kind: its kind.
        target: the class for which it counts.
        status: came, went, grew, shrank, or the same.
        texts: number of texts that have the element.
        before: mean effect on the old classifier's probability.
        after: the same for the new one.
        difference: `after` less `before`.
        low: lower bound of its 95 % interval.
        high: upper bound.
        corrected: p-value of the difference, corrected over all claims (Holm).
    """

    element: str
    kind: str
    target: str
    status: str
    texts: int
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
        findings: findings confirmed for either classifier: those that came or went, those that grew or shrank, and
            the others; among these first what has the largest difference times the number of its texts.
        answers: texts whose answer changed, those whose probability changed most first.
        reasons: texts whose answer stayed, those whose scores changed most first.
        texts: number of texts.
        method: the method of the attributions.
        hint: sentences on texts that were left out, and columns that were not used.
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
    saved = ("findings", "answers", "reasons", "texts", "method", "hint")
    table = "findings"
    row = ChangedFinding

    findings: Sequence[ChangedFinding]
    answers: Sequence[ChangedAnswer]
    reasons: Sequence[ChangedReasons]
    texts: int
    method: str
    hint: str

    @property
    def share(self) -> float:
        """Share of the texts whose answer changed."""
        return len(self.answers) / self.texts

    def bold_sentences(self) -> list[str]:
        """Return what changed: answers, the changes that matter most, the number of changes, and reasons."""
        changed = len(self.answers)
        answers = bold(f"{changed:,} of {several(self.texts, 'answer')} changed")
        counts = Counter(change.status for change in self.findings)
        statuses = [f"{counts[status]} {status}" for status in ("came", "went", "grew", "shrank")]
        named = []
        for change in self.findings[:MOST_NAMED]:
            if change.status != "the same":
                share = percent(change.texts / self.texts)
                effects = f"{change.before:+.2f} to {change.after:+.2f}, in {share} of the texts"
                named.append(f"{bold(change.element)} for {change.target} {change.status} ({effects})")
        strongest = "No confirmed finding changed by more than chance."
        if named:
            strongest = f"What matters most: {listed(named)} ({EFFECT})."
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
            strongest,
            f"Of {several(len(self.findings), 'finding')} confirmed for either, {listed(statuses)}; "
            f"{counts['the same']} without a change beyond chance.",
            reasons,
        ]

    def blocks(self) -> list[Block]:
        """Return the page of a difference, but for how it was made."""
        reason_columns = {
            "Text": "text",
            "Answer": "answer",
            "Strongest words before": "before",
            "Strongest words now": "after",
            "Rank correlation": "correlation",
        }
        answers = self.answers[:MOST_ANSWERS]
        notes = []
        if self.hint:
            notes.append(Paragraph(self.hint, style="note"))
        return [
            Heading("What changed between two classifiers", level=1),
            Bullets(self.bold_sentences()),
            *notes,
            Heading("Findings"),
            records_table("Findings confirmed for either classifier", self.findings, FINDING_COLUMNS),
            Heading("Changed answers"),
            records_table(f"Texts with another answer, at most {MOST_ANSWERS}", answers, ANSWER_COLUMNS),
            Heading("Changed reasons"),
            records_table("Texts with the same answer whose scores changed most", self.reasons, reason_columns),
            Heading("How this was done"),
            Paragraph(
                f"Both classifiers were audited on the same texts, explained by {self.method}; the claims of both were "
                f"tested on both, by the same changes of the same texts. A change counts if p is at most {LEVEL:g} in "
                "Wilcoxon's signed-rank test of the two effects over the changed texts, after Holm's correction over "
                f"all claims, and the difference is at least {LEAST_EFFECT:g}."
            ),
        ]

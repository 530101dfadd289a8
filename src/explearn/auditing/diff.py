"""Two classifiers on the same texts: which answers, findings and reasons changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from explearn.auditing.candidates import Candidate, find_candidates
from explearn.auditing.elements import Vocabulary
from explearn.auditing.findings import Change, ChangedAnswer, ChangedReasons, DiffFigures
from explearn.auditing.intervene import LEAST_EFFECT, LEVEL, corrected_tests, judge
from explearn.auditing.origin import Origin, check_page, write_page
from explearn.auditing.page import diff_blocks
from explearn.auditing.reading import AuditOptions, explain_texts, halves, read_subject
from explearn.auditing.run import Checked
from explearn.auditing.sentences import diff_sentences
from explearn.auditing.tested import Tested
from explearn.auditing.texts import AuditText
from explearn.auditing.work import Work
from explearn.core.errors import ParamsError
from explearn.core.escape import printable
from explearn.core.validation import check_section
from explearn.methods.base.explainer import Explainer, unread_words_known
from explearn.metrics.significance import mean_interval
from explearn.show.blocks import plain, several

MOST_SHOWN = 50
"""Texts whose reasons changed most."""

TOP_WORDS = 3


@dataclass(frozen=True, slots=True, repr=False)
class Diff(DiffFigures):
    """A comparison of two classifiers on the same texts; `DiffFigures` has its figures.

    Attributes:
        origin: from what it was made.
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

    origin: Origin = field(repr=False)
    page: Path | None = None

    def __str__(self) -> str:
        return f"{several(len(self.answers), 'changed answer')} on {several(self.texts, 'text')}"

    def __repr__(self) -> str:
        return f"Diff({self})"

    @property
    def share(self) -> float:
        """Share of the texts whose answer changed."""
        return len(self.answers) / self.texts

    def sentences(self) -> list[str]:
        """Return the result in plain sentences."""
        return [plain(sentence) for sentence in diff_sentences(self)]

    def print(self) -> None:
        """Print the sentences."""
        for sentence in self.sentences():
            print(printable(sentence))

    def save(self, path: str | Path) -> Diff:
        """Write the page, with its manifest, CSV and JSON, as `Audit.save` does."""
        rows = [asdict(change) for change in self.findings]
        document = {
            "texts": self.texts,
            "method": self.method,
            "answers": [asdict(answer) for answer in self.answers],
            "reasons": [asdict(reasons) for reasons in self.reasons],
            "findings": rows,
        }
        return write_page(self, Path(path), diff_blocks, document, rows, " ".join(self.sentences()))


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
    texts, corrected after Benjamini and Hochberg) by 0.01 or more; it went, grew or shrank likewise.

    Args:
        classifier: the new one, as for `explearn.explain`.
        against: the old one, with the same classes.
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
        >>> changes
        Diff(80 changed answers on 80 texts)
        >>> [change.status for change in changes.findings if change.element == "‘moron’"][:1]
        ['came']
    """
    options = options or AuditOptions()
    checked = check_section(Checked, {"seed": options.seed, "out": out, "work": options.work})
    if checked.out is not None:
        check_page(checked.out)
    new = read_subject(classifier, texts, None, None, method, options, "explearn.diff")
    old = read_subject(against, texts, None, None, new.explainer, options, "explearn.diff")
    if new.model.labels != old.model.labels:
        raise ParamsError(
            f"against: got the classes {', '.join(old.model.labels)}; expected those of the new classifier, "
            f"{', '.join(new.model.labels)}, in this order (rename them with --label-name)"
        )
    request = {**new.origin.request, "against": old.model.fingerprint}
    origin = Origin("explearn.diff", classifier, new.model, new.origin.compute, [texts], request)
    work = Work(checked.work, request)
    searched, held_out = halves(new.user_texts.examples, checked.seed)
    every = range(len(new.user_texts.examples))
    with unread_words_known():
        read, _ = explain_texts(new, every, work, options.show_progress)
        before, _ = explain_texts(old, every, work, options.show_progress)
    known = Vocabulary.of([*read, *before])
    claims: dict[tuple[Any, int], Candidate] = {}
    for of_one in (read, before):
        chosen = [of_one[i] for i in searched]
        for candidate in find_candidates(chosen, known, options.patterns, len(new.model.labels)):
            claims.setdefault((candidate.element, candidate.target), candidate)
    tests = []
    for subject, of_one in ((new, read), (old, before)):
        answers = np.array([text.probabilities for text in of_one])
        tested = Tested(subject, read, answers, known, searched, held_out, list(claims.values()))
        tested.run(work, "effects", options.show_progress)
        tests.append(tested)
    result = Diff(
        findings=_changes(list(claims), tests[0], tests[1]),
        answers=_changed_answers(read, before, new.model.labels),
        reasons=_changed_reasons(read, before, new.model.labels),
        texts=len(read),
        method=new.explainer.name,
        labels=new.model.labels,
        origin=origin,
    )
    return result if checked.out is None else result.save(checked.out)


def _changes(claims: Sequence[tuple[Any, int]], new: Tested, old: Tested) -> list[Change]:
    """Return the confirmed findings of either classifier, those that changed most first."""
    after = judge(claims, new.effects)
    before = judge(claims, old.effects)
    either = [i for i in range(len(claims)) if after[i].confirmed or before[i].confirmed]
    differences = [after[i].values - before[i].values for i in either]
    _, corrected = corrected_tests(differences)
    changes = []
    for i, values, p_value in zip(either, differences, corrected, strict=True):
        element, target = claims[i]
        difference = float(values.mean())
        low, high = mean_interval(values, 0.95, -2, 2)
        status = "the same"
        if p_value <= LEVEL and abs(difference) >= LEAST_EFFECT:
            status = _status(before[i].confirmed, after[i].confirmed, difference)
        changes.append(
            Change(
                element=str(element),
                kind=element.kind,
                target=new.subject.model.labels[target],
                status=status,
                before=float(before[i].values.mean()),
                after=float(after[i].values.mean()),
                difference=difference,
                low=low,
                high=high,
                corrected=float(p_value),
            )
        )
    return sorted(changes, key=lambda change: (change.status == "the same", -abs(change.difference), change.element))


def _status(was: bool, stands: bool, difference: float) -> str:
    if not was and difference > 0:
        return "came"
    if not stands and difference < 0:
        return "went"
    return "grew" if difference > 0 else "shrank"


def _changed_answers(
    after: Sequence[AuditText], before: Sequence[AuditText], labels: Sequence[str]
) -> list[ChangedAnswer]:
    changed = []
    for new, old in zip(after, before, strict=True):
        if new.predicted != old.predicted:
            probability = float(new.probabilities[new.predicted])
            was = float(old.probabilities[new.predicted])
            text = " ".join(new.words)
            changed.append(
                ChangedAnswer(new.example.id, text, labels[old.predicted], labels[new.predicted], was, probability)
            )
    return sorted(changed, key=lambda answer: (answer.probability_before - answer.probability, answer.id))


def _changed_reasons(
    after: Sequence[AuditText], before: Sequence[AuditText], labels: Sequence[str]
) -> list[ChangedReasons]:
    """Return the texts with the same answer whose scores correlate least (Spearman)."""
    from scipy.stats import spearmanr

    changed = []
    for new, old in zip(after, before, strict=True):
        if new.predicted != old.predicted or new.shares is None or old.shares is None:
            continue
        if not (np.ptp(new.shares) > 0 and np.ptp(old.shares) > 0):
            continue
        correlation = float(spearmanr(new.shares, old.shares).statistic)
        words = [_top_words(old), _top_words(new)]
        changed.append(ChangedReasons(new.example.id, " ".join(new.words), labels[new.predicted], correlation, *words))
    return sorted(changed, key=lambda reasons: (reasons.correlation, reasons.id))[:MOST_SHOWN]


def _top_words(text: AuditText) -> str:
    return ", ".join(text.words[number] for number in text.strongest(TOP_WORDS))

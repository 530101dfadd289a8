"""Two classifiers on the same texts: which answers, findings and reasons changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from explearn.auditing.candidates import Candidate, find_candidates
from explearn.auditing.elements import Element, Vocabulary
from explearn.auditing.findings import Change, ChangedAnswer, ChangedReasons, Diff, Finding, Pages
from explearn.auditing.page import diff_blocks, diff_sentences
from explearn.auditing.reading import AuditOptions, Work, explain_texts, halves, read_subject
from explearn.auditing.tested import CONFIDENCE, LEAST_EFFECT, LEVEL, Tested, corrected_tests
from explearn.auditing.texts import AuditText, bare
from explearn.core.arguments import models_left_as_they_came, options_of
from explearn.core.arrays import Array
from explearn.core.errors import ParamsError
from explearn.methods.base.explainer import Explainer, unread_words_known
from explearn.metrics.sanity import rank_correlations
from explearn.metrics.significance import mean_interval
from explearn.report.manifest import check_page

MOST_SHOWN = 50
"""Texts whose reasons changed most."""

TOP_WORDS = 3


@models_left_as_they_came
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
    options = options_of(AuditOptions, options)
    if out is not None:
        check_page(Path(out))
    new = read_subject(classifier, texts, None, None, method, options, "explearn.diff")
    old = read_subject(against, texts, None, None, new.explainer, options, "explearn.diff")
    if new.model.labels != old.model.labels:
        raise ParamsError(
            f"against: got the classes {', '.join(old.model.labels)}; expected those of the new classifier, "
            f"{', '.join(new.model.labels)}, in this order (rename them: --against-class-name, `Predictor.renamed`)"
        )
    origin = replace(new.origin, request={**new.origin.request, "against": old.model.fingerprint})
    work = Work(options.work, origin.request)
    searched, held_out = halves(new.user_texts.examples, options.seed)
    every = range(len(new.user_texts.examples))
    with unread_words_known():
        read = explain_texts(new, every, work, options.show_progress)
        before = explain_texts(old, every, work, options.show_progress)
    known = Vocabulary.from_texts([*read, *before])
    claims: dict[tuple[Element, int], Candidate] = {}
    for answered in (read, before):
        chosen = [answered[i] for i in searched]
        for candidate in find_candidates(chosen, known, options.patterns):
            claims.setdefault((candidate.element, candidate.target), candidate)
    effects = []
    findings = []
    for subject, answered in ((new, read), (old, before)):
        tested = Tested(subject, answered, known, searched, held_out, list(claims.values()))
        findings.append(tested.run(work, options.show_progress))
        effects.append([tested.effects[element].of_class(target) for element, target in claims])
    result = Diff(
        findings=_changes(list(claims), findings, effects, new.model.labels),
        answers=_changed_answers(read, before, new.model.labels),
        reasons=_changed_reasons(read, before, new.model.labels),
        texts=len(read),
        method=new.method,
        origin=origin,
        pages=Pages(diff_sentences, diff_blocks),
    )
    if out is None:
        return result
    return result.save(out)


def _changes(
    claims: Sequence[tuple[Element, int]],
    tested: Sequence[Sequence[Finding]],
    effects: Sequence[Sequence[Array]],
    labels: Sequence[str],
) -> list[Change]:
    """Return the confirmed findings of either classifier, those that changed most first.

    Args:
        claims: element and index of the class for which it counts.
        tested: what was found of each claim, for the new and the old classifier.
        effects: by text, likewise.
        labels: the classes.
    """
    after, before = tested
    either = [i for i in range(len(claims)) if after[i].confirmed or before[i].confirmed]
    differences = [effects[0][i] - effects[1][i] for i in either]
    _, corrected = corrected_tests(differences)
    changes = []
    for i, values, p_value in zip(either, differences, corrected.tolist(), strict=True):
        element, target = claims[i]
        difference = float(values.mean())
        low, high = mean_interval(values, CONFIDENCE, -2, 2)
        status = "the same"
        if p_value <= LEVEL and abs(difference) >= LEAST_EFFECT:
            status = _status(before[i].confirmed, after[i].confirmed, difference)
        means = float(effects[1][i].mean()), float(effects[0][i].mean())
        change = Change(str(element), element.kind, labels[target], status, *means, difference, low, high, p_value)
        changes.append(change)
    return sorted(changes, key=lambda change: (change.status == "the same", -abs(change.difference), change.element))


def _status(was: bool, stands: bool, difference: float) -> str:
    if difference > 0:
        if was:
            return "grew"
        return "came"
    if stands:
        return "shrank"
    return "went"


def _changed_answers(
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
        correlation = float(rank_correlations([new.shares], [old.shares])[0])
        if np.isnan(correlation):
            continue
        text = " ".join(new.words)
        answer = labels[new.predicted]
        changed.append(ChangedReasons(new.example.id, text, answer, correlation, _top_words(old), _top_words(new)))
    return sorted(changed, key=lambda reasons: (reasons.correlation, reasons.id))[:MOST_SHOWN]


def _top_words(text: AuditText) -> str:
    return ", ".join(f"‘{bare(text.words[number])}’" for number in text.strongest(TOP_WORDS))

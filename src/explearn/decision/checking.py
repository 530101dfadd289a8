"""The check of a record: everything that can be computed again is, and each difference is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from explearn.core.documents import file_digest
from explearn.core.errors import ParamsError
from explearn.core.validation import check
from explearn.decision.document import Answer, Change, DecisionRecord, RecordedCertificate
from explearn.decision.edits import Decision
from explearn.decision.record import Exchange, answer_to, elements_of, observe, segments_of_text, shown_words
from explearn.decision.signature import is_signed_by
from explearn.methods.base.explainer import Explainer
from explearn.predictors.predictor import Predictor
from explearn.text.encoding import Text

TOLERANCE = 1e-3
"""Largest difference between equal probabilities, and between equal scores as a share of the text's largest: other
processors and numbers of threads change the last digits of float32, and a method may enlarge them."""


def signature_differences(record: DecisionRecord, document: Mapping[str, Any], public_key: str | None) -> Iterator[str]:
    """Yield what is wrong with a record's signature.

    Args:
        record: the record.
        document: what it was read from.
        public_key: the key that must have signed it, 32 bytes as base64. None: any.

    Raises:
        MissingExtraError: the record is signed, and `explearn[sign]` is not installed.
    """
    signature = record.signature
    if signature is None:
        if public_key is not None:
            yield "signature: there is none"
        return
    if public_key is not None and signature.public_key != public_key:
        yield "signature: is by another key"
    elif not is_signed_by(document, signature.public_key, signature.value):
        yield "signature: does not fit the record, which was changed after it was signed"


def page_differences(record: DecisionRecord, page: Path) -> Iterator[str]:
    """Yield what is wrong with the page next to a record, if there is one."""
    if record.page_sha256 is None:
        return
    if not page.is_file():
        yield f"page: {page.name} is missing"
    elif file_digest(page) != record.page_sha256:
        yield f"page: {page.name} differs"


def text_of(record: DecisionRecord, given: Text | None) -> Text:
    """Return the text of a record: the given one, or else the record's own.

    Raises:
        ParamsError: there is none.
    """
    if given is not None:
        return given
    segments = record.text.segments
    if segments is None:
        raise ParamsError("--text: got none, and the record has only its SHA-256; expected the text")
    if len(segments) == 1:
        return segments[0]
    return segments[0], segments[-1]


def observed_differences(record: DecisionRecord, model: Predictor, explainer: Explainer, text: Text) -> Iterator[str]:
    """Yield which parts of a record differ from what is computed now.

    If text, classifier or method are others, nothing more is computed.

    Args:
        record: the record.
        model: the classifier.
        explainer: the method.
        text: the text.
    """
    exchange: Exchange | None = None
    if record.change.exchange == "masked":
        exchange = "masked"
    elif record.change.exchange == "list":
        exchange = record.change.replacements
    hash_only = record.text.segments is None
    if record.classifier.sha256 != model.fingerprint:
        yield f"classifier: weights or labels differ from those of {record.classifier.name}"
        return
    now: DecisionRecord = check(DecisionRecord, observe(model, text, explainer, exchange, hash_only))
    if now.text != record.text:
        yield "text: differs from the recorded one (its words or its SHA-256)"
        return
    if now.method.model_copy(update={"chosen": record.method.chosen}) != record.method:
        yield "method: its name, options or weights differ"
        return
    if now.classifier.problem != record.classifier.problem or not equal_answers(now.answer, record.answer):
        yield "answer: its class or its probabilities differ"
    if not _equal_scores(now.scores, record.scores):
        yield "scores: differ"
        return
    decision = Decision(model, segments_of_text(model, text))
    words = shown_words(decision.segments, hash_only)
    yield from _element_differences(record, decision, words)
    if not _equal_certificates(now.certificate, record.certificate):
        yield "certificate: differs"
    yield from _change_differences(record, now.change, decision, words)


def _element_differences(record: DecisionRecord, decision: Decision, words: Sequence[str]) -> Iterator[str]:
    # From the recorded scores: those of two words may be so near that their order changes elsewhere.
    expected = elements_of(decision, np.array(record.scores, dtype=np.float64), words)
    if [(element.position, element.word) for element in expected] != [
        (element.position, element.word) for element in record.elements
    ]:
        yield "elements: are not the words with the highest scores"
        return
    for element, again in zip(record.elements, expected, strict=True):
        if not equal_answers(element.without, again.without):
            yield f"elements: the answer without {element.word!r} differs"
    without = answer_to(decision, dict.fromkeys(element.position for element in expected))
    if not equal_answers(record.without_elements, without):
        yield "elements: the answer without all of them differs"


def _change_differences(
    record: DecisionRecord, again: Change, decision: Decision, words: Sequence[str]
) -> Iterator[str]:
    change = record.change
    if len(change.edits) != len(again.edits):
        yield f"change: the search finds one of {len(again.edits)} words, the record has {len(change.edits)}"
        return
    if change.budget != again.budget:
        yield f"change: its budget is {again.budget}, the record has {change.budget}"
    if not change.edits:
        if change.answer is not None:
            yield "change: has an answer, but no words"
        return
    edits = {edit.position: edit.replacement for edit in change.edits}
    if any(edit.position >= len(words) or edit.word != words[edit.position] for edit in change.edits):
        yield "change: its words are not those of the text"
        return
    answer = answer_to(decision, edits)
    turned = answer is not None and decision.turned(np.array([list(answer.probabilities.values())]))[0]
    if not turned or not equal_answers(answer, change.answer):
        yield "change: does not turn the answer as the record says"


def equal_answers(one: Answer | None, other: Answer | None) -> bool:
    """Return whether two answers are equal within TOLERANCE."""
    if one is None or other is None:
        return one is other
    if one.probabilities.keys() != other.probabilities.keys():
        return False
    gaps = [abs(one.probabilities[label] - other.probabilities[label]) for label in one.probabilities]
    if one.label not in other.probabilities or other.label not in other.probabilities:
        return False
    # Two classes that are about as probable may change places.
    near = abs(other.probabilities[one.label] - other.probabilities[other.label]) <= TOLERANCE
    return max(gaps) <= TOLERANCE and near


def _equal_scores(now: Sequence[float | None], recorded: Sequence[float | None]) -> bool:
    if len(now) != len(recorded):
        return False
    one = np.array(now, dtype=np.float64)
    other = np.array(recorded, dtype=np.float64)
    largest = np.nanmax(np.abs(one), initial=0.0)
    return bool(np.allclose(one, other, rtol=0, atol=TOLERANCE * largest, equal_nan=True))


def _equal_certificates(now: RecordedCertificate | None, recorded: RecordedCertificate | None) -> bool:
    if now is None or recorded is None:
        return now is recorded
    gaps = [abs(now.effect - recorded.effect), abs(now.bound - recorded.bound)]
    return max(gaps) <= TOLERANCE and now.familiar == recorded.familiar and now.sentence == recorded.sentence

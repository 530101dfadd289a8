"""The check of a record: everything that can be computed again is, and each difference is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from explearn.core.documents import file_digest
from explearn.core.errors import ParamsError
from explearn.decision.document import DecisionRecord
from explearn.decision.record import observe
from explearn.decision.signature import is_signed_by
from explearn.methods.base.explainer import Explainer
from explearn.predictors.predictor import Predictor
from explearn.subject.manifest import MADE, Checked, is_ordinary, unknown_fields
from explearn.subject.subject import make_subject
from explearn.subject.texts import listed_texts
from explearn.text.encoding import Text

TOLERANCE = 1e-3
"""Largest difference between equal probabilities, and between equal scores as a share of the text's largest: other
processors and numbers of threads change the last digits of float32, and a method may enlarge them."""


CHECKED = ("classifier", "answer", "value", "scores", "elements", "without_elements", "change", "certificate")
"""Parts of a record that are compared with what is computed now, after text and method."""


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


def field_differences(record: DecisionRecord, document: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each field of the document that no record has."""
    known = record.model_dump(mode="json")
    known["made"] = dict.fromkeys(MADE)
    return unknown_fields(document, known)


def check_recorded_page(record: DecisionRecord, page: Path, checked: Checked) -> None:
    """Compare the page next to a record with its hash, if the record has one."""
    if record.page_sha256 is None:
        return
    if not is_ordinary(page):
        checked.missing.append(f"page: {page.name} is missing")
    elif file_digest(page) != record.page_sha256:
        checked.differences.append(f"page: {page.name} differs")


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

    If the classifier is another one, nothing is computed; if the text or the method is, only that is said.

    Args:
        record: the record.
        model: the classifier.
        explainer: the method.
        text: the text.
    """
    if record.classifier.sha256 != model.fingerprint:
        yield (
            f"classifier: is not {record.classifier.name}: got the fingerprint {model.fingerprint[:12]} "
            f"({model.fingerprint_kind}); expected {record.classifier.sha256[:12]} ({record.classifier.kind})"
        )
        return
    exchange: Any = record.change.exchange
    if exchange == "list":
        exchange = record.change.replacements
    hash_only = record.text.segments is None
    # Words are ranked by the recorded scores: those of two may be so near that their order changes elsewhere.
    subject = make_subject("explearn verify", model, listed_texts([text], None), [explainer])
    chosen = record.method.chosen
    seen = observe(subject, chosen, exchange, hash_only, record.target, record.versus, record.scores)
    now = seen.model_dump(mode="json")
    then = record.model_dump(mode="json")
    for part in ("text", "method"):
        if now[part] != then[part]:
            yield f"{part}: differs"
            return
    now["classifier"]["name"] = record.classifier.name  # the folder may be elsewhere
    largest = max((abs(score) for score in now["scores"] if score is not None), default=0.0)
    for part in CHECKED:
        tolerance = TOLERANCE
        if part == "scores":
            tolerance *= largest
        if not _equal(now[part], then[part], tolerance):
            yield f"{part}: differs"


def _equal(now: Any, then: Any, tolerance: float) -> bool:
    """Return whether two values of JSON are equal, numbers within a tolerance."""
    if isinstance(now, float) and isinstance(then, float):
        return abs(now - then) <= tolerance
    if isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        return all(_equal(a, b, tolerance) for a, b in zip(now, then, strict=True))
    if isinstance(now, dict) and isinstance(then, dict) and now.keys() == then.keys():
        return all(_equal(value, then[name], tolerance) for name, value in now.items())
    return bool(now == then)

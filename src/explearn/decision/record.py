"""`explearn.record`: why a classifier decided about one text as it did, as a record that can be checked later."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from explearn.api import default_explainer
from explearn.bundle.loading import Bundle
from explearn.comparison.findings import read_findings
from explearn.comparison.provenance import facts_of
from explearn.core.attribution import Attribution
from explearn.core.certificate import TOP_WORDS, certify
from explearn.core.compute import ComputeOptions
from explearn.core.documents import file_digest
from explearn.core.errors import DataError, ParamsError, UnsupportedError, kind_of
from explearn.core.validation import check
from explearn.core.words import Segment
from explearn.core.writing import check_own, is_page, write_json, write_text
from explearn.decision.change import BUDGET, Replacements, Search
from explearn.decision.document import (
    VERSION,
    Answer,
    Change,
    DecisionRecord,
    Edit,
    Element,
    RecordedCertificate,
    RecordedClassifier,
    RecordedMethod,
    RecordedText,
    holds_record,
)
from explearn.decision.edits import Decision, Edits
from explearn.decision.page import page_of
from explearn.decision.replacements import from_list, from_masked_words
from explearn.decision.signature import read_private_key, sign
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.learned import LearnedExplainer
from explearn.methods.registry import get_explainer, get_info, with_seed
from explearn.predictors.labelled import CLASSES
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import as_predictor
from explearn.report.versions import COMPARISON, versions
from explearn.text.encoding import Text, as_segments

Exchange = Literal["masked"] | Mapping[str, Sequence[str]]
"""Words for the place of a word: by the masked-word head of the classifier's checkpoint, or word -> words."""


def record(
    classifier: Any,
    text: Text,
    method: str | Explainer | Bundle | None = None,
    *,
    comparison: str | Path | None = None,
    exchange: Exchange | None = None,
    hash_only: bool = False,
    key: str | Path | None = None,
    out: str | Path | None = None,
    device: str | ComputeOptions | None = None,
) -> DecisionRecord:
    """Record one decision of a classifier: its answer, the words behind it, and what would turn it.

    All that the record says about other texts is measured on the classifier. It is no legal advice, and no proof of
    cause.

    Args:
        classifier: as for `explearn.explain`; for `explearn verify` it must be a folder or hub name.
        text: a text, or a pair of texts.
        method: method or explainer. None: the method that the comparison found best, else what `explearn.explain`
            takes.
        comparison: JSON that `explearn.compare` wrote next to its page, for this classifier.
        exchange: words to exchange for a word in the search for the smallest change: `masked`, by the masked-word head
            in the classifier's checkpoint, or word -> words. None: words are only taken out.
        hash_only: leave out the text and its words; keep its SHA-256.
        key: PEM file with a private Ed25519 key, by which the record is signed.
        out: the page to write, next to which goes the record with the same name, ending in .json. None: no file.
        device: device for a classifier that is loaded here, or `ComputeOptions`.

    Returns:
        The record.

    Raises:
        DataError: the text or the comparison cannot be used.
        ParamsError: another argument cannot be used.
        UnsupportedError: the classifier has no classes, reads the text as a question or classifies a token; or its
            checkpoint has no masked-word head.
        MissingExtraError: `explearn[sign]` is not installed, and there is a key.

    Example:
        >>> import explearn
        >>> from explearn.testing import make_classifier
        >>> record = explearn.record(make_classifier(), "a warm funny sequel", "occlusion")
        >>> record.answer.label, len(record.scores), len(record.elements)
        ('no', 4, 3)
    """
    if hash_only and exchange is not None:
        raise ParamsError("hash only: got words to exchange, too, which say something of the text; leave them out")
    target = None
    if out is not None:
        target = Path(out)
        check_files(target)
    signer = None
    if key is not None:
        signer = read_private_key(Path(key))
    compute = device
    if isinstance(device, str):
        compute = ComputeOptions(device=device)
    model = as_predictor(classifier, compute)
    explainer, chosen, population = _method(model, method, comparison)
    recorded = observe(model, text, explainer, exchange, hash_only)
    recorded["method"]["chosen"] = chosen
    recorded["population"] = population
    recorded["made"] = _made(model, text, hash_only)
    document = check(DecisionRecord, recorded)
    page = page_of(document, signed=signer is not None)
    if target is not None:
        recorded["page_sha256"] = hashlib.sha256(page.encode()).hexdigest()
    if signer is not None:
        plain = check(DecisionRecord, recorded).model_dump(mode="json")
        recorded["signature"] = sign(plain, signer)
    document = check(DecisionRecord, recorded)
    if target is not None:
        write_text(target, page)
        write_json(target.with_suffix(".json"), document.model_dump(mode="json"))
    made: DecisionRecord = document
    return made


def check_files(out: Path) -> None:
    """Raise ParamsError if a record's page or JSON would replace something else."""
    document = out.with_suffix(".json")
    if document == out:
        raise ParamsError(f"out: got {out}; expected another name: the record itself has this one")
    check_own(out, is_page, "a page of Explearn")
    check_own(document, holds_record, "a record")


# ---- the method ------------------------------------------------------------------------------------------------------


def _method(
    model: Predictor, method: str | Explainer | Bundle | None, comparison: str | Path | None
) -> tuple[Explainer, str, dict[str, Any] | None]:
    """Return the explainer, why this one, and what the comparison says about it."""
    if comparison is None:
        if method is None:
            return default_explainer(model), "default", None
        return _explainer(model, method), "named", None
    findings = read_findings(Path(comparison))
    if findings.classifier != model.fingerprint:
        raise DataError(f"{comparison}: is about another classifier; expected a comparison of {model.name}")
    chosen = "named"
    if method is not None:
        explainer = _explainer(model, method)
    else:
        best = findings.best
        if best is None:
            raise DataError(f"{comparison}: no method has the figure that decides; name a method")
        options = findings.methods[best].options
        if get_info(best).untrained:
            raise ParamsError(f"{comparison}: its best method is {best!r}, which was trained; give its folder")
        explainer = get_explainer(best, **with_seed(best, options, findings.seed))
        chosen = "best in the comparison"
    judged = findings.methods.get(explainer.name)
    if judged is not None and isinstance(explainer, LearnedExplainer):
        weights = judged.options.get("weights")
        if weights is not None and weights != explainer.content_hash():
            raise DataError(f"{comparison}: judged another {explainer.name}, trained otherwise; compare this one first")
    population = {
        "comparison": file_digest(Path(comparison)),
        "sentences": findings.sentences(explainer.name),
        "caveats": findings.caveats_of(explainer.name),
    }
    return explainer, chosen, population


def _explainer(model: Predictor, method: str | Explainer | Bundle) -> Explainer:
    if isinstance(method, str):
        return get_explainer(method)
    if isinstance(method, Bundle):
        method.check_classifier(model)
        return method.explainer
    if not isinstance(method, Explainer):
        raise ParamsError(f"method: got {kind_of(method)}; expected a name or an explainer")
    return method


def method_sha256(explainer: Explainer) -> str:
    """Return the SHA-256 of a method: its name, its options and, if it is trained, its weights."""
    content: dict[str, Any] = {"name": explainer.name, "options": explainer.options.model_dump(mode="json")}
    if isinstance(explainer, LearnedExplainer):
        content["weights"] = explainer.content_hash()
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# ---- what is observed ------------------------------------------------------------------------------------------------


def observe(
    model: Predictor, text: Text, explainer: Explainer, exchange: Exchange | None, hash_only: bool
) -> dict[str, Any]:
    """Return the parts of a record that are computed from classifier, text and method.

    Args:
        model: the classifier.
        text: the text.
        explainer: the method.
        exchange: as for `record`.
        hash_only: as for `record`.

    Raises:
        DataError: the text cannot be used.
        UnsupportedError: the classifier or the method cannot be used for it.
    """
    segments = segments_of_text(model, text)
    decision = Decision(model, segments)
    label = model.labels[decision.target]
    (attribution,) = explainer.explain(model, [text], [label])
    words = shown_words(segments, hash_only)
    if attribution.words != words_of_segments(segments):
        raise UnsupportedError(f"{explainer.name}: does not score words; expected a method that does")
    elements = elements_of(decision, attribution.scores, words)
    without_elements = answer_to(decision, dict.fromkeys(element.position for element in elements))
    found, change = find_change(decision, attribution.scores, words_of_segments(segments), exchange)
    edits = []
    for position in sorted(found or {}):
        replacement = (found or {})[position]
        edits.append(Edit(position=position, word=words[position], replacement=replacement))
    scores = [None if np.isnan(score) else float(score) for score in attribution.scores]
    document = {
        "record": VERSION,
        "text": RecordedText(
            sha256=text_sha256(segments),
            segments=None if hash_only else [segment.text for segment in segments],
            words=len(words),
            unread=attribution.unaligned,
        ),
        "classifier": RecordedClassifier(name=model.name, sha256=model.fingerprint, problem=model.problem.value),
        "answer": answer_of(model, decision.original),
        "method": RecordedMethod(
            name=explainer.name,
            options=explainer.options.model_dump(mode="json"),
            chosen="named",
            sha256=method_sha256(explainer),
        ),
        "scores": scores,
        "elements": elements,
        "without_elements": without_elements,
        "change": change.model_copy(update={"edits": edits}),
        "certificate": _certificate(attribution, words),
        "population": None,
        "made": {},
        "versions": dict(versions(COMPARISON)),
    }
    return {name: _plain(value) for name, value in document.items()}


def _plain(value: Any) -> Any:
    """Return a part of a record as plain values, as they are in JSON."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def segments_of_text(model: Predictor, text: Text) -> tuple[Segment, ...]:
    """Return the segments of a text.

    Raises:
        DataError: it has no words, or an unusable one.
        UnsupportedError: the classifier has no classes, or does not classify the whole text.
    """
    if model.problem not in CLASSES:
        raise UnsupportedError(model.why_not(CLASSES))
    (encoding,) = model.encode([text])
    if encoding.answer or encoding.token is not None:
        raise UnsupportedError(f"{model.name}: {model.does}; expected a classifier of whole texts")
    segments, _ = as_segments(text, 1)
    return segments


def words_of_segments(segments: Sequence[Segment]) -> tuple[str, ...]:
    """Return the words of all segments."""
    return tuple(word for segment in segments for word in segment.words)


def shown_words(segments: Sequence[Segment], hash_only: bool) -> tuple[str, ...]:
    """Return how a record calls the words: by themselves, or by `word N` if it has no text."""
    words = words_of_segments(segments)
    if hash_only:
        return tuple(f"word {number}" for number in range(1, len(words) + 1))
    return words


def text_sha256(segments: Sequence[Segment]) -> list[str]:
    """Return the SHA-256 of each segment, in UTF-8."""
    return [hashlib.sha256(segment.text.encode()).hexdigest() for segment in segments]


def answer_of(model: Predictor, probabilities: Any) -> Answer:
    """Return an answer from its probabilities, (C,)."""
    values = dict(zip(model.labels, probabilities.tolist(), strict=True))
    return Answer(label=model.labels[int(probabilities.argmax())], probabilities=values)


def elements_of(decision: Decision, scores: NDArray[np.floating], words: Sequence[str]) -> list[Element]:
    """Return the words with the highest scores, and the answer without each.

    Args:
        decision: the text and its classifier.
        scores: the words' scores, (words,), NaN for a word that was not read.
        words: how the record calls the words.
    """
    elements = []
    for position in np.argsort(-scores, kind="stable")[:TOP_WORDS].tolist():
        if not np.isnan(scores[position]):
            without = answer_to(decision, {position: None})
            elements.append(Element(position=position, word=words[position], without=without))
    return elements


def answer_to(decision: Decision, edits: Edits) -> Answer | None:
    """Return the answer to a changed text; None if no word is left."""
    if not decision.possible(edits):
        return None
    return answer_of(decision.classifier, decision.ask([edits])[0])


def find_change(
    decision: Decision, scores: Any, words: Sequence[str], exchange: Exchange | None
) -> tuple[Edits | None, Change]:
    """Search for the smallest change that turns the answer.

    Returns:
        The change, None if none was found; and what the record says of it, but for its edits.
    """
    # The search has a budget of its own.
    search = Decision(decision.classifier, decision.segments)
    replacements: Replacements | None = None
    source = None
    listed: dict[str, list[str]] = {}
    if exchange == "masked":
        replacements = from_masked_words(search, words)
        source = "masked"
    elif isinstance(exchange, Mapping):
        listed = check(dict[str, list[str]], {word: list(others) for word, others in exchange.items()}, ParamsError)
        replacements = from_list(words, listed)
        source = "list"
    elif exchange is not None:
        raise ParamsError(f"exchange: got {exchange!r}; expected 'masked', or words for the place of a word")
    found = Search(search).run(np.asarray(scores, dtype=np.float64), replacements)
    answer = None
    if found is not None:
        answer = answer_of(search.classifier, search.ask([found])[0])
        search.passes -= 1  # that text was among those tried
    return found, Change(
        edits=[], answer=answer, passes=search.passes, budget=BUDGET, exchange=source, replacements=listed
    )


def _certificate(attribution: Attribution, words: Sequence[str]) -> RecordedCertificate | None:
    """Return the certificate of an attribution, with words as the record calls them."""
    given = attribution.certificate
    if given is None:
        return None
    certificate = certify((given.bound, float(given.familiar)), words, attribution.scores)
    return RecordedCertificate(
        effect=given.effect, bound=given.bound, familiar=given.familiar, sentence=certificate.sentence()
    )


def _made(model: Predictor, text: Text, hash_only: bool) -> dict[str, str]:
    """Return when and how the record was made."""
    facts = facts_of(model, "explearn.record, in Python")
    if hash_only:
        segments, _ = as_segments(text, 1)
        for segment in segments:
            # As the shell's words are quoted in the command.
            facts["Command"] = facts["Command"].replace(shlex.quote(segment.text), "TEXT")
    return facts

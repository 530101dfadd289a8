"""`explearn.record`: why a classifier decided about one text as it did, as a record that can be checked later."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from explearn.comparison.run import read_comparison
from explearn.core.arguments import inputs_left_as_they_came
from explearn.core.attribution_fields import TOP_WORDS, certify
from explearn.core.compute import ComputeOptions
from explearn.core.documents import PathLike, checked_path, file_digest, public_name, text_digest
from explearn.core.errors import DataError, ParamsError
from explearn.core.validation import check
from explearn.core.writing import write_json, write_text
from explearn.decision.change import BUDGET, Replacements, smallest_change
from explearn.decision.decision import Decision
from explearn.decision.document import (
    VERSION,
    Answer,
    Change,
    DecisionRecord,
    Edit,
    Population,
    RecordedClassifier,
    RecordedMethod,
    RecordedText,
    RecordedWord,
)
from explearn.decision.page import page_of
from explearn.decision.replacements import from_list, from_masked_words
from explearn.decision.signature import read_private_key, sign
from explearn.evaluation.result import Evaluation
from explearn.methods.base.explainer import Explainer
from explearn.methods.finding import find_explainer
from explearn.methods.registry import get_info
from explearn.predictors.labelled import check_use
from explearn.predictors.views import versus as versus_view
from explearn.report.conclusions import about, best_of
from explearn.subject.manifest import COMPARISON, check_page, facts_of, versions
from explearn.subject.subject import Subject, make_subject
from explearn.subject.texts import listed_texts
from explearn.text.encoding import Text
from explearn.text.rewriting import Edits

Chosen = Literal["named", "best in the comparison", "default"]
"""Why a method was taken."""

Exchange = Literal["masked"] | Mapping[str, Sequence[str]]
"""Words for the place of a word: by the masked-word head of the classifier's checkpoint, or word -> words."""


@inputs_left_as_they_came
def record(
    classifier: Any,
    text: Text,
    method: PathLike | Explainer | None = None,
    *,
    target: str | None = None,
    versus: str | None = None,
    comparison: str | Path | None = None,
    exchange: Exchange | None = None,
    hash_only: bool = False,
    key: str | Path | None = None,
    out: str | Path | None = None,
    seed: int = 13,
    device: str | ComputeOptions | None = None,
) -> DecisionRecord:
    """Record one decision of a classifier: its answer, the words behind it, and what would turn it.

    All that the record says about other texts is measured on the classifier. It is no legal advice, and no proof of
    cause.

    Args:
        classifier: as for `explearn.explain`.
        text: a text, or a pair of texts.
        method: method or explainer. None: the method that the comparison found best, else what `explearn.explain`
            takes.
        target: the class that is explained; the change that is searched for makes it the answer, if it is not. None:
            the class of the answer.
        versus: the class against which the target is explained: scores are parts of the difference of their logits.
            None: all others.
        comparison: JSON that `explearn.compare` wrote next to its page, for this classifier.
        exchange: words to exchange for a word in the search for the smallest change: `masked`, by the masked-word head
            in the classifier's checkpoint, or word -> words. None: words are only taken out.
        hash_only: leave out the text and its words; keep its SHA-256.
        key: PEM file with a private Ed25519 key, by which the record is signed.
        out: the page to write, next to which goes the record with the same name, ending in .json. None: no file.
        seed: seed of a method that draws at random, if it is named.
        device: device for a classifier that is loaded here, or `ComputeOptions`.

    Returns:
        The record.

    Raises:
        DataError: the text or the comparison cannot be used.
        ParamsError: another argument cannot be used.
        UnknownNameError: there is no such method or class.
        UnsupportedError: the classifier has no classes, reads the text as a question or classifies a token; or its
            checkpoint has no masked-word head.
        MissingExtraError: `explearn[sign]` is not installed, and there is a key.

    Example:
        >>> import explearn
        >>> from explearn.testing import make_classifier
        >>> record = explearn.record(make_classifier(), "a warm funny sequel", "occlusion")
        >>> record.answer.label, len(record.scores)
        ('no', 4)
    """
    if hash_only and exchange is not None:
        raise ParamsError("hash only: got words to exchange, too, which say something of the text; leave them out")
    signer = None
    if key is not None:
        signer = read_private_key(Path(key))
    chosen: Chosen = "default" if method is None else "named"
    evaluation = None
    if comparison is not None:
        evaluation = read_comparison(Path(comparison))
        if method is None:
            chosen = "best in the comparison"
            method = _best(evaluation, comparison)
    compute = ComputeOptions(device=device) if isinstance(device, str) else device
    texts = listed_texts([text], None)
    subject = make_subject("explearn.record, in Python", classifier, texts, [method], seed=seed, compute=compute)
    # The record of another decision, or one made in another way, stays.
    request = (subject.origin.request, target, versus, chosen, exchange, hash_only, str(comparison), str(key))
    what = f"the record of this decision ({text_digest(repr(request))[:12]})"
    page_file = None
    if out is not None:
        page_file = Path(checked_path(out, "out"))
        check_page(page_file, what)
    made = observe(subject, chosen, exchange, hash_only, target, versus)
    if evaluation is not None and comparison is not None:
        made.population = _population(subject, evaluation, Path(comparison))
    made.made = _made(subject, hash_only)
    page = page_of(made, signed=signer is not None)
    if page_file is not None:
        made.page_sha256 = text_digest(page)
    if signer is not None:
        made.signature = sign(made.model_dump(mode="json"), signer)
    if page_file is not None:
        write_text(page_file, page, what)
        write_json(page_file.with_suffix(".json"), made.model_dump(mode="json"), what)
    return made


# ---- the method ------------------------------------------------------------------------------------------------------


def _best(evaluation: Evaluation, comparison: str | Path) -> Explainer:
    """Return the method that a comparison found best."""
    best = best_of(evaluation)
    if best is None or get_info(best).untrained:
        raise ParamsError(f"{comparison}: its best method is {best}, which cannot be made anew; name a method")
    options = dict(evaluation.options[best])
    options.pop("weights", None)  # of weights that come with the package; `_population` compares them
    return find_explainer(best, options, seed=evaluation.seed)


def _population(subject: Subject, evaluation: Evaluation, comparison: Path) -> Population:
    """Return what a comparison says about the method."""
    if evaluation.classifier != subject.classifier.fingerprint:
        raise DataError(
            f"{comparison}: is about another classifier; expected a comparison of {subject.classifier.name}"
        )
    (explainer,) = subject.explainers.values()
    weights = evaluation.options.get(explainer.name, {}).get("weights")
    if weights is not None and weights != explainer.settings().get("weights"):
        raise DataError(f"the comparison judged another {explainer.name}, with other weights; compare this one first")
    sentences, caveats = about(evaluation, explainer.name)
    return Population(comparison=file_digest(comparison), sentences=sentences, caveats=caveats)


# ---- what is observed ------------------------------------------------------------------------------------------------


def observe(
    subject: Subject,
    chosen: Chosen,
    exchange: Exchange | None,
    hash_only: bool,
    target: str | None,
    versus: str | None,
    ranked: Sequence[float | None] | None = None,
) -> DecisionRecord:
    """Return a record of what is computed.

    Args:
        subject: the classifier, the text and the method.
        chosen: why this method.
        exchange: as for `record`.
        hash_only: as for `record`.
        target: as for `record`.
        versus: as for `record`.
        ranked: scores by which words are ranked, (words,). None, or of another length: those of the method now.

    Raises:
        UnknownNameError: there is no such class.
        UnsupportedError: the classifier or the method cannot be used for the text.
    """
    model = subject.classifier
    check_use(model, "records")
    (explainer,) = subject.explainers.values()
    (example,) = subject.texts.examples
    segments = example.segments
    decision = Decision(model, segments, target)
    target = model.labels[decision.target]
    view = model
    if versus is not None:
        view = versus_view(model, versus)
        explainer = explainer.for_view(model)
    (attribution,) = explainer.explain(view, [example], [target])
    words = attribution.words
    if hash_only:
        words = tuple(f"word {number}" for number in range(1, len(words) + 1))
    scores = attribution.scores
    if ranked is not None and len(ranked) == len(words):
        scores = np.array(ranked, dtype=np.float32)
    change = _change(decision, scores, attribution.words, words, exchange)
    elements = []
    for position in np.argsort(-scores, kind="stable")[:TOP_WORDS].tolist():
        if scores[position] > 0:
            without = _answer(decision, {position: None})
            elements.append(RecordedWord(position=position, word=words[position], without=without))
    without_elements = None
    if elements:
        without_elements = _answer(decision, dict.fromkeys(element.position for element in elements))
    certificate = attribution.certificate
    if certificate is not None:
        certificate = certify((certificate.bound, float(certificate.familiar)), words, attribution.scores)
    options = explainer.options.model_dump(mode="json")
    content = {"name": explainer.name, "options": explainer.settings()}
    method_sha256 = text_digest(json.dumps(content, sort_keys=True))
    return DecisionRecord(
        record=VERSION,
        text=RecordedText(
            sha256=[text_digest(segment.text) for segment in segments],
            segments=None if hash_only else [segment.text for segment in segments],
            words=len(words),
            unread=attribution.unaligned,
        ),
        classifier=RecordedClassifier(
            name=public_name(model.name),
            sha256=model.fingerprint,
            kind=model.fingerprint_kind,
            problem=str(model.problem),
        ),
        answer=_as_answer(decision, decision.original),
        target=target,
        versus=versus,
        value=attribution.value,
        method=RecordedMethod(
            name=explainer.name, options=options, chosen=chosen, output=explainer.output, sha256=method_sha256
        ),
        scores=[None if np.isnan(score) else float(score) for score in attribution.scores],
        elements=elements,
        without_elements=without_elements,
        change=change,
        certificate=certificate,
        population=None,
        made={},
        versions=dict(versions(COMPARISON)),
    )


def _as_answer(decision: Decision, probabilities: NDArray[np.float64]) -> Answer:
    """Return an answer from its probabilities, (C,)."""
    labels = decision.classifier.labels
    values = dict(zip(labels, probabilities.tolist(), strict=True))
    return Answer(label=labels[int(probabilities.argmax())], probabilities=values)


def _answer(decision: Decision, edits: Edits) -> Answer | None:
    """Return the answer to a changed text; None if no word is left, or the classifier gives no answer."""
    if not decision.possible(edits):
        return None
    probabilities = decision.ask([edits])[0]
    if np.isnan(probabilities).any():
        return None
    return _as_answer(decision, probabilities)


def _change(
    decision: Decision,
    scores: NDArray[np.floating],
    words: Sequence[str],
    shown: Sequence[str],
    exchange: Exchange | None,
) -> Change:
    """Search for the smallest change that turns the answer.

    Args:
        decision: the text and its classifier, not yet asked about any change.
        scores: the words' scores, (words,).
        words: the words.
        shown: how the record calls them.
        exchange: as for `record`.
    """
    replacements: Replacements | None = None
    source: Literal["masked", "list"] | None = None
    listed: dict[str, list[str]] = {}
    if exchange == "masked":
        source = "masked"
        replacements = from_masked_words(decision, words)
    elif exchange is not None:
        source = "list"
        expected = "; expected 'masked', or WORD: [OTHER, ...]"
        listed = check(dict[str, list[str]], exchange, ParamsError, "exchange, ", expected)
        replacements = from_list(words, listed)
    found = smallest_change(decision, scores.astype(np.float64), replacements)
    passes = decision.passes
    edits = []
    answer = None
    if found is not None:
        answer = _answer(decision, found)
        for position in sorted(found):
            edits.append(Edit(position=position, word=shown[position], replacement=found[position]))
    return Change(edits=edits, answer=answer, passes=passes, budget=BUDGET, exchange=source, replacements=listed)


def _made(subject: Subject, hash_only: bool) -> dict[str, str]:
    """Return when and how the record was made."""
    facts = facts_of(subject.classifier, subject.origin.call)
    if hash_only:
        for segment in subject.texts.examples[0].segments:
            # As the shell's words are quoted in the command.
            facts["Command"] = facts["Command"].replace(shlex.quote(segment.text), "TEXT")
    return facts

"""Checks that every predictor must pass; `check_predictor` runs all of them."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch

from explearn.core.arrays import Array
from explearn.core.errors import DataError, ExplearnError, ModelError, ParamsError, UnknownNameError, UnsupportedError
from explearn.core.examples import Example, label_problem
from explearn.core.words import Span, words_of
from explearn.methods.perturbation.occlusion import Occlusion
from explearn.metrics.protocols import mask_of
from explearn.predictors.labelled import ONE_CLASS, Problem
from explearn.predictors.predictor import Predictor
from explearn.testing import tiny
from explearn.testing.expect import about, expect, expect_close, expect_equal
from explearn.text.alignment import NO_WORD
from explearn.text.encoding import Encoding, PlainText, plain_text, segments_in
from explearn.text.units import Unit, in_units

NO_CLASS = "a class that no classifier has"


def check_predictor(
    predictor: Predictor,
    texts: Sequence[str] | None = None,
    pairs: Sequence[tuple[str, str]] | None = None,
    *,
    tolerance: float = 1e-5,
) -> None:
    """Check what Explearn expects of every predictor.

    It has a name, names of classes and a fingerprint; splits texts or pairs of texts, or both, into units that cover
    all words, and refuses the others with DataError; gives finite logits, and probabilities if its outputs are classes;
    predicts the same for a text alone, with others, in any batch, with an id, and in other units; deletes, keeps and
    masks the words that it is told to and no others; can be explained by word, sub-token and span; and says in a
    sentence which text or class it cannot use.

    Args:
        predictor: the predictor; one that classifies tokens, at a token.
        texts: single texts to try, of two words or more each. None: texts in English.
        pairs: pairs of texts to try. None: pairs in English.
        tolerance: largest difference between two logits taken as equal, as a share of the text's largest if that is
            above 1.

    Raises:
        AssertionError: a check failed; the message names the predictor, the text, what was found and what was expected.

    Example:
        >>> from explearn.testing import check_predictor, make_classifier
        >>> check_predictor(make_classifier(), ["the quick brown fox", "a warm funny sequel"])
    """
    if texts is None:
        texts = [text for text in tiny.TEXTS if len(text.split()) > 1]
    if pairs is None:
        pairs = tiny.PAIRS
    case = _TriedPredictor(predictor, tolerance, [*texts, *pairs])
    checks = [
        _check_declaration,
        _check_errors,
        _check_encodings,
        _check_logits,
        _check_probabilities,
        _check_words_left_out,
        _check_keys,
        _check_explanations,
    ]
    try:
        for check in checks:
            with about(predictor.name):
                check(case)
    except ModelError as error:
        raise AssertionError(str(error)) from error  # it names the predictor


@dataclass
class _TriedPredictor:
    """A predictor with texts.

    Attributes:
        predictor: the predictor.
        tolerance: as for `check_predictor`.
        given: texts and pairs.
    """

    predictor: Predictor
    tolerance: float
    given: list[PlainText]

    @cached_property
    def texts(self) -> list[PlainText]:
        """The texts that the predictor takes: single ones, pairs, or both."""
        texts: list[PlainText] = []
        for kind in (str, tuple):
            its = [text for text in self.given if isinstance(text, kind)]
            try:
                self.predictor.read(its)
            except DataError as error:
                located = re.match(r"text 1\b", str(error))
                expect(located, f"refuses with “{error}”; expected a message that begins with “text 1”")
            else:
                texts += its
        expect(texts, "takes neither the single texts nor the pairs; expected it to take some")
        return texts

    @cached_property
    def encodings(self) -> list[Encoding]:
        return self.predictor.read(self.texts)

    @cached_property
    def logits(self) -> Array:
        """Logits of each text by itself, (texts, C)."""
        return np.concatenate([self.predictor.predict_logits([encoding]) for encoding in self.encodings])

    def expect_logits(self, encodings: list[Encoding], expected: Array, what: str, max_tokens: int = 0) -> None:
        """Fail unless the logits of some texts are the expected ones, in batches of at most `max_tokens` if given."""
        predictor = copy.copy(self.predictor)
        if max_tokens:
            predictor.max_tokens = max_tokens
        for got, encoding, wanted in zip(predictor.predict_logits(encodings), encodings, expected, strict=True):
            atol = self.tolerance * max(1.0, float(np.abs(wanted).max(initial=0)))
            expect_close(got, wanted, atol, f"{what}, text {plain_text(encoding.segments)!r}: the list of logits")

    def outputs(self, logits: Array) -> Array:
        """Return what methods explain, (n, C), from logits."""
        return self.predictor.problem.outputs(torch.from_numpy(logits), "probability").numpy()

    @cached_property
    def spans(self) -> list[Callable[[str], list[Span]]]:
        """Units that are not words, if it takes any: a text as one; and its first word, the others being of no unit."""
        if "units" in self.predictor.refuses:
            return []
        return [
            lambda text: [(len(text) - len(text.lstrip()), len(text.rstrip()))],
            lambda text: [segments_in(text)[0].spans[0]],
        ]

    def without_words(self) -> list[Encoding]:
        """The texts without their first free word, and with that alone, deleted."""
        shortened = []
        for encoding in self.encodings:
            free = _free_words(encoding)
            shortened += [encoding.delete(free[:1]), encoding.keep(free[:1])]
        return shortened


def _free_words(encoding: Encoding) -> list[int]:
    """Return the words that can be left out alone: with sub-tokens of their own, which cover no other word."""
    return sorted(set(encoding.word_ids).difference([NO_WORD], encoding.fixed_words, *encoding.shared))


def _check_declaration(case: _TriedPredictor) -> None:
    """The predictor says what it is called, its classes and their kind, and which version it is."""
    predictor = case.predictor
    for field in ("name", "fingerprint"):
        value = getattr(predictor, field)
        expect(isinstance(value, str) and value, f"{field} is {value!r}; expected a text")
        expect(getattr(predictor, field) == value, f"the {field} is another one the second time")
    labels = predictor.labels
    listed = isinstance(labels, list) and labels and all(isinstance(label, str) for label in labels)
    expect(listed, f"labels are {labels!r}; expected a list of names")
    problem = label_problem(labels)
    expect(problem is None, f"labels: {problem}")
    kind = predictor.problem
    expect(isinstance(kind, Problem), f"problem is {kind!r}; expected one of explearn.Problem")
    expect(kind != Problem.BINARY or len(labels) == 2, f"has {len(labels)} labels; expected two of a binary problem")
    for index, label in enumerate(labels):
        for target in (label, index):
            expect_equal(predictor.label_index(target), index, f"label_index({target!r})")
    names = {label: f"{label} (renamed)" for label in labels}
    expect_equal(predictor.renamed(names).labels, list(names.values()), "the list of renamed labels")
    expect_equal(predictor.labels, labels, "the list of the original's labels, after renaming,")


def _check_errors(case: _TriedPredictor) -> None:
    """What cannot be used is refused by an error of Explearn that names it."""
    predictor = case.predictor
    text = case.texts[0]
    for bad in (3, "", " \t", ("a film", "")):
        _expect_refused(lambda bad=bad: predictor.read([text, bad]), DataError, "text 2", f"the text {bad!r}")
    _expect_refused(lambda: predictor.read(cast(Any, "a film")), ParamsError, "texts", "a string in place of a list")
    for target in (NO_CLASS, len(predictor.labels)):
        what = f"the class {target!r}"
        _expect_refused(lambda bad=target: predictor.label_index(bad), UnknownNameError, str(target), what)


def _expect_refused(call: Any, kind: type[ExplearnError], named: str, what: str) -> None:
    try:
        call()
    except kind as error:
        expect(named in str(error), f"{what} is refused with “{error}”; expected {named!r} in the message")
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__} ({error}); expected {kind.__name__}") from error
    else:
        raise AssertionError(f"{what} is taken; expected {kind.__name__}")


def _check_encodings(case: _TriedPredictor) -> None:
    """Encodings have the texts' words, all of which are read, and one entry for each position."""
    predictor = case.predictor
    expect(predictor.read(case.encodings) == case.encodings, "read changes encodings; expected them as they are")
    for text, encoding in zip(case.texts, case.encodings, strict=True):
        with about(f"text {text!r}"):
            segments = segments_in(text)
            expect_equal(encoding.segments, segments, "the list of segments")
            expect_equal(predictor.read([text]), [encoding], "the encoding alone")
            words, pair, gaps = words_of(segments)
            example = Example("its-id", words, "", "test", "texts", pair, gaps=gaps)
            named = replace(encoding, example_id="its-id")
            expect_equal(predictor.read([example]), [named], "the encoding as an example")
            for field in encoding.BY_POSITION:
                size = len(getattr(encoding, field))
                fits = size == len(encoding) or (size == 0 and field == "token_type_ids")
                expect(fits, f"{size} {field}; expected one for each of {len(encoding)} positions")
            pieces = predictor.tokens(encoding)
            expect_equal(len(pieces), len(encoding.positions), "the number of tokens")
            expect(all(isinstance(piece, str) for piece in pieces), f"tokens are {pieces}; expected texts")
            _expect_aligned(encoding, predictor.max_length)


def _expect_aligned(encoding: Encoding, limit: int) -> None:
    """Fail unless each position is of a word and of characters in it, or of none, and each word is read that fits."""
    columns = zip(encoding.special, encoding.word_ids, encoding.characters, strict=True)
    for position, (special, word, (start, end)) in enumerate(columns):
        with about(f"position {position}"):
            if word == NO_WORD:
                expect((start, end) == (0, 0), f"has the characters {start} to {end} of no word")
                continue
            expect(not special, f"is special, but of word {word}; expected {NO_WORD}")
            expect(0 <= word < len(encoding.words), f"is of word {word}; there are {len(encoding.words)}")
            length = len(encoding.words[word])
            expect(0 <= start < end <= length, f"characters {start} to {end} of a word of {length}")
    read = encoding.read.union(range(*(encoding.focus or (0, 0))))
    unread = [word for number, word in enumerate(encoding.words) if number not in read]
    expect(not unread or len(encoding) >= limit, f"no sub-token covers {unread}; expected one of each word")


def _check_logits(case: _TriedPredictor) -> None:
    """There is a logit for each class, the same in any company; `predict_logits` refuses one that is not finite."""
    predictor = case.predictor
    with torch.inference_mode():
        kind = predictor.logits(predictor.batch(case.encodings[:1])).dtype
    expect(kind in (torch.float32, torch.float64), f"logits are {kind}; expected float32")
    expect_equal(case.logits.shape, (len(case.texts), len(predictor.labels)), "the shape of the logits")
    case.expect_logits(case.encodings, case.logits, "all texts together")
    case.expect_logits(case.encodings[::-1], case.logits[::-1], "all in reverse order")
    case.expect_logits(case.encodings, case.logits, "in batches of one text", max_tokens=1)
    expect_equal(predictor.predict_logits([]).shape, (0, len(predictor.labels)), "the shape of no text's logits")


def _check_probabilities(case: _TriedPredictor) -> None:
    """Probabilities are in [0, 1], and those of one class of several add up to 1; a value has none."""
    predictor = case.predictor
    if predictor.problem is Problem.REGRESSION:
        _expect_refused(lambda: predictor.predict_proba(case.texts), UnsupportedError, "", "a value's probability")
        return
    rows = predictor.predict_proba(case.texts)
    expect(((rows >= 0) & (rows <= 1)).all(), f"probabilities are {rows}; expected numbers from 0 to 1")
    if predictor.problem in ONE_CLASS:
        expect_close(rows.sum(axis=1), np.ones(len(rows)), 1e-6, "the sum of each text's probabilities")
    predicted = [predictor.labels[index] for index in rows.argmax(axis=1)]
    expect_equal(predictor.predict(case.texts), predicted, "the list of predicted classes")


def _check_words_left_out(case: _TriedPredictor) -> None:
    """A deleted word takes its own sub-tokens with it, a masked one keeps its place, and all others stay."""
    mask = mask_of(case.predictor)
    changed = case.without_words()
    for text, encoding in zip(case.texts, case.encodings, strict=True):
        with about(f"text {text!r}"):
            expect(encoding.delete([]).key == encoding.key, "with no word deleted, it is another input")
            expect_equal(encoding.keep(encoding.read).read, encoding.read, "what is read with every word kept")
            free = _free_words(encoding)
            for word in free:
                shorter = encoding.delete([word])
                kept = encoding.keep([word]).read
                others = encoding.only([owner != word for owner in encoding.word_ids])
                expect(shorter == others, f"without word {word}, other sub-tokens change, too")
                expect(shorter.key != encoding.key, f"without word {word}, it is the same input")
                expect_equal(shorter.read, encoding.read - {word}, f"what is read without word {word}")
                expect_equal(kept.intersection(free), {word}, f"what is read of word {word} alone")
                expect(kept.issuperset(encoding.fixed_words), f"word {word} alone loses {encoding.fixed_words}")
                if mask is not None:
                    masked = encoding.mask([word], mask)
                    expect_equal(masked.word_ids, encoding.word_ids, f"with word {word} masked, the words' positions")
                    expect(masked.delete([word]) == others, f"with word {word} masked, other sub-tokens change, too")
                    changed.append(masked)
    with about("with words left out"):
        case.predictor.predict_logits(changed)


def _check_keys(case: _TriedPredictor) -> None:
    """Encodings with one key have one prediction, whatever their id and their units."""
    encodings = [*case.encodings, *case.without_words()]
    others = [replace(encoding, example_id="another") for encoding in encodings]
    for unit in case.spans:
        others += [in_units(encoding, unit, "a text") for encoding in case.encodings]
    numbers = {encoding.key: number for number, encoding in enumerate(encodings)}
    same = [encoding for encoding in others if encoding.key in numbers]
    expected = case.predictor.predict_logits(encodings)[[numbers[encoding.key] for encoding in same]]
    case.expect_logits(same, expected, "the same input with another id, or in other units (only its key may count)")


def _check_explanations(case: _TriedPredictor) -> None:
    """Leaving out words, sub-tokens or spans explains it; of words, the scores are the falls of the output."""
    units: list[Unit] = ["word"]
    if case.spans:
        units += ["token", *case.spans]
    targets = list(range(len(case.predictor.labels)))
    outputs = case.outputs(case.logits)
    for unit in units:
        with about(f"explained by {unit if isinstance(unit, str) else 'span'}"):
            try:
                explained = Occlusion(removal="delete").explain(
                    case.predictor, case.texts, [targets] * len(case.texts), unit=unit
                )
            except Exception as error:
                raise AssertionError(f"{type(error).__name__}: {error}") from error
            for number, attribution in enumerate(explained):
                text, target = divmod(number, len(targets))
                with about(f"text {case.texts[text]!r}"):
                    expect_equal(attribution.target, case.predictor.labels[target], "the target")
                    expect(np.isfinite(attribution.scores[attribution.read]).all(), "a score is not finite")
                    output = outputs[text, target]
                    tolerance = 1e-4 * max(1, abs(output))
                    got = attribution.probability if attribution.value is None else attribution.value
                    expect_close(got, output, tolerance, "the output")
                    if unit == "word":
                        encoding = case.encodings[text]
                        free = _free_words(encoding)
                        without = case.predictor.predict_logits([encoding.delete([word]) for word in free])
                        falls = output - case.outputs(without)[:, target]
                        expect_close(attribution.scores[free], falls, tolerance, f"what words {free} score")

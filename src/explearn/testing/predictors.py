"""Checks that every predictor must pass; `check_predictor` runs all of them."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch

from explearn.core.arrays import Array
from explearn.core.attribution import Attribution
from explearn.core.errors import DataError, ExplearnError, ModelError, ParamsError, UnknownNameError, UnsupportedError
from explearn.core.examples import Example, label_problem
from explearn.core.words import Span, words_of
from explearn.methods.perturbation.occlusion import Occlusion
from explearn.predictors.labelled import ONE_CLASS, Problem
from explearn.predictors.predictor import Predictor
from explearn.testing import tiny
from explearn.testing.conformance import expect
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
        _check_masks,
        _check_keys,
        _check_explanations,
    ]
    for check in checks:
        try:
            check(case)
        except ModelError as error:
            raise AssertionError(str(error)) from error  # it names the predictor
        except AssertionError as error:
            raise AssertionError(f"{predictor.name}: {error}") from error


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
                located = re.match(r"text 1\b", str(error)) is not None
                expect(located, f"refuses with “{error}”; expected a message that begins with “text 1”")
            else:
                texts += its
        expect(bool(texts), "takes neither the single texts nor the pairs; expected it to take some")
        return texts

    @cached_property
    def encodings(self) -> list[Encoding]:
        return self.predictor.read(self.texts)

    @cached_property
    def logits(self) -> Array:
        """Logits of each text by itself, (texts, C)."""
        return np.concatenate([self.predictor.predict_logits([encoding]) for encoding in self.encodings])

    def expect_same(self, actual: Array, encodings: Sequence[Encoding], expected: Array, what: str) -> None:
        """Fail unless the logits of some texts are the expected ones."""
        for got, encoding, wanted in zip(actual, encodings, expected, strict=True):
            atol = self.tolerance * max(1.0, float(np.abs(wanted).max(initial=0)))
            same = np.allclose(got, wanted, rtol=0, atol=atol)
            where = f"{what}, text {plain_text(encoding.segments)!r}"
            expect(same, f"{where}: the logits are {got.tolist()}; expected {wanted.tolist()}")

    def without_words(self) -> list[Encoding]:
        """The texts without their first free word, and with that alone, deleted."""
        shortened = []
        for encoding in self.encodings:
            free = _free_words(encoding)
            shortened += [encoding.delete(free[:1]), encoding.keep(free[:1])]
        return shortened


def _free_words(encoding: Encoding) -> list[int]:
    """Return the words that can be left out alone: with sub-tokens of their own, which cover no other word."""
    tied = {*encoding.fixed_words}
    for pair in encoding.shared:
        tied.update(pair)
    return sorted(set(encoding.word_ids) - {NO_WORD} - tied)


def _check_declaration(case: _TriedPredictor) -> None:
    """The predictor says what it is called, its classes and their kind, and which version it is."""
    predictor = case.predictor
    expect(isinstance(predictor.name, str) and bool(predictor.name), f"name is {predictor.name!r}; expected a text")
    labels = predictor.labels
    listed = isinstance(labels, list) and bool(labels) and all(isinstance(label, str) for label in labels)
    expect(listed, f"labels are {labels!r}; expected a list of names")
    problem = label_problem(labels)
    expect(problem is None, f"labels: {problem}")
    expect(
        isinstance(predictor.problem, Problem), f"problem is {predictor.problem!r}; expected one of explearn.Problem"
    )
    if predictor.problem is Problem.BINARY:
        expect(len(labels) == 2, f"has {len(labels)} labels; expected two of a binary problem")
    first = predictor.fingerprint
    expect(isinstance(first, str) and bool(first), f"fingerprint is {first!r}; expected a text")
    expect(predictor.fingerprint == first, "the fingerprint is another one the second time")
    for index, label in enumerate(labels):
        for target in (label, index):
            got = predictor.label_index(target)
            expect(got == index, f"label_index({target!r}) is {got}; expected {index}")
    names = {label: f"{label} (renamed)" for label in labels}
    renamed = predictor.renamed(names)
    expect(renamed.labels == list(names.values()), f"renamed, its labels are {renamed.labels}; expected new names")
    expect(predictor.labels == labels, "renamed, it changes the labels of the original")


def _check_errors(case: _TriedPredictor) -> None:
    """What cannot be used is refused by an error of Explearn that names it."""
    predictor = case.predictor
    text = case.texts[0]
    for bad in (3, "", " \t", ("a film", "")):
        _expect_refused(lambda bad=bad: predictor.read([text, bad]), DataError, "text 2", f"the text {bad!r}")
    _expect_refused(lambda: predictor.read(cast(Any, "a film")), ParamsError, "texts", "a string in place of a list")
    _expect_refused(lambda: predictor.label_index(NO_CLASS), UnknownNameError, NO_CLASS, "an unknown class")
    beyond = len(predictor.labels)
    _expect_refused(lambda: predictor.label_index(beyond), UnknownNameError, str(beyond), "the number of no class")


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
        where = f"text {text!r}: "
        segments = segments_in(text)
        (alone,) = predictor.read([text])
        expect(alone == encoding, f"{where}encoded alone, it is {alone}; expected {encoding}, as among others")
        expect(encoding.segments == segments, f"{where}segments are {encoding.segments}; expected {segments}")
        for field in encoding.BY_POSITION:
            size = len(getattr(encoding, field))
            fits = size == len(encoding) or (size == 0 and field == "token_type_ids")
            expect(fits, f"{where}{size} {field}; expected one for each of {len(encoding)} positions")
        _expect_aligned(encoding, predictor.max_length, where)
        pieces = predictor.tokens(encoding)
        expect(
            len(pieces) == len(encoding.positions) and all(isinstance(piece, str) for piece in pieces),
            f"{where}tokens are {pieces}; expected a text for each of {len(encoding.positions)} positions",
        )
        words, pair, gaps = words_of(segments)
        example = Example("its-id", words, "", "test", "texts", pair, gaps=gaps)
        (named,) = predictor.read([example])
        same = replace(encoding, example_id="its-id")
        expect(named == same, f"{where}as an example, its encoding is {named}; expected {same}")


def _expect_aligned(encoding: Encoding, limit: int, where: str) -> None:
    """Fail unless each position is of a word and of characters in it, or of none, and each word is read that fits."""
    columns = zip(encoding.special, encoding.word_ids, encoding.characters, strict=True)
    for position, (special, word, (start, end)) in enumerate(columns):
        place = f"{where}position {position}: "
        if word == NO_WORD:
            expect((start, end) == (0, 0), f"{place}has the characters {start} to {end} of no word")
            continue
        expect(not special, f"{place}is special, but of word {word}; expected {NO_WORD}")
        expect(0 <= word < len(encoding.words), f"{place}is of word {word}; there are {len(encoding.words)}")
        length = len(encoding.words[word])
        expect(0 <= start < end <= length, f"{place}characters {start} to {end} of a word of {length}")
    read = encoding.read.union(range(*(encoding.focus or (0, 0))))
    unread = [word for number, word in enumerate(encoding.words) if number not in read]
    cut = len(encoding) >= limit
    expect(cut or not unread, f"{where}no sub-token covers {unread}; expected one of each word")


def _check_logits(case: _TriedPredictor) -> None:
    """There is a finite logit for each class, the same in any company."""
    predictor = case.predictor
    for text, encoding in zip(case.texts, case.encodings, strict=True):
        with torch.inference_mode():
            rows = predictor.logits(predictor.batch([encoding]))
        where = f"text {text!r}: "
        shape = (1, len(predictor.labels))
        expect(tuple(rows.shape) == shape, f"{where}logits of shape {tuple(rows.shape)}; expected {shape}")
        expect(rows.dtype in (torch.float32, torch.float64), f"{where}logits are {rows.dtype}; expected float32")
        expect(bool(rows.isfinite().all()), f"{where}logits are {rows.tolist()}; expected finite numbers")
    encodings = case.encodings
    logits = case.logits
    case.expect_same(predictor.predict_logits(encodings), encodings, logits, "all texts together")
    case.expect_same(predictor.predict_logits(encodings), encodings, logits, "all texts a second time")
    case.expect_same(predictor.predict_logits(encodings[::-1]), encodings[::-1], logits[::-1], "all in reverse order")
    small = copy.copy(predictor)
    small.max_tokens = 1
    case.expect_same(small.predict_logits(encodings), encodings, logits, "in batches of one text")
    none = predictor.predict_logits([])
    expect(none.shape == (0, len(predictor.labels)), f"of no text, logits of shape {none.shape}; expected (0, C)")


def _check_probabilities(case: _TriedPredictor) -> None:
    """Probabilities are in [0, 1], and those of one class of several add up to 1; a value has none."""
    predictor = case.predictor
    if predictor.problem is Problem.REGRESSION:
        _expect_refused(lambda: predictor.predict_proba(case.texts), UnsupportedError, "", "a value's probability")
        return
    rows = predictor.predict_proba(case.texts)
    for text, row in zip(case.texts, rows.tolist(), strict=True):
        where = f"text {text!r}: the probabilities are {row}; expected "
        expect(all(0 <= p <= 1 for p in row), f"{where}numbers from 0 to 1")
        if predictor.problem in ONE_CLASS:
            expect(abs(sum(row) - 1) < 1e-6, f"{where}a sum of 1")
    predicted = [predictor.labels[index] for index in rows.argmax(axis=1)]
    got = predictor.predict(case.texts)
    expect(got == predicted, f"predict gives {got}; expected the most probable classes, {predicted}")


def _check_words_left_out(case: _TriedPredictor) -> None:
    """A deleted word takes its own sub-tokens with it; all others stay, in their order."""
    for text, encoding in zip(case.texts, case.encodings, strict=True):
        where = f"text {text!r}, "
        free = _free_words(encoding)
        expect(encoding.delete([]).key == encoding.key, f"{where}with no word deleted: is another input")
        expect(encoding.keep(encoding.read).read == encoding.read, f"{where}with every word kept: loses a word")
        for word in free:
            stays = [owner != word for owner in encoding.word_ids]
            shorter = encoding.delete([word])
            expect(shorter == encoding.only(stays), f"{where}without word {word}: other sub-tokens change, too")
            expect(shorter.read == encoding.read - {word}, f"{where}without word {word}: reads {sorted(shorter.read)}")
            expect(shorter.key != encoding.key, f"{where}without word {word}: is the same input")
            kept = encoding.keep([word])
            expected = {word, *encoding.fixed_words}
            expect(kept.read & set(free) == {word}, f"{where}word {word} alone: reads {sorted(kept.read)}")
            expect(expected <= kept.read, f"{where}word {word} alone: loses one of {sorted(expected)}")
    try:
        logits = case.predictor.predict_logits(case.without_words())
    except ModelError as error:
        raise AssertionError(f"with words deleted: {error}") from error
    expect(bool(np.isfinite(logits).all()), "with words deleted: a logit is not finite")


def _check_masks(case: _TriedPredictor) -> None:
    """A masked word keeps its place; a predictor without a mask says so."""
    try:
        mask = case.predictor.mask_token_id
    except ModelError:
        return
    masked = []
    for text, encoding in zip(case.texts, case.encodings, strict=True):
        for word in _free_words(encoding)[:1]:
            changed = encoding.mask([word], mask)
            where = f"text {text!r}, word {word} masked: "
            expect(changed.word_ids == encoding.word_ids, f"{where}the words' positions change")
            pairs = zip(encoding.input_ids, changed.input_ids, encoding.word_ids, strict=True)
            others = [before == after for before, after, owner in pairs if owner != word]
            expect(all(others), f"{where}another sub-token changes, too")
            masked.append(changed)
    logits = case.predictor.predict_logits(masked)
    expect(bool(np.isfinite(logits).all()), "with a word masked: a logit is not finite")


def _check_keys(case: _TriedPredictor) -> None:
    """Encodings with one key have one prediction, whatever their id and their units."""
    encodings = [*case.encodings, *case.without_words()]
    others = [replace(encoding, example_id="another") for encoding in encodings]
    if "units" not in case.predictor.refuses:
        for encoding in case.encodings:
            others += [in_units(encoding, unit, "a text") for unit in (_whole, _first_word)]
    numbers = {encoding.key: number for number, encoding in enumerate(encodings)}
    same = [encoding for encoding in others if encoding.key in numbers]
    expected = case.predictor.predict_logits(encodings)[[numbers[encoding.key] for encoding in same]]
    what = "the same input with another id, or in other units (only its key may count)"
    case.expect_same(case.predictor.predict_logits(same), same, expected, what)


def _whole(text: str) -> list[Span]:
    """Return the span of a text, as one unit."""
    return [(len(text) - len(text.lstrip()), len(text.rstrip()))]


def _first_word(text: str) -> list[Span]:
    """Return the span of the first word; the others are of no unit."""
    return [segments_in(text)[0].spans[0]]


def _check_explanations(case: _TriedPredictor) -> None:
    """Leaving out words, sub-tokens or spans explains it; of words, the scores are the falls of the output."""
    predictor = case.predictor
    units: list[Unit] = ["word"]
    if "units" not in predictor.refuses:
        units += ["token", _whole, _first_word]
    targets = list(range(len(predictor.labels)))
    outputs = predictor.problem.outputs(torch.from_numpy(case.logits), "probability").numpy()
    method = Occlusion(removal="delete")
    for unit in units:
        where = f"explained by {unit if isinstance(unit, str) else 'span'}, "
        try:
            explained = method.explain(predictor, case.texts, [targets] * len(case.texts), unit=unit)
        except Exception as error:
            raise AssertionError(f"{where}{type(error).__name__}: {error}") from error
        for number, attribution in enumerate(explained):
            text, target = divmod(number, len(targets))
            place = f"{where}text {case.texts[text]!r}: "
            expect(attribution.target == predictor.labels[target], f"{place}the target is {attribution.target!r}")
            expect(bool(np.isfinite(attribution.scores[attribution.read]).all()), f"{place}a score is not finite")
            wanted = outputs[text, target]
            got = attribution.probability if attribution.value is None else attribution.value
            expect(abs(got - wanted) <= 1e-4 * max(1, abs(wanted)), f"{place}the output is {got}; expected {wanted}")
            if unit == "word":
                _expect_falls(case, attribution, case.encodings[text], wanted, target, place)


def _expect_falls(
    case: _TriedPredictor, attribution: Attribution, encoding: Encoding, output: float, target: int, where: str
) -> None:
    """Fail unless a word's score is how much the output falls without it."""
    free = _free_words(encoding)
    logits = case.predictor.predict_logits([encoding.delete([word]) for word in free])
    without = case.predictor.problem.outputs(torch.from_numpy(logits), "probability")[:, target].numpy()
    falls = (output - without).astype(np.float32)
    got = attribution.scores[free]
    same = np.allclose(got, falls, rtol=0, atol=1e-4 * max(1, abs(output)))
    expect(same, f"{where}the scores of words {free} are {got.tolist()}; expected {falls.tolist()}")

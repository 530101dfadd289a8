"""A function from texts to probabilities as a predictor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import isroutine
from itertools import pairwise
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike

from explearn.core.arguments import check_listed
from explearn.core.arrays import Array, as_numbers
from explearn.core.documents import text_digest
from explearn.core.errors import (
    DataError,
    ModelError,
    ParamsError,
    blaming,
    first_line,
    kind_of,
    shown,
)
from explearn.core.examples import label_problem
from explearn.core.validation import PositiveInt, check
from explearn.core.words import Segment, Span, gaps_of
from explearn.predictors.batching import progress
from explearn.predictors.encoding import Batch, Encoding
from explearn.predictors.fingerprints import PROBE, NoValue, is_estimator, state_digest
from explearn.predictors.labelled import Problem, Use
from explearn.predictors.predictor import Predictor
from explearn.show.blocks import several
from explearn.text.alignment import NO_WORD
from explearn.text.encoding import PlainText, align_words, segments_in

PredictProba = Callable[[list[Any]], ArrayLike]
"""Probabilities, (n, C), of n texts; of n pairs of strings if the texts are pairs."""

SUM_TOLERANCE = 0.01
"""Largest distance of a text's sum of probabilities from 1, since services round them; they are then scaled to 1."""

KindOfAnswer = Literal["single_label", "multi_label", "regression"]

_SMALLEST = float(np.finfo(np.float64).tiny)
_BELOW_ONE = 1 - float(np.finfo(np.float64).eps)


class Piece(NamedTuple):
    """A word of a text.

    Attributes:
        word: the word.
        before: the characters between it and the word before.
        behind: the characters between it and the next word.
    """

    word: str
    before: str
    behind: str


@dataclass(frozen=True)
class FunctionEncoding(Encoding):
    """The words of a text for a function.

    Attributes:
        input_ids: index in `vocabulary` of the piece at each position, NO_WORD at the start of a segment.
        token_type_ids: segment of each position.
        vocabulary: the words of the whole text, then what each of them is where it is masked: the mask word, or
            nothing.
        ends: the characters before the first word and behind the last, of each segment.
        mask_word: word that replaces a masked one; empty: masked words are deleted.
        empty: text in place of one without words.
    """

    vocabulary: tuple[Piece, ...] = ()
    ends: tuple[tuple[str, str], ...] = ()
    mask_word: str = ""
    empty: str = ""

    def masked_ids(self, mask_token_id: int) -> list[int]:
        """Return the id of each position's word where it is masked, with the characters around that word."""
        words = len(self.vocabulary) // 2
        return [words + number % words for number in self.input_ids]

    def cut(self, bounds: Sequence[Collection[int]]) -> FunctionEncoding:
        segments = []
        for segment, its in zip(self.segments, bounds, strict=True):
            spans: list[Span] = []
            for start, end in segment.spans:
                inner = [bound for bound in sorted(its) if start < bound < end]
                spans += pairwise([start, *inner, end])
            segments.append(Segment(segment.text, tuple(spans)))
        return replace(function_encoding(segments, self.mask_word, self.empty), example_id=self.example_id)

    @property
    def key(self) -> tuple[object, ...]:
        return (self.input,)

    @cached_property
    def input(self) -> str | tuple[str, str]:
        """What the function gets: the text, or a pair of texts, without the words that were left out."""
        texts = [self._joined(segment) for segment in range(len(self.ends))]
        if len(texts) == 1:
            return texts[0]
        return texts[0], texts[1]

    def _joined(self, segment: int) -> str:
        """Return a segment's words, with what stood before each, or else behind the one that is before it now."""
        parts: list[str] = []
        behind = ""
        for number, owner in zip(self.input_ids, self.token_type_ids, strict=True):
            if owner != segment or number == NO_WORD:
                continue
            word, before, after = self.vocabulary[number]
            if not word:
                continue
            if parts:
                parts.append(before or behind)
            parts.append(word)
            behind = after
        ends = self.ends[segment]
        if not parts:
            return self.empty
        return "".join([ends[0], *parts, ends[1]])


def function_encoding(segments: Sequence[Segment], mask_word: str, empty: str) -> FunctionEncoding:
    """Return the words of a text, or of a pair's segments, after a position for the start of each segment."""
    parts = [(n * (len(segments[0].text) + 1), segment) for n, segment in enumerate(segments)]
    offsets: list[Span | None] = []
    types: list[int] = []
    pieces: list[Piece] = []
    ends = []
    for number, (start, segment) in enumerate(parts):
        offsets.append(None)
        offsets.extend((start + a, start + b) for a, b in segment.spans)
        types += [number] * (1 + len(segment.spans))
        before, *gaps, behind = gaps_of(segment)
        ends.append((before, behind))
        pieces += map(Piece, segment.words, ["", *gaps], [*gaps, ""])
    fields = align_words(offsets, parts)
    return FunctionEncoding(
        input_ids=fields["word_ids"],
        token_type_ids=tuple(types),
        special=tuple(offset is None for offset in offsets),
        segments=tuple(segments),
        vocabulary=(*pieces, *(piece._replace(word=mask_word) for piece in pieces)),
        ends=tuple(ends),
        mask_word=mask_word,
        empty=empty,
        **fields,
    )


class FunctionPredictor(Predictor):
    """A function from texts to probabilities: a scikit-learn pipeline, a service, ...

    Perturbation methods explain it, as does a `reader` trained for it, and faithfulness metrics evaluate the
    explanations. Methods that look inside a model refuse it. The function gets a text as it is. A word that is left out
    is deleted, or replaced by the mask word. The "logits" are log p, or log p / (1 - p) of each label for
    `multi_label`.

    The function gets each distinct text of a request once, `batch_size` texts a call.

    Args:
        predict_proba: takes a list of n strings, or of n pairs of strings, and gives an array (n, C).
        labels: names of the C classes, in the order of its columns.
        mask: word that replaces a masked one. Empty: masked words are deleted.
        empty: text to ask about in place of one without words, for a function that takes no empty text.
        kind: `single_label` (probabilities of a text add up to 1), `multi_label` (each label applies or not), or
            `regression` (values).
        batch_size: most texts a call.
        max_words: most words of a text; longer texts are refused.
        version: any text that another version of the function does not have, by which trained explainers, records and
            working folders recognise it. None: a method of a scikit-learn estimator is recognised by the estimator's
            parameters and fitted attributes, any other function by its answers to fixed texts.
        name: name for messages.

    Raises:
        ParamsError: invalid labels or options.
        ModelError: in a prediction, if the function failed, or returned another shape, NaN, or rows that do not sum to
            1.

    Example:
        >>> from explearn import FunctionPredictor
        >>> def predict_proba(texts):
        ...     good = [0.9 if "good" in text else 0.2 for text in texts]
        ...     return [[1 - p, p] for p in good]
        >>> predictor = FunctionPredictor(predict_proba, ["negative", "positive"])
        >>> predictor.predict(["a good film", "a film"])
        ['positive', 'negative']
    """

    refuses: Mapping[Use, str] = {"windows": "is a function of texts, which gets them whole; leave out the windows"}

    def __init__(
        self,
        predict_proba: PredictProba,
        labels: Sequence[object],
        *,
        mask: str = "",
        empty: str = "",
        kind: KindOfAnswer = "single_label",
        batch_size: int = 64,
        max_words: int = 2000,
        version: str | None = None,
        name: str = "the function",
    ) -> None:
        if kind not in get_args(KindOfAnswer):
            raise ParamsError(f"kind: got {shown(kind)}; expected one of {', '.join(get_args(KindOfAnswer))}")
        if not isinstance(mask, str) or mask != "".join(mask.split()):
            raise ParamsError(f"mask: got {shown(mask)}; expected one word, or an empty string")
        if not callable(predict_proba):
            raise ParamsError(f"predict_proba: got {shown(predict_proba)}; expected a function of a list of texts")
        check_listed("labels", labels, "names")
        self.labels = [str(label) for label in labels]
        if problem := label_problem(self.labels):
            raise ParamsError(f"labels: {problem}")
        least = 1 + (kind == "single_label")
        if len(self.labels) < least:
            raise ParamsError(f"labels: got {self.labels}; expected {least} or more names")
        self.name = name
        self.mask = mask
        self.empty = empty
        self.batch_size: int = check(PositiveInt, batch_size, ParamsError, "batch_size: ")
        self.max_words: int = check(PositiveInt, max_words, ParamsError, "max_words: ")
        self.problem = Problem(kind)
        self._function = predict_proba
        self._version = version
        self._settings = (self.labels, kind, mask, empty)

    @property
    def fingerprint_kind(self) -> str:  # type: ignore[override]
        """What the fingerprint is made from."""
        return self._recognised[0]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the function's version, state or answers, of labels, and of what stands for words left out."""
        return self._recognised[1]

    @cached_property
    def _recognised(self) -> tuple[str, str]:
        """The kind of the fingerprint, and the fingerprint."""
        kind, value = self._value()
        return kind, text_digest(repr((kind, value, self._settings)))

    def _value(self) -> tuple[str, object]:
        """Return what the function is recognised by: what that is, and its value."""
        if self._version is not None:
            return "SHA-256 of the version that its user gave", str(self._version)
        owner = getattr(self._function, "__self__", None)
        if is_estimator(owner):
            try:
                return "SHA-256 of the estimator's parameters and fitted attributes", state_digest(owner)
            except (NoValue, RecursionError):
                pass  # then by its answers, as the kind says
        return f"SHA-256 of its answers to {len(PROBE)} fixed texts", self._probed()

    def _probed(self) -> list[str]:
        """Return the answers to fixed texts, with the digits that do not depend on the processor.

        Raises:
            ModelError: the function answers neither single texts nor pairs.
        """
        pairs = list(pairwise(PROBE))
        try:
            rows = self._ask(self.encode(PROBE), None)
        except ModelError:
            rows = self._ask(self.encode(pairs), None)
        return [f"{value:.4g}" for value in rows.ravel().tolist()]

    # ---- texts ---------------------------------------------------------------------------------------------------

    @property
    def max_length(self) -> int:
        return self.max_words

    @property
    def mask_token_id(self) -> int:
        """No id of its own: each word is masked by one (`FunctionEncoding.masked_ids`)."""
        return NO_WORD

    def encode(self, texts: Sequence[PlainText]) -> list[Encoding]:
        """Split texts into words, after a position for the start.

        Args:
            texts: strings, or pairs of strings.

        Raises:
            DataError: a text has more than `max_words`.
        """
        encodings: list[Encoding] = []
        for number, text in enumerate(texts, start=1):
            encoding = function_encoding(segments_in(text), self.mask, self.empty)
            words = len(encoding.words)
            if words > self.max_words:
                raise DataError(f"text {number} has {words:,} words; expected at most {self.max_words:,} (max_words)")
            encodings.append(encoding)
        return encodings

    # ---- answers -------------------------------------------------------------------------------------------------

    def logits(self, batch: Batch) -> torch.Tensor:
        """Return float64, (batch, C): log p; log p / (1 - p) by label; the value of a regression.

        Args:
            batch: texts encoded to one length, as `batch` returns them.
        """
        return torch.from_numpy(self.predict_logits(batch.encodings))

    def predict_logits(self, encodings: Sequence[Encoding], description: str | None = None) -> Array:
        p = self._ask(encodings, description)
        if self.problem is Problem.REGRESSION:
            return p
        if self.problem is Problem.MULTI_LABEL:
            p = np.clip(p, _SMALLEST, _BELOW_ONE)
            return np.log(p) - np.log1p(-p)
        return np.log(np.maximum(p, _SMALLEST))

    def _ask(self, encodings: Sequence[Encoding], description: str | None) -> Array:
        """Return the function's answers on texts, (n, C); it gets each distinct one once."""
        inputs = [encoding.input for encoding in cast(Sequence[FunctionEncoding], encodings)]
        different = list(dict.fromkeys(inputs))
        answers = [np.zeros((0, len(self.labels)))]
        with progress(description, len(different)) as bar:
            for start in range(0, len(different), self.batch_size):
                part = different[start : start + self.batch_size]
                answers.append(self._answers(part))
                bar.update(len(part))
        numbers = {text: number for number, text in enumerate(different)}
        return np.asarray(np.concatenate(answers)[[numbers[text] for text in inputs]])

    def _answers(self, texts: list[str | tuple[str, str]]) -> Array:
        shape = (len(texts), len(self.labels))
        hint = ""
        if any(not text or (isinstance(text, tuple) and "" in text) for text in texts):
            hint = "; one of them is empty, with all words left out: name a text for it, empty='...'"
        with blaming(None, f"{self.name}: failed on {several(len(texts), 'text')}", ModelError, hint):
            answer = self._function(list(texts))
        classes = getattr(getattr(self._function, "__self__", None), "classes_", ())  # of scikit-learn
        columns = [str(name) for name in getattr(answer, "columns", classes)]
        if set(columns) == set(self.labels) and columns != self.labels:
            raise ModelError(
                f"{self.name}: gave columns for {', '.join(columns)}; expected labels in this order, got "
                f"{', '.join(self.labels)}"
            )
        gave = kind_of(answer)
        try:
            rows = as_numbers(answer)
            gave = f"an array of shape {rows.shape}"
        except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:  # torch: of a tensor with a gradient
            gave += f" ({first_line(error)})"
            rows = np.zeros(0)
        if rows.shape != shape:
            raise ModelError(
                f"{self.name}: gave {gave} for {several(len(texts), 'text')}; expected an array of numbers of shape "
                f"{shape}, a row a text and a column a label"
            )
        right = np.isfinite(rows)
        expected = "finite numbers"
        if self.problem is not Problem.REGRESSION:
            right = (rows >= -SUM_TOLERANCE) & (rows <= 1 + SUM_TOLERANCE)  # of NaN, neither holds
            expected = "probabilities"
        if self.problem is Problem.SINGLE_LABEL:
            right &= np.abs(rows.sum(1, keepdims=True) - 1) <= SUM_TOLERANCE
            expected = "probabilities, which add up to 1"
        if not right.all():
            row = int(right.all(1).argmin())
            raise ModelError(f"{self.name}: gave {rows[row].tolist()} for {texts[row]!r:.60}; expected {expected}")
        if self.problem is Problem.REGRESSION:
            return rows
        rows = np.clip(rows, 0, 1)
        if self.problem is Problem.MULTI_LABEL:
            return rows
        return np.asarray(rows / rows.sum(1, keepdims=True))


def is_function(classifier: Any) -> bool:
    """Return whether something is a function, or a fitted classifier as scikit-learn defines it.

    Args:
        classifier: a classifier as users have it.
    """
    fitted = hasattr(classifier, "predict_proba") and hasattr(classifier, "classes_")
    return isroutine(classifier) or fitted


def function_predictor(classifier: Any) -> FunctionPredictor:
    """Return a predictor for a function, or for a fitted classifier as scikit-learn defines it.

    Its classes are `classes_` of the estimator, or the columns of the function's answers: their names, or numbers.

    Args:
        classifier: the function, or the classifier.

    Raises:
        ModelError: the function fails on a text.
        ParamsError: there are not several columns.
    """
    if isroutine(classifier):
        name = classifier.__name__
        estimator = getattr(classifier, "__self__", None)
        classes = getattr(estimator, "classes_", None)
        if classes is None:
            classes = _columns(classifier, name)
        return FunctionPredictor(classifier, classes, name=name)
    steps = getattr(classifier, "steps", [("", classifier)])
    name = " + ".join(type(step).__name__ for _, step in steps)
    return FunctionPredictor(classifier.predict_proba, classifier.classes_, name=name)


def _columns(function: PredictProba, name: str) -> list[str]:
    """Return the names of the columns that a function gives, or else their numbers."""
    expected = (
        "; expected a function from a list of texts to rows of probabilities; any other goes in an "
        "explearn.FunctionPredictor, with its labels"
    )
    with blaming(None, f"{name}: failed on a text", ModelError, expected):
        answer: Any = function([PROBE[0]])
        columns = getattr(answer, "columns", None)
        if columns is None:
            columns = range(as_numbers(answer).shape[1])
    return [str(column) for column in columns]

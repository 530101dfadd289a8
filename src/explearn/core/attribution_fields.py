"""The fields of an attribution, declared once; its certificate says how far it can be relied on.

JSON (`to_dict`), Parquet and Arrow (`explearn.core.storage`), the word table (`explearn.core.word_tables`), the
service's schema and files of scores from elsewhere are derived from them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, GetPydanticSchema, PlainSerializer, WrapValidator, computed_field
from pydantic_core import core_schema

from explearn.core.arrays import Array32, Mask
from explearn.core.errors import DataError, kind_of
from explearn.core.examples import check_words
from explearn.core.validation import (
    Fraction,
    NonNegativeFloat,
    Number,
    PositiveInt,
    Shape,
    UnicodeText,
    Whole,
    check,
    shape_of,
)
from explearn.core.words import joined_words, lay_out

Aggregation = Literal["max", "sum"]

MOST_INTERACTING = 10
"""Most words among which interactions of pairs are computed; ten take 1,024 forward passes."""

FLOAT32_MAX = float(np.finfo(np.float32).max)

COVERAGE = 0.9
"""Share of texts whose error is within the bound."""

TOP_WORDS = 3
"""Number of words whose scores are added up and compared with the change in the answer when they are left out."""

RELIABLE = 0.5
"""Largest bound of a reliable text, as a share of the scores that it is about. Our own threshold."""

Verdict = Literal["reliable", "check"]


class TopWord(NamedTuple):
    """A word with its score, its position among the text's words, and its [start, end) in the text, if known."""

    word: str
    score: float
    position: int
    span: tuple[int, int] | None


# ---- types of fields -------------------------------------------------------------------------------------------------


def _to_array(numbers: tuple[float | None, ...]) -> Array32:
    array = np.array(numbers, dtype=np.float64)  # None becomes NaN
    for position in np.flatnonzero(np.abs(array) > FLOAT32_MAX).tolist():
        raise ValueError(f"entry {position}: got {numbers[position]}; expected a finite number (float32)")
    return array.astype(np.float32)


def _dumped(array: Array32, info: core_schema.SerializationInfo) -> Any:
    if info.mode == "python":
        return array
    return [None if math.isnan(number) else number for number in array.tolist()]


def _scores_schema(_: Any, handler: Any) -> core_schema.CoreSchema:
    number = Annotated[float, Field(allow_inf_nan=True)] | None
    numbers = handler.generate_schema(Annotated[tuple[number, ...], Field(strict=False)])
    dumped = core_schema.plain_serializer_function_ser_schema(_dumped, info_arg=True)
    return core_schema.no_info_after_validator_function(_to_array, numbers, serialization=dumped)


Scores = Annotated[Array32, GetPydanticSchema(_scores_schema)]
"""Scores as float32. NaN, which is null in JSON: no score."""

Texts = Annotated[tuple[UnicodeText, ...], Field(strict=False)]
IndexPair = Annotated[tuple[Whole, Whole], Field(strict=False)]
Probability = Annotated[
    float,
    Field(ge=0, le=1),
    WrapValidator(lambda p, handler: math.nan if _is_missing(p) else handler(p)),
    PlainSerializer(lambda p: None if math.isnan(p) else p, return_type=float | None, when_used="json"),
]


class Interaction(Shape):
    """What two words of a text add together beyond what each adds alone.

    Attributes:
        words: the two words.
        positions: their positions in the text, in ascending order.
        value: their interaction index (`explearn.interactions`).

    Example:
        >>> import explearn
        >>> explearn.Interaction(words=("not", "good"), positions=(0, 1), value=-0.5).value
        -0.5
    """

    words: Annotated[tuple[UnicodeText, UnicodeText], Field(strict=False)]
    positions: IndexPair
    value: Number


class ClassProbability(Shape):
    """A class with its probability."""

    label: UnicodeText
    probability: Fraction


# ---- the certificate -------------------------------------------------------------------------------------------------


class Certificate(Shape):
    """A method's estimate of how far its scores for one text can be relied on.

    Attributes:
        words: the three words with the highest scores.
        effect: sum of their scores, the expected change in the answer when they are left out.
        bound: largest difference, for 90 % of texts like those held out, between `effect` and that change; in the
            answer's unit, a probability.
        familiar: whether the text resembles the training texts. If it does not, the bound means nothing.

    Example:
        >>> import explearn
        >>> words = ("penalties", "final")
        >>> print(explearn.Certificate(words=words, effect=0.4, bound=0.1, familiar=True))
        reliable: removing “penalties”, “final” should lower the probability by 0.30 to 0.50 (90 % of texts)
    """

    words: Texts
    effect: Number
    bound: NonNegativeFloat
    familiar: bool

    @computed_field  # type: ignore[prop-decorator]
    @property
    def verdict(self) -> Verdict:
        """`reliable` if the bound is at most half of the effect, else `check`: ask a slower method, or more passes."""
        if self.familiar and self.bound <= RELIABLE * self.effect:
            return "reliable"
        return "check"

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self, output: str = "probability") -> str:
        """Return the verdict with what the words' removal should do.

        Args:
            output: what the classifier returns: probability or value.
        """
        if not self.familiar:
            return f"{self.verdict}: the text is unlike the explainer's training texts"
        words = ", ".join(f"“{word}”" for word in self.words)
        low = self.effect - self.bound
        high = self.effect + self.bound
        if output == "probability":
            high = min(high, 1.0)
        fall = f"{low:.2f} to {high:.2f}"
        if round(low, 2) < 0:
            fall = f"at most {high:.2f}"
        share = f"{100 * COVERAGE:.0f} % of texts"
        return f"{self.verdict}: removing {words} should lower the {output} by {fall} ({share})"


def certify(estimate: Sequence[float], words: Sequence[str], scores: NDArray[np.floating]) -> Certificate:
    """Return the certificate of a text's scores.

    Args:
        estimate: the bound, and 1 for a familiar text, else 0.
        words: the text's words.
        scores: their scores, (words,), NaN where a word was not read.
    """
    bound, familiar = estimate
    top = np.flatnonzero(top_words(scores) & ~np.isnan(scores)).tolist()
    return Certificate(
        words=tuple(words[position] for position in top),
        effect=float(scores[top].sum()),
        bound=bound,
        familiar=familiar > 0,
    )


def top_words(scores: NDArray[np.floating]) -> Mask:
    """Say which words have the TOP_WORDS largest scores, bool, (words,)."""
    top = np.zeros(len(scores), dtype=bool)
    top[np.argsort(-scores, kind="stable")[:TOP_WORDS]] = True
    return top


# ---- the fields ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class AttributionFields:
    """The fields of an `explearn.Attribution`, which documents them, and what follows from them."""

    example_id: Annotated[UnicodeText, Field(alias="id")] = ""
    method: UnicodeText
    target: UnicodeText
    predicted: UnicodeText
    probability: Probability = math.nan
    value: Number | None = None
    words: Texts
    scores: Scores
    tokens: Texts
    token_scores: Scores
    aggregation: Aggregation
    signed: bool
    unaligned: Whole = 0
    seconds: NonNegativeFloat = 0.0
    completeness_error: Number | None = None
    windows: PositiveInt = 1
    spans: Annotated[tuple[IndexPair, ...], Field(strict=False)] = ()
    gaps: Texts = ()
    pair_start: PositiveInt | None = None
    certificate: Certificate | None = None
    unit: UnicodeText = "word"
    focus: Annotated[IndexPair | None, Field(strict=False)] = None
    interactions: Annotated[tuple[Interaction, ...], Field(strict=False)] = ()
    output: Literal["", "logit", "probability", "log_probability"] = ""
    classes: Annotated[tuple[ClassProbability, ...], Field(strict=False)] = ()
    without_words: Probability = math.nan

    @property
    def missed(self) -> float | None:
        """The completeness error as a share of the sum of the words' absolute scores, 0 to 1."""
        error = self.completeness_error
        return error and error / max(error, float(np.nansum(np.abs(self.scores))))

    @property
    def text_key(self) -> tuple[object, ...]:
        """What attributions of the same text have in common: id, words, segments and what the answer is about."""
        return self.example_id, self.words, self.pair_start, self.focus

    @property
    def focus_text(self) -> str:
        """The words that the answer is about; empty if it is about the whole text."""
        if self.focus is None:
            return ""
        first, end = self.focus
        return lay_out(self.words[first:end], self.joined, first).text

    @property
    def joined(self) -> tuple[int, ...]:
        """Indices of words that directly follow the previous word, according to `spans`."""
        return joined_words(self.spans, self.pair_start)

    @property
    def read(self) -> Mask:
        """Whether each word has a score, (words,)."""
        return ~np.isnan(self.scores)

    def filled(self, value: float | None = None) -> Array32:
        """Return the scores, (words,), with a number in place of NaN.

        Args:
            value: that number; None: just below the text's lowest score, so that such words rank last (0 if no word has
                a score).
        """
        return filled(self.scores, value)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, for JSON; None for a missing score."""
        return as_shape(self).model_dump(mode="json", by_alias=True)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the attribution from what `to_dict` returned.

        Args:
            document: field -> value. Attributions from elsewhere need only `words`, `scores`, `target` and `method`;
                unknown fields are ignored.

        Raises:
            DataError: a field is missing, or has a value of another kind; the message names it.
        """
        if not isinstance(document, Mapping):
            raise DataError(f"document: got {kind_of(document)}; expected a dictionary, as to_dict returns")
        values: dict[str, Any] = {"predicted": document.get("target"), "tokens": [], "token_scores": []}
        values |= {"aggregation": "max", "signed": False}
        values |= {name: value for name, value in document.items() if not _is_missing(value)}
        read = check(attribution_shape(), values)
        _check_consistent(read)
        fields = {name: getattr(read, name) for name in type(read).model_fields}
        if _is_missing(document.get("signed")):
            fields["signed"] = bool((read.scores < 0).any())
        if _is_missing(document.get("unaligned")):
            fields["unaligned"] = int(np.isnan(read.scores).sum())
        return cls(**fields)

    def answer(self) -> str:
        """Return the model's output for the target as text: `p = 0.123`, or `value = 1.5` for a regression."""
        if self.value is None:
            return f"p = {self.probability:.3f}"
        return f"value = {self.value:.4g}"

    def top_words(self, count: int = 10, against: bool = False) -> list[TopWord]:
        """Return the highest-scoring words, highest first. Unread words are left out.

        Args:
            count: at most this many.
            against: return the words with scores below zero, lowest first.
        """
        keys = self.scores if against else -self.scores
        top = []
        for position in np.argsort(keys, kind="stable").tolist():
            score = float(self.scores[position])
            if math.isnan(score) or (against and score >= 0):
                continue
            span = None
            if self.spans:
                span = self.spans[position]
            top.append(TopWord(self.words[position], score, position, span))
        return top[:count]

    def __repr__(self) -> str:
        output = ""
        if self.value is not None:
            output = f", value={self.value:.4g}"
        elif not math.isnan(self.probability):
            output = f", probability={self.probability:.2f}"
        size = f"{self.unit}s={len(self.words)}"
        return f"{type(self).__name__}(method={self.method!r}, target={self.target!r}, {size}{output})"


def filled(scores: Array32, value: float | None = None) -> Array32:
    """Return word scores, (words,), with a number in place of NaN; see `Attribution.filled`."""
    read = ~np.isnan(scores)
    if read.all():
        return scores
    if value is None:
        value = 0.0
        if read.any():
            value = float(np.nextafter(scores[read].min(), np.float32(-np.inf)))
    return np.where(read, scores, np.float32(value))


# ---- their shape -----------------------------------------------------------------------------------------------------


def attribution_shape() -> type[Shape]:
    """Return the shape of an attribution, for checks, JSON and schemas."""
    return shape_of(AttributionFields)


def as_shape(attribution: AttributionFields) -> Shape:
    """Return an attribution as its shape; `model_dump` gives arrays, or with `mode="json"` plain values."""
    shape = attribution_shape()
    return shape.model_construct(**{name: getattr(attribution, name) for name in shape.model_fields})


def _is_missing(value: object) -> bool:
    """Return whether a value of a field is null or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _check_length(field: str, values: Sequence[object], expected: int, unit: str) -> None:
    if len(values) != expected:
        raise DataError(f"field {field!r} has {len(values)} entries; expected {expected}, one per {unit}")


def _check_consistent(read: Any) -> None:
    """Raise DataError, naming the field, if fields do not fit together."""
    count = len(read.words)
    check_words(read.words, spaced=read.unit != "word")
    _check_length("scores", read.scores, count, "word")
    _check_length("token_scores", read.token_scores, len(read.tokens), "sub-token")
    if np.isnan(read.token_scores).any():
        raise DataError("field 'token_scores': got an entry without a number; expected one for each sub-token")
    if read.spans:
        _check_length("spans", read.spans, count, "word")
    if read.gaps:
        expected = count + 1 + (read.pair_start is not None)
        if len(read.gaps) != expected:
            raise DataError(f"field 'gaps' has {len(read.gaps)} entries; expected {expected}")
    for number, (start, end) in enumerate(read.spans):
        if start > end:
            raise DataError(f"field 'spans', word {number}: got [{start}, {end}); expected [start, end) of each word")
    if read.pair_start is not None and read.pair_start >= count:
        raise DataError(f"field 'pair_start': got {read.pair_start}; expected less than {count}, the words")
    if read.focus is not None and not read.focus[0] < read.focus[1] <= count:
        raise DataError(f"field 'focus': got {list(read.focus)}; expected [first, end) within the {count} words")
    for number, pair in enumerate(read.interactions):
        first, second = pair.positions
        if not first < second < count or pair.words != (read.words[first], read.words[second]):
            raise DataError(
                f"field 'interactions', pair {number}: got {pair.words} at {pair.positions}; expected two of the words "
                "in order"
            )

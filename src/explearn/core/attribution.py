"""Attributions: word scores of one text for one class."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from explearn.core.arguments import check_listed
from explearn.core.certificate import Certificate
from explearn.core.errors import DataError, kind_of
from explearn.core.examples import check_words
from explearn.core.validation import MOST, Number, Shape, UnicodeText, check
from explearn.core.words import joined_words

if TYPE_CHECKING:
    from rich.text import Text

Aggregation = Literal["max", "sum"]


class TopWord(NamedTuple):
    """A word with its score, its position among the text's words, and its [start, end) in the text, if known."""

    word: str
    score: float
    position: int
    span: tuple[int, int] | None


MOST_INTERACTING = 10
"""Most words among which interactions of pairs are computed; ten take 1,024 forward passes."""


class Interaction(NamedTuple):
    """Two words' positions in the text, and what they add together beyond what each adds alone."""

    words: tuple[str, str]
    positions: tuple[int, int]
    value: float


def filled(scores: NDArray[np.float32], value: float | None = None) -> NDArray[np.float32]:
    """Return word scores, (words,), with a number in place of NaN; see `Attribution.filled`."""
    read = ~np.isnan(scores)
    if read.all():
        return scores
    if value is None:
        value = float(np.nextafter(scores[read].min(), np.float32(-np.inf))) if read.any() else 0.0
    return np.where(read, scores, np.float32(value))


@dataclass(frozen=True, slots=True, eq=False)
class Attribution:
    """Word scores of one text for one target class; larger means more evidence for the target.

    Attributes:
        words: words of the text (of both segments for a pair), or other units that are scored (`unit`).
        scores: float32, shape (len(words),). NaN: the word has no score, because the classifier did not read it (it is
            beyond the classifier's maximum length, or has no sub-token); see `read` and `filled`. The words of a
            question's answer have no score either.
        tokens: sub-tokens, without special tokens and padding.
        token_scores: float32, shape (len(tokens),), before aggregation to words.
        target: name of the explained class.
        method: registry name of the method.
        probability: probability of `target` under the classifier, averaged over windows; NaN for a regression.
        predicted: name of the predicted class; for a multi-label classifier the target if it applies, else the most
            probable label.
        aggregation: how sub-token scores became word scores.
        signed: whether scores below zero mean evidence against the target.
        unaligned: number of words without a sub-token, or not read by the method's own model.
        seconds: time spent on this text (its share of the batch), including classification.
        completeness_error: for methods whose scores should add up to a known number (including special tokens), by how
            much they miss it; None for others.
        example_id: id of the example, empty for free text.
        value: output of a regression for the text; None for a classifier.
        windows: number of windows through which the text was read.
        spans: each word's [start, end) in the characters of its segment; empty if unknown.
        pair_start: index in `words` of the second segment's first word; None if there is one segment.
        certificate: how far the scores can be relied on; None for methods that do not say.
        unit: what `words` are: word, token, phrase, sentence, or span (of a pattern or function).
        token: index in `words` of the classified word; None if the whole text is classified.
        interactions: interactions of pairs of words (`explearn.interactions`); empty if not computed.

    It displays itself in notebooks, and in colour through rich (`rich.print`, `Attribution.print`).
    """

    words: tuple[str, ...]
    scores: NDArray[np.float32]
    tokens: tuple[str, ...]
    token_scores: NDArray[np.float32]
    target: str
    method: str
    probability: float
    predicted: str
    aggregation: Aggregation
    signed: bool
    unaligned: int = 0
    seconds: float = 0.0
    completeness_error: float | None = None
    example_id: str = ""
    value: float | None = None
    windows: int = 1
    spans: tuple[tuple[int, int], ...] = ()
    pair_start: int | None = None
    certificate: Certificate | None = None
    unit: str = "word"
    token: int | None = None
    interactions: tuple[Interaction, ...] = ()

    @property
    def missed(self) -> float | None:
        """The completeness error as a share of the sum of the words' absolute scores, 0 to 1."""
        error = self.completeness_error
        return error and error / max(error, float(np.nansum(np.abs(self.scores))))

    @property
    def joined(self) -> tuple[int, ...]:
        """Indices of words that directly follow the previous word, according to `spans`."""
        return joined_words(self.spans, self.pair_start)

    @property
    def read(self) -> NDArray[np.bool_]:
        """Return whether each word has a score, (words,)."""
        return ~np.isnan(self.scores)

    def filled(self, value: float | None = None) -> NDArray[np.float32]:
        """Return the scores, (words,), with a number in place of NaN.

        Args:
            value: that number; None: just below the text's lowest score, so that such words rank last (0 if no word has
                a score).
        """
        return filled(self.scores, value)

    def to_record(self) -> dict[str, object]:
        """Return plain Python values, for JSON; None for a missing score."""
        return {
            "id": self.example_id,
            **{name: getattr(self, name) for name in _Record.model_fields if name != "id"},
            "probability": None if math.isnan(self.probability) else self.probability,
            "words": list(self.words),
            "scores": [None if math.isnan(s) else float(s) for s in self.scores],
            "tokens": list(self.tokens),
            "token_scores": [None if math.isnan(s) else float(s) for s in self.token_scores],
            "spans": [list(span) for span in self.spans],
            "certificate": self.certificate and self.certificate.to_record(),
            "interactions": [[*pair.positions, pair.value] for pair in self.interactions],
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the attribution from what `to_record` returned. Unknown fields are ignored.

        Records from elsewhere need only `words`, `scores`, `target` and `method`.
        Raises DataError, naming the field, for a missing field or one with a value of another kind.
        """
        if not isinstance(record, Mapping):
            raise DataError(f"record: got {kind_of(record)}; expected a dictionary, as to_record returns")
        # Null and NaN mark missing values.
        values = {
            name: value
            for name, value in record.items()
            if value is not None and not (isinstance(value, float) and math.isnan(value))
        }
        read: _Record = check(_Record, values)
        check_words(read.words, spaced=read.unit != "word")
        scores = _numbers("scores", read.scores, len(read.words), "word")
        token_scores = _numbers("token_scores", read.token_scores, len(read.tokens), "sub-token")
        if np.isnan(token_scores).any():
            raise DataError("field 'token_scores': got an entry without a number; expected one for each sub-token")
        for number, (start, end) in enumerate(read.spans):
            if not 0 <= start <= end or len(read.spans) != len(read.words):
                raise DataError(
                    f"field 'spans', word {number}: got [{start}, {end}); expected [start, end) of each word"
                )
        if read.pair_start is not None and read.pair_start >= len(read.words):
            raise DataError(
                f"field 'pair_start': got {read.pair_start}; expected less than {len(read.words)}, the words"
            )
        if read.token is not None and read.token >= len(read.words):
            raise DataError(f"field 'token': got {read.token}; expected less than {len(read.words)}, the words")
        for number, (*places, _) in enumerate(read.interactions):
            if not 0 <= places[0] < places[1] < len(read.words):
                raise DataError(
                    f"field 'interactions', pair {number}: got {places}; expected two of the words in order"
                )
        fields = {name: getattr(read, name) for name in _Record.model_fields if name != "id"}
        fields |= {
            "example_id": read.id,
            "scores": scores,
            "token_scores": token_scores,
            "predicted": read.target if read.predicted is None else read.predicted,
            "signed": bool((scores < 0).any()) if read.signed is None else read.signed,
            "unaligned": int(np.isnan(scores).sum()) if read.unaligned is None else read.unaligned,
            "interactions": tuple(
                Interaction((read.words[i], read.words[j]), (i, j), value) for i, j, value in read.interactions
            ),
        }
        return cls(**fields)

    def answer(self) -> str:
        """Return the model's output for the target as text: `p = 0.123`, or `value = 1.5` for a regression."""
        return f"p = {self.probability:.3f}" if self.value is None else f"value = {self.value:.4g}"

    def top_words(self, count: int = 10, against: bool = False) -> list[TopWord]:
        """Return the `count` highest-scoring words, highest first; with `against`, the words below zero, lowest first.

        Each is a (word, score, position, span). Unread words are left out.
        """
        return top_words(self, count, against)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | Path:
        """Return HTML to embed in a page, or with `path` write a page (whole or not at all) and return the path.

        Raises DataError if the page cannot be written.
        """
        from explearn.show import display

        body = display.block(self)
        return display.in_notebook(body) if path is None else display.write_page(path, body)

    def print(self) -> None:
        """Print the text in colour; `print(attribution)` is one plain line."""
        from rich.console import Console

        Console().print(self)

    to_dict = to_record
    _repr_html_ = to_html

    def __rich__(self) -> Text:
        from explearn.show import display

        return display.terminal(self)

    def __str__(self) -> str:
        from explearn.show import display

        return display.line(self)


def top_words(attribution: Attribution, count: int = 10, against: bool = False) -> list[TopWord]:
    """Return the `count` highest-scoring words, highest first; with `against`, the words below zero, lowest first.

    Unread words are left out.
    """
    scores = attribution.scores
    order = np.argsort(scores if against else -scores, kind="stable").tolist()
    chosen = [i for i in order if np.isfinite(scores[i]) and (scores[i] < 0 or not against)][:count]
    spans = attribution.spans or (None,) * len(scores)
    return [TopWord(attribution.words[i], float(scores[i]), i, spans[i]) for i in chosen]


_Texts = Annotated[tuple[UnicodeText, ...], Field(strict=False)]
_Scores = Annotated[tuple[Annotated[float, Field(allow_inf_nan=True)] | None, ...], Field(strict=False)]
_Spans = Annotated[tuple[Annotated[tuple[int, int], Field(strict=False)], ...], Field(strict=False)]


class _Record(Shape):
    """An attribution as a JSON object; from elsewhere it has at least words, scores, target and method."""

    id: UnicodeText = ""
    method: UnicodeText
    target: UnicodeText
    predicted: UnicodeText | None = None
    probability: Annotated[float, Field(ge=0, le=1)] = math.nan
    value: Number | None = None
    words: _Texts
    scores: _Scores
    tokens: _Texts = ()
    token_scores: _Scores = ()
    aggregation: Aggregation = "max"
    signed: bool | None = None
    unaligned: Annotated[int, Field(ge=0, le=MOST)] | None = None
    seconds: Annotated[float, Field(ge=0)] = 0.0
    completeness_error: Number | None = None
    windows: Annotated[int, Field(ge=1, le=MOST)] = 1
    spans: _Spans = ()
    pair_start: Annotated[int, Field(ge=1)] | None = None
    certificate: Certificate | None = None
    unit: UnicodeText = "word"
    token: Annotated[int, Field(ge=0)] | None = None
    interactions: Annotated[
        tuple[Annotated[tuple[int, int, Number], Field(strict=False)], ...], Field(strict=False)
    ] = ()


def _numbers(field: str, values: Sequence[float | None], count: int, unit: str) -> NDArray[np.float32]:
    if len(values) != count:
        raise DataError(f"field {field!r} has {len(values)} entries; expected {count}, one per {unit}")
    numbers = np.array([math.nan if value is None else value for value in values], dtype=np.float64)
    for place in np.flatnonzero(np.abs(numbers) > np.finfo(np.float32).max).tolist():
        raise DataError(f"field {field!r}, {unit} {place}: got {values[place]}; expected a finite number (float32)")
    return numbers.astype(np.float32)


def each_attribution(attributions: Iterable[Attribution]) -> Iterator[Attribution]:
    """Yield the attributions. Raises DataError for any other entry, ParamsError for anything but a list."""
    check_listed("attributions", attributions)
    for number, attribution in enumerate(attributions, start=1):
        if not isinstance(attribution, Attribution):
            raise DataError(f"attribution {number}: got {kind_of(attribution)}; expected an explearn.Attribution")
        yield attribution

"""The three records that pass between stages: examples, rationales and attributions.

All three are about words: a rationale marks words and an attribution scores them. An example with a second segment
(`pair`) is scored over `words + pair`, in that order.
"""

from __future__ import annotations

import math
import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from explearn.core.arguments import check_listed
from explearn.core.certificate import Certificate
from explearn.core.display import Interaction, TopWord, block, in_notebook, line, terminal, top_words, write_page
from explearn.core.errors import DataError, kind_of, shown
from explearn.core.escape import is_unicode
from explearn.core.validation import MOST, Name, Number, Shape, UnicodeText, check, check_fields
from explearn.core.words import Segment, joined_words, segments_of

if TYPE_CHECKING:
    from rich.text import Text

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

RationaleKind = Literal["human", "llm", "author"]

Aggregation = Literal["max", "sum"]

ANSWER_LABELS = ("answer", "another span")
"""The two classes of a question with its passage: its answer, and any other span. Every example is of the first."""

ANSWER_WORDS = 15
"""Longest span that counts as an answer, in words."""

MAX_TEXT_CHARS = 1_000_000
"""Longest text accepted, in characters, counting one space between words: a long novel. A longer one is a whole file
mistaken for one text (lines lost, a wrong column), of which a classifier reads a few hundred words."""


def label_problem(labels: Sequence[str]) -> str | None:
    """Return what is wrong with the names of classes: one is empty, not valid Unicode, or looks like another.

    Names that differ only in how Unicode composes a letter (e with an accent, as one character or two) look the same,
    and which of them a file has is chance.
    """
    seen: dict[str, str] = {}
    for label in labels:
        if not label.strip():
            return f"got the label {label!r}; expected a name"
        if not is_unicode(label):
            return f"got the label {label!r}; expected valid Unicode"
        other = seen.setdefault(unicodedata.normalize("NFC", label), label)
        if other != label:
            return f"got the labels {other!a} and {label!a}, which read the same; expected one of them"
    if len(seen) != len(labels):
        twice = next(label for label in labels if list(labels).count(label) > 1)
        return f"got the label {twice!r} twice; expected each once"
    return None


def check_words(words: Sequence[str], field: str = "words", spaced: bool = False) -> None:
    """Raise DataError for unusable words (none, white space inside) and for more than MAX_TEXT_CHARS characters;
    `spaced` for other units, which may contain white space."""
    if not words:
        raise DataError(f"field {field!r} is empty; expected at least one word")
    total = len(words) - 1
    for position, word in enumerate(words):
        if not isinstance(word, str) or (not word.strip() if spaced else word.split() != [word]):
            raise DataError(f"field {field!r}, word {position}: got {shown(word)}; expected a word without white space")
        if not is_unicode(word):
            raise DataError(f"field {field!r}, word {position}: got {word!r}; expected valid Unicode")
        total += len(word)
    if total > MAX_TEXT_CHARS:
        raise DataError(f"field {field!r} has {total:,} characters; expected at most {MAX_TEXT_CHARS:,}")


def check_text(text: str, field: str) -> None:
    """Raise DataError as `check_words` does for the words of a text."""
    check_words(Segment.of(text).words if is_unicode(text) else tuple(text.split()), field)


@dataclass(frozen=True, slots=True)
class Example:
    """One labelled text.

    `words` are its words and `pair` the words of the second segment (empty for single texts). `joined` are the indices
    in `all_words` of words that follow the previous word without white space (`explearn.core.words`).
    `answer` is the [first, end) of `all_words`, within `pair`, that answers a question about a passage; for a single
    text it is the classified word. `unit` is what `words` and `pair` hold, as in an `Attribution`.
    Raises DataError if words are missing or unusable, id or label is not valid Unicode, `split` is not one of SPLITS,
    the answer is not within `pair`, or a joined word has no previous word.
    """

    id: Name
    words: tuple[str, ...]
    label: UnicodeText
    split: Split
    task: str
    pair: tuple[str, ...] = ()
    answer: tuple[int, int] | None = None
    joined: tuple[int, ...] = ()
    unit: str = "word"

    def __post_init__(self) -> None:
        check_fields(self)
        spaced = self.unit != "word"
        check_words(self.words, spaced=spaced)
        if self.pair:
            check_words(self.pair, "pair", spaced)
        if self.answer is not None:
            first, end = self.answer
            least = len(self.words) if self.pair else 0
            if not least <= first < end <= len(self.all_words):
                raise DataError(
                    f"field 'answer': got {list(self.answer)}; expected [first, end) within the words of the last "
                    f"segment, {least} to {len(self.all_words)}"
                )
        if wrong := set(self.joined) - ({*range(len(self.all_words))} - {0, len(self.words)}):
            raise DataError(f"field 'joined': got {min(wrong)}; expected numbers of words that have one before them")

    @property
    def all_words(self) -> tuple[str, ...]:
        """The words of both segments, in the order of masks and scores."""
        return self.words + self.pair

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The text with the spans of its words, and the second segment, if any."""
        return segments_of(self.all_words, self.joined, len(self.words) if self.pair else None)

    @property
    def text(self) -> str:
        return self.segments[0].text

    @property
    def pair_text(self) -> str | None:
        return self.segments[1].text if self.pair else None


@dataclass(frozen=True, slots=True)
class Rationale:
    """One annotator's marks on one example: `mask[i]` is True where word i of `Example.all_words` is evidence."""

    example_id: str
    annotator: Name
    kind: RationaleKind
    mask: tuple[bool, ...]

    def __post_init__(self) -> None:
        check_fields(self)


def check_mask_length(rationale: Rationale, lengths: Mapping[str, int]) -> None:
    """Raise DataError unless the rationale's example is in `lengths` and its mask has that many entries."""
    expected = lengths.get(rationale.example_id)
    if expected is None:
        raise DataError(f"field 'example_id': no example {rationale.example_id!r}; expected an id of this task")
    if len(rationale.mask) != expected:
        raise DataError(
            f"field 'mask' of example {rationale.example_id!r} has {len(rationale.mask)} entries; "
            f"expected {expected}, one per word"
        )


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
        return in_notebook(block(self)) if path is None else write_page(path, block(self))

    def print(self) -> None:
        """Print the text in colour; `print(attribution)` is one plain line."""
        from rich.console import Console

        Console().print(self)

    to_dict = to_record
    _repr_html_ = to_html

    def __rich__(self) -> Text:
        return terminal(self)

    def __str__(self) -> str:
        return line(self)


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

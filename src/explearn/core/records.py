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

MAX_WORDS = 100_000
"""Most words of a text. Longer ones are damaged input (a whole corpus in one cell), of which a classifier would read
the first few hundred words."""

MAX_WORD_CHARS = 1000
"""Longest word accepted, in characters. Longer runs without a space are damaged input (a base64 blob, a missing
separator); every tokenizer would turn them into one unknown token or hundreds of pieces."""

MAX_TEXT_CHARS = 1_000_000
"""Longest text accepted, in characters, a space between words counted: a long novel. More is a whole file that was
taken for one text (lines lost, a wrong column); a classifier reads a few hundred words of it."""


def label_problem(labels: Sequence[str]) -> str | None:
    """Return what is wrong with the names of classes: one is empty, no valid Unicode, or reads like another.

    Names that differ only in how Unicode puts a letter together (e with an accent, as one character or as two) look the
    same to everybody, and a file says the one or the other by chance.
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
    """Raise DataError unless there are usable words (no white space inside, none too long), at most MAX_WORDS, of
    MAX_TEXT_CHARS characters together; `spaced` for other units, which may be longer and have white space inside."""
    if not words:
        raise DataError(f"field {field!r} is empty; expected at least one word")
    if len(words) > MAX_WORDS:
        raise DataError(f"field {field!r} has {len(words):,} words; expected at most {MAX_WORDS:,}")
    total = len(words) - 1
    for position, word in enumerate(words):
        if not isinstance(word, str) or (not word.strip() if spaced else word.split() != [word]):
            raise DataError(f"field {field!r}, word {position}: got {shown(word)}; expected a word without white space")
        if len(word) > MAX_WORD_CHARS and not spaced:
            raise DataError(
                f"field {field!r}, word {position} has {len(word):,} characters; expected at most {MAX_WORD_CHARS:,}"
            )
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

    `words` are its words and `pair` those of the second segment (empty for single texts). `joined` are the indices in
    `all_words` of those that stand directly behind the one before, with no white space between (`explearn.core.words`).
    `answer`, of a question with its passage, is the [first, end) of `all_words`, within `pair`, that answer it; of
    a single text it is the word that is classified. `unit` is what `words` and `pair` hold, as in an `Attribution`:
    texts are read by words and may be compared by others.
    Raises DataError when words are missing or unusable, id or label is not valid Unicode, `split` is not one of SPLITS,
    or the answer is not within `pair`, or a joined word has none before it.
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
        """The text with the places of its words, and that of the second segment, if any."""
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
        scores: float32, shape (len(words),). NaN: the word has no score, for the classifier did not read it (it lies
            behind the end of what the classifier takes, or no sub-token is made of it); see `read` and `filled`. The
            words of a question's answer have none either.
        tokens: sub-tokens, without special tokens and padding.
        token_scores: float32, shape (len(tokens),), before aggregation to words.
        target: name of the explained class.
        method: registry name of the method.
        probability: probability of `target` under the classifier; NaN for a regression, which has none. Of a text that
            is read window by window, the mean over the windows.
        predicted: name of the class the classifier gives; of a multi-label classifier the target where it holds, else
            the most probable label.
        aggregation: how sub-token scores became word scores.
        signed: whether scores below zero mean evidence against the target.
        unaligned: number of words without a sub-token, or that a model of the method's own does not read.
        seconds: time spent on this text (its share of the batch), classification included.
        completeness_error: for methods whose scores should add up to a known number (special tokens included), by how
            much they miss it; None for others.
        example_id: id of the example, empty for free text.
        value: what a regression gives for the text; None for a classifier.
        windows: number of windows through which the text was read, 1 where it was read at once.
        spans: of each word, its [start, end) in the characters of its segment as it was given; empty where unknown.
        pair_start: index in `words` of the second segment's first word; None where there is one segment.
        certificate: how far the scores can be relied on, of methods that say so; None of others.
        unit: what `words` are: word, token, phrase, sentence, or span (of a pattern or function).
        token: index in `words` of the one that is classified; None where the whole text is.
        interactions: of pairs of words, as `explearn.interactions` gives them; empty where it was not asked.

    It shows itself in notebooks, and in colour through rich (`rich.print`, `Attribution.print`).
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
        """Indices of the words that stand directly behind the one before, as far as `spans` tell."""
        return joined_words(self.spans, self.pair_start)

    @property
    def read(self) -> NDArray[np.bool_]:
        """Return whether each word has a score, (words,)."""
        return ~np.isnan(self.scores)

    def filled(self, value: float | None = None) -> NDArray[np.float32]:
        """Return the scores, (words,), with a number at the words that have none.

        Args:
            value: that number; None: one just below the lowest score of the text, so that such words come last (0 where
                no word has a score).
        """
        return filled(self.scores, value)

    def to_record(self) -> dict[str, object]:
        """Return plain Python values, for JSON; None for a score that is not there."""
        return {
            "id": self.example_id,
            "method": self.method,
            "target": self.target,
            "predicted": self.predicted,
            "probability": None if math.isnan(self.probability) else self.probability,
            "value": self.value,
            "words": list(self.words),
            "scores": [None if math.isnan(s) else float(s) for s in self.scores],
            "tokens": list(self.tokens),
            "token_scores": [None if math.isnan(s) else float(s) for s in self.token_scores],
            "aggregation": self.aggregation,
            "signed": self.signed,
            "unaligned": self.unaligned,
            "seconds": self.seconds,
            "completeness_error": self.completeness_error,
            "windows": self.windows,
            "spans": [list(span) for span in self.spans],
            "pair_start": self.pair_start,
            "certificate": self.certificate and self.certificate.to_record(),
            "unit": self.unit,
            "token": self.token,
            "interactions": [[*pair.positions, pair.value] for pair in self.interactions],
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the attribution that `to_record` wrote. Unknown fields are ignored.

        Of someone else's record `words`, `scores`, `target` and `method` must be there; all else has a default.
        Raises DataError, naming the field, for one that is missing or has another kind of value.
        """
        if not isinstance(record, Mapping):
            raise DataError(f"record: got {kind_of(record)}; expected what to_record gives, a dictionary")
        # Null and NaN stand for what a record does not have.
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
        """Return what the model gives the target, in words: `p = 0.123`, or `value = 1.5` of a regression."""
        return f"p = {self.probability:.3f}" if self.value is None else f"value = {self.value:.4g}"

    def top_words(self, count: int = 10, against: bool = False) -> list[TopWord]:
        """Return the `count` highest-scoring words, highest first; with `against`, those below zero, lowest first.

        Each is a (word, score, position, span). Words that were not read have no place among them.
        """
        return top_words(self, count, against)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | Path:
        """Return HTML for a page of one's own, or with `path` write a page there (whole or not at all).

        Returns the HTML or the path. Raises DataError where the page cannot be written.
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
    """An attribution as a JSON object; from elsewhere it has words, scores, target and method at least."""

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
    """Yield the attributions. Raises DataError for anything else, ParamsError for what is no list."""
    check_listed("attributions", attributions)
    for number, attribution in enumerate(attributions, start=1):
        if not isinstance(attribution, Attribution):
            raise DataError(f"attribution {number}: got {kind_of(attribution)}; expected an explearn.Attribution")
        yield attribution

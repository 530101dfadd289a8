"""Sub-tokens of a text with the word each belongs to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from explearn.core.errors import DataError, kind_of, located
from explearn.core.examples import Example, check_text
from explearn.core.words import Segment, Span, joined_words, segments_of
from explearn.text.alignment import NO_WORD, align

Text = str | tuple[str, str] | Example | Mapping[str, Any]
"""An input to classify or explain: a text, a pair of texts, an example, or a row of a table (its column TEXT)."""

TEXT = "text"
"""Column of the text, where none is named; also the one column of a file of lines."""

IN_QUESTION = 8
"""Bit of `token_type_ids`, beside the model's own, at sub-tokens of what is asked about: the answer to a question, or
the word that is classified. They are never deleted."""


def name_of(example_id: str, number: int) -> str:
    """Return how messages call a text: by its example's id, else by its number, from 1."""
    return f"example {example_id!r}" if example_id else f"text {number}"


@dataclass(frozen=True, slots=True)
class Encoding:
    """Sub-tokens of one text (or pair), special tokens included.

    Attributes:
        input_ids: ids, length n.
        token_type_ids: segment of each position, length n; empty where the model knows no segments.
        special: True at special tokens ([CLS], [SEP], <s>, ...), length n.
        word_ids: index into `words` for each position, NO_WORD at special tokens and pieces of no word, length n.
        words: words of the text, then of the second segment.
        example_id: id of the example, empty for free text.
        characters: for each position the [start, end) of its word's characters that it covers, (0, 0) at NO_WORD,
            length n; empty in encodings made without a tokenizer.
        pair_start: index in `words` of the second segment's first word; None where there is one segment.
        answer: [first, end) of `words` that are the answer to a question, whose sub-tokens count as special; None
            elsewhere (`explearn.predictors.heads.question_answering`).
        spans: of each word, its [start, end) in the characters of its segment; empty in encodings made without a
            tokenizer.
        shared: (word, other word) for each word that has no sub-token of its own, for one of the other's is of
            characters of both.
    """

    input_ids: tuple[int, ...]
    token_type_ids: tuple[int, ...]
    special: tuple[bool, ...]
    word_ids: tuple[int, ...]
    words: tuple[str, ...]
    example_id: str = ""
    characters: tuple[Span, ...] = ()
    pair_start: int | None = None
    answer: Span | None = None
    spans: tuple[Span, ...] = ()
    shared: tuple[tuple[int, int], ...] = ()

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The model's input: two encodings with the same key get the same prediction."""
        return self.input_ids, self.token_type_ids

    @property
    def read(self) -> set[int]:
        """Words that the model reads something of."""
        owners = set(self.word_ids) - {NO_WORD}
        return owners | {word for word, other in self.shared if other in owners}

    @property
    def positions(self) -> list[int]:
        """Positions that are not special tokens."""
        return [position for position, special in enumerate(self.special) if not special]

    @property
    def token(self) -> int | None:
        """Index in `words` of the one that is classified; None where the whole text is."""
        return next(iter(self.in_question - {NO_WORD}), None)

    @property
    def in_question(self) -> set[int]:
        """Words of which a sub-token has the bit IN_QUESTION; NO_WORD for an answer's, which have no score."""
        return {word for word, bits in zip(self.word_ids, self.token_type_ids, strict=False) if bits & IN_QUESTION}

    @property
    def joined(self) -> tuple[int, ...]:
        """Indices of the words that stand directly behind the one before, as far as `spans` tell."""
        return joined_words(self.spans, self.pair_start)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The text with the places of its words, and that of the second segment, if any."""
        return segments_of(self.words, self.joined, self.pair_start)

    def select(self, kept: list[int]) -> Encoding:
        """Keep only these positions, ascending; `words` stay the text's."""
        fields = ("input_ids", "token_type_ids", "special", "word_ids", "characters")
        rows: dict[str, Any] = {field: getattr(self, field) for field in fields}
        selected: dict[str, Any] = {field: tuple(row[i] for i in kept) if row else () for field, row in rows.items()}
        return replace(self, **selected)

    def delete(self, word_indices: Collection[int]) -> Encoding:
        """Remove the sub-tokens of these words; those behind them move up."""
        dropped = set(word_indices) - {NO_WORD} - self.in_question
        return self.select([i for i, word in enumerate(self.word_ids) if word not in dropped])

    def keep(self, word_indices: Collection[int]) -> Encoding:
        """Keep only the sub-tokens of these words and the special tokens."""
        kept = (set(word_indices) | self.in_question) - {NO_WORD}
        return self.select([i for i, word in enumerate(self.word_ids) if self.special[i] or word in kept])

    def mask(self, word_indices: Collection[int], mask_token_id: int) -> Encoding:
        """Replace every sub-token of these words by the mask token; length and positions stay."""
        masked = set(word_indices) - {NO_WORD}
        ids = tuple(mask_token_id if w in masked else t for t, w in zip(self.input_ids, self.word_ids, strict=True))
        return replace(self, input_ids=ids)


def encoding_of(
    segments: Sequence[Segment],
    input_ids: Sequence[int],
    token_type_ids: Sequence[int],
    sequence: Sequence[int | None],
    offsets: Sequence[Span],
    example_id: str = "",
) -> Encoding:
    """Return a text's encoding from what a tokenizer gives.

    Args:
        segments: one, or two of a pair.
        sequence: segment of each sub-token, None for special tokens. offsets: its characters in that segment.
    """
    shift = len(segments[0].text) + 1
    places = [
        None if segment is None else (start + segment * shift, end + segment * shift)
        for segment, (start, end) in zip(sequence, offsets, strict=True)
    ]
    return Encoding(
        input_ids=tuple(input_ids),
        token_type_ids=tuple(token_type_ids),
        special=tuple(segment is None for segment in sequence),
        example_id=example_id,
        pair_start=None if len(segments) == 1 else len(segments[0].spans),
        **align_words(places, [(n * shift, segment) for n, segment in enumerate(segments)]),
    )


def align_words(offsets: Sequence[Span | None], parts: Sequence[tuple[int, Segment]]) -> dict[str, Any]:
    """Assign the sub-tokens of a string to the words of texts that are parts of it.

    Args:
        offsets: [start, end) of each sub-token in the characters of the string; None for special tokens.
        parts: the texts in their order, each behind the place where it starts in the string.

    Returns the fields words, word_ids, characters, spans and shared of an `Encoding`.
    """
    spans = [(start, a, b) for start, part in parts for a, b in part.spans]
    places = [(start + a, start + b) for start, a, b in spans]
    word_ids, characters = [NO_WORD] * len(offsets), [(0, 0)] * len(offsets)
    known = [(position, offset) for position, offset in enumerate(offsets) if offset is not None]
    owners = align([offset for _, offset in known], places)
    owned, shared = set(owners), dict[int, int]()
    for (position, (start, end)), owner in zip(known, owners, strict=True):
        if owner != NO_WORD:
            word_ids[position] = owner
            word_start, word_end = places[owner]
            characters[position] = max(start, word_start) - word_start, min(end, word_end) - word_start
            first = last = owner
            while first and start < places[first - 1][1]:
                first -= 1
            while last + 1 < len(places) and places[last + 1][0] < end:
                last += 1
            shared |= {word: owner for word in range(first, last + 1) if word not in owned | shared.keys()}
    return {
        "words": tuple(part.text[a:b] for _, part in parts for a, b in part.spans),
        "word_ids": tuple(word_ids),
        "characters": tuple(characters),
        "spans": tuple((a, b) for _, a, b in spans),
        "shared": tuple(shared.items()),
    }


def as_segments(text: Text, number: int) -> tuple[tuple[Segment, ...], str]:
    """Return the segments of a text and its id; raise DataError, naming `number`, for an unusable word."""
    if isinstance(text, Example):
        return text.segments, text.id
    if isinstance(text, Mapping):
        if TEXT not in text:
            raise DataError(
                f"text {number}: got the columns {', '.join(map(str, text))}; expected a column {TEXT!r}, or the texts "
                "themselves, such as table['COLUMN']"
            )
        text = text[TEXT]
    first, second = text if isinstance(text, tuple) and len(text) == 2 else (text, None)
    segments = []
    for segment in (first,) if second is None else (first, second):
        if not isinstance(segment, str):
            raise DataError(
                f"text {number}: got {kind_of(text)}; expected a text, a pair (a tuple), an Example or a row of a table"
            )
        with located(f"text {number}: "):
            check_text(segment, "text")
        segments.append(Segment.of(segment))
    return tuple(segments), ""

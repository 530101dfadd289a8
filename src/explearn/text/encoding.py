"""Sub-tokens of a text with the word each belongs to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from explearn.core.errors import DataError, kind_of, located
from explearn.core.examples import Example, check_text
from explearn.core.words import Segment, Span, joined_words, segments_of
from explearn.text.alignment import NO_WORD, align

Text = str | tuple[str, str] | Example | Mapping[str, Any]
"""An input to classify or explain: a text, a pair of texts, an example, or a row of a table (its column TEXT)."""

TEXT = "text"
"""Column of the text, where none is named; also the one column of a file of lines."""

Removal = Literal["delete", "mask"]
"""What happens to a word that is left out: its sub-tokens are deleted, or each is replaced by the mask token."""

POSITION_MARKS = ("fixed", "classified", "word_starts", "word_ends")
"""Fields of an `Encoding` that mark positions for a model with another head than a classifier's."""


def name_of(example_id: str, number: int) -> str:
    """Return how messages call a text: by its example's id, else by its number, from 1."""
    return f"example {example_id!r}" if example_id else f"text {number}"


@dataclass(frozen=True, slots=True)
class Encoding:
    """Sub-tokens of one text (or pair), special tokens included.

    Attributes:
        input_ids: ids, length n.
        token_type_ids: segment of each position, length n; empty if the model has no segments.
        special: True at special tokens ([CLS], [SEP], <s>, ...), length n.
        word_ids: index into `words` for each position, NO_WORD at special tokens and pieces of no word, length n.
        words: words of the text, then of the second segment.
        example_id: id of the example, empty for free text.
        characters: for each position the [start, end) of its word's characters that it covers, (0, 0) at NO_WORD,
            length n; empty in encodings made without a tokenizer.
        pair_start: index in `words` of the second segment's first word; None if there is one segment.
        answer: [first, end) of `words` that are the answer to a question, whose sub-tokens count as special; None
            for other texts (`explearn.predictors.heads.question_answering`).
        spans: [start, end) of each word in the characters of its segment; empty in encodings made without a
            tokenizer.
        shared: (word, other word) for each word without a sub-token of its own, because one of the other word's
            sub-tokens covers characters of both.
        fixed: True at sub-tokens that stay in every shortened text, length n: those of the answer to a question, or
            of the word that is classified. Empty if there are none.
        classified: True at the sub-token whose logits are read, length n; empty unless tokens are classified.
        word_starts: True at the first sub-token of each word of a passage, length n; empty unless a question is asked.
        word_ends: True at the last sub-token of each word of a passage, likewise.
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
    fixed: tuple[bool, ...] = ()
    classified: tuple[bool, ...] = ()
    word_starts: tuple[bool, ...] = ()
    word_ends: tuple[bool, ...] = ()

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def key(self) -> tuple[object, ...]:
        """The predictor's input: two encodings with the same key get the same prediction."""
        marks = [getattr(self, name) for name in POSITION_MARKS]
        return self.input_ids, self.token_type_ids, *filter(None, marks)

    @property
    def read(self) -> set[int]:
        """Words with at least one sub-token left after truncation."""
        owners = set(self.word_ids) - {NO_WORD}
        return owners | {word for word, other in self.shared if other in owners}

    @property
    def positions(self) -> list[int]:
        """Positions that are not special tokens."""
        return [position for position, special in enumerate(self.special) if not special]

    @property
    def token(self) -> int | None:
        """Index in `words` of the classified word; None if the whole text is classified."""
        return next(iter(self.fixed_words), None)

    @property
    def fixed_words(self) -> set[int]:
        """Words that stay in every shortened text; those of an answer are not counted, since they have no score."""
        words = {word for word, fixed in zip(self.word_ids, self.fixed, strict=False) if fixed}
        return words - {NO_WORD}

    @property
    def joined(self) -> tuple[int, ...]:
        """Indices of the words that directly follow the previous word, according to `spans`."""
        return joined_words(self.spans, self.pair_start)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The text with the spans of its words, and the second segment, if any."""
        return segments_of(self.words, self.joined, self.pair_start)

    def select(self, kept: list[int]) -> Self:
        """Keep only these positions, ascending; `words` stay the text's."""
        selected: dict[str, Any] = {}
        for name in ("input_ids", "token_type_ids", "special", "word_ids", "characters", *POSITION_MARKS):
            row = getattr(self, name)
            if row:
                selected[name] = tuple(row[position] for position in kept)
        return replace(self, **selected)

    def delete(self, word_indices: Collection[int]) -> Self:
        """Remove the sub-tokens of these words; those behind them move up."""
        dropped = set(word_indices) - {NO_WORD} - self.fixed_words
        return self.select([i for i, word in enumerate(self.word_ids) if word not in dropped])

    def keep(self, word_indices: Collection[int]) -> Self:
        """Keep only the sub-tokens of these words and the special tokens."""
        kept = (set(word_indices) | self.fixed_words) - {NO_WORD}
        return self.select([i for i, word in enumerate(self.word_ids) if self.special[i] or word in kept])

    def mask(self, word_indices: Collection[int], mask_token_id: int) -> Self:
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
        segments: one segment, or the two of a pair.
        input_ids: id of each sub-token.
        token_type_ids: token type of each sub-token.
        sequence: segment of each sub-token, None for special tokens.
        offsets: characters of each sub-token in its segment.
        example_id: id of the text.
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

"""Sub-tokens of a text with the word each belongs to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import compress
from typing import Any, Literal, Self

import numpy as np

from explearn.core.arrays import Mask
from explearn.core.errors import DataError, kind_of, located
from explearn.core.examples import Example, check_text
from explearn.core.words import Segment, Span, joined_words, segments_of, words_of
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
    if example_id:
        return f"example {example_id!r}"
    return f"text {number}"


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
        gaps: the characters between words, as in an `Example`.
        shared: (word, other word) for each word without a sub-token of its own, because one of the other word's
            sub-tokens covers characters of both.
        fixed: True at sub-tokens that stay in every shortened text, length n: those of the answer to a question, or
            of the word that is classified. Empty if there are none.
        classified: True at the sub-token whose logits are read, length n; empty unless tokens are classified.
        word_starts: True at the first sub-token of each word of a passage, length n; empty unless a question is asked.
        word_ends: True at the last sub-token of each word of a passage, likewise.
        in_units: whether `words` are sentences or spans in place of words and sub-tokens.
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
    gaps: tuple[str, ...] = ()
    shared: tuple[tuple[int, int], ...] = ()
    fixed: tuple[bool, ...] = ()
    classified: tuple[bool, ...] = ()
    word_starts: tuple[bool, ...] = ()
    word_ends: tuple[bool, ...] = ()
    in_units: bool = False

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def key(self) -> object:
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
        return segments_of(self.words, self.gaps, self.pair_start)

    def cut(self, bounds: Sequence[Collection[int]]) -> Encoding:
        """Cut what can be left out at these characters of each segment; sub-tokens cannot be cut."""
        return self

    def select(self, positions: list[int]) -> Self:
        """Keep only these positions, ascending; `words` stay the text's."""
        kept = set(positions)
        return self.only([position in kept for position in range(len(self))])

    def only(self, kept: Sequence[bool]) -> Self:
        """Keep the positions that are True in `kept`, length n."""
        return self.copies(np.array([kept], dtype=bool))[0]

    def delete(self, word_indices: Collection[int]) -> Self:
        """Remove the sub-tokens of these words; those behind them move up."""
        dropped = set(word_indices) - {NO_WORD} - self.fixed_words
        return self.only([word not in dropped for word in self.word_ids])

    def keep(self, word_indices: Collection[int]) -> Self:
        """Keep only the sub-tokens of these words and the special tokens."""
        kept = (set(word_indices) | self.fixed_words) - {NO_WORD}
        pairs = zip(self.special, self.word_ids, strict=True)
        return self.only([special or word in kept for special, word in pairs])

    def mask(self, word_indices: Collection[int], mask_token_id: int | None) -> Self:
        """Replace every sub-token of these words by the mask token; length and positions stay. None: remove them."""
        masked = set(word_indices) - {NO_WORD}
        stays = np.array([[word not in masked for word in self.word_ids]])
        return self.copies(stays, mask_token_id)[0]

    def masked_ids(self, mask_token_id: int) -> Sequence[int]:
        """Return the id of each position where it is masked, length n."""
        return [mask_token_id] * len(self)

    def copies(self, stays: Mask, mask_token_id: int | None = None) -> list[Self]:
        """Return the text once for each row.

        Args:
            stays: whether each position stays, (copies, n).
            mask_token_id: replaces the others. None: they are removed.
        """
        if mask_token_id is not None:
            copy = self._copier(("input_ids",))
            rows = np.where(stays, self.input_ids, self.masked_ids(mask_token_id))
            return [copy(input_ids=tuple(row)) for row in rows.tolist()]
        names = ("input_ids", "token_type_ids", "special", "word_ids", "characters", *POSITION_MARKS)
        columns = {name: getattr(self, name) for name in names if getattr(self, name)}
        copy = self._copier(columns)
        copies = []
        for kept in stays.tolist():
            selected = {name: tuple(compress(column, kept)) for name, column in columns.items()}
            copies.append(copy(**selected))
        return copies

    def _copier(self, changed: Collection[str]) -> Callable[..., Self]:
        """Return what makes copies with other values of some fields, in half the time of `replace`."""
        others = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in changed}
        return partial(type(self), **others)


def start_of_pair(segments: Sequence[Segment]) -> int | None:
    """Return the index of the second segment's first word; None if there is one segment."""
    if len(segments) == 1:
        return None
    return len(segments[0].spans)


def encoding_of(
    segments: Sequence[Segment],
    input_ids: Sequence[int],
    token_type_ids: Sequence[int],
    sequence: Sequence[int | None],
    offsets: Sequence[Span],
    example_id: str = "",
) -> Encoding:
    """Return a text's encoding from a tokenizer's output.

    Args:
        segments: one, or two of a pair.
        input_ids: ids of the sub-tokens.
        token_type_ids: segment ids for the model; empty if it has none.
        sequence: segment of each sub-token, None for special tokens.
        offsets: [start, end) of each sub-token in the characters of its segment.
        example_id: id of the example.
    """
    # As if the segments were one string, with a character between them.
    shift = len(segments[0].text) + 1
    spans: list[Span | None] = []
    for segment, (start, end) in zip(sequence, offsets, strict=True):
        if segment is None:
            spans.append(None)
        else:
            spans.append((start + segment * shift, end + segment * shift))
    return Encoding(
        input_ids=tuple(input_ids),
        token_type_ids=tuple(token_type_ids),
        special=tuple(segment is None for segment in sequence),
        example_id=example_id,
        pair_start=start_of_pair(segments),
        **align_words(spans, [(number * shift, segment) for number, segment in enumerate(segments)]),
    )


def align_words(offsets: Sequence[Span | None], parts: Sequence[tuple[int, Segment]]) -> dict[str, Any]:
    """Assign the sub-tokens of a string to the words of texts that are parts of it.

    Args:
        offsets: [start, end) of each sub-token in the characters of the string; None for special tokens.
        parts: the texts in their order, each after the position where it starts in the string.

    Returns:
        The fields words, word_ids, characters, spans, gaps and shared of an `Encoding`.
    """
    words = []
    spans = []
    bounds = []
    for start, segment in parts:
        for a, b in segment.spans:
            words.append(segment.text[a:b])
            spans.append((a, b))
            bounds.append((start + a, start + b))
    word_ids = [NO_WORD] * len(offsets)
    characters = [(0, 0)] * len(offsets)
    positions = [position for position, offset in enumerate(offsets) if offset is not None]
    covered = [offset for offset in offsets if offset is not None]
    owners = align(covered, bounds)
    owned = set(owners)
    shared: dict[int, int] = {}
    for position, (start, end), owner in zip(positions, covered, owners, strict=True):
        if owner == NO_WORD:
            continue
        word_ids[position] = owner
        word_start, word_end = bounds[owner]
        characters[position] = (max(start, word_start) - word_start, min(end, word_end) - word_start)
        first = owner
        while first and start < bounds[first - 1][1]:
            first -= 1
        last = owner
        while last + 1 < len(bounds) and bounds[last + 1][0] < end:
            last += 1
        for word in range(first, last + 1):
            if word not in owned:
                shared.setdefault(word, owner)
    return {
        "words": tuple(words),
        "word_ids": tuple(word_ids),
        "characters": tuple(characters),
        "spans": tuple(spans),
        "gaps": words_of([segment for _, segment in parts])[2],
        "shared": tuple(shared.items()),
    }


def as_segments(text: Text, number: int) -> tuple[tuple[Segment, ...], str]:
    """Return the segments of a text, and its id.

    Args:
        text: the text.
        number: its number, for messages.

    Raises:
        DataError: it is not a text, or has an unusable word.
    """
    if isinstance(text, Example):
        return text.segments, text.id
    if isinstance(text, Mapping):
        if TEXT not in text:
            raise DataError(
                f"text {number}: got the columns {', '.join(map(str, text))}; expected a column {TEXT!r}, or the texts "
                "themselves, such as table['COLUMN']"
            )
        text = text[TEXT]
    pieces: tuple[Any, ...] = (text,)
    if isinstance(text, tuple) and len(text) == 2:
        pieces = text
    segments = []
    for segment in pieces:
        if not isinstance(segment, str):
            raise DataError(
                f"text {number}: got {kind_of(text)}; expected a text, a pair (a tuple), an Example or a row of a table"
            )
        with located(f"text {number}: "):
            check_text(segment, "text")
        segments.append(Segment.of(segment))
    return tuple(segments), ""

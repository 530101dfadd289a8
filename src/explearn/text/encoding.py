"""Sub-tokens of a text with the word each belongs to."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from itertools import chain, compress
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from explearn.core.arrays import Mask
from explearn.core.errors import DataError, ModelError, kind_of, located
from explearn.core.examples import Example, check_text
from explearn.core.words import Segment, Span, joined_words, words_of
from explearn.text.alignment import NO_WORD, align

PlainText = str | tuple[str, str]
"""A text, or a pair of texts."""

Text = PlainText | Example | Mapping[str, Any]
"""An input to classify or explain: a text, a pair of texts, an example, or a row of a table (its column TEXT)."""

TEXT = "text"
"""Column of the text, where none is named; also the one column of a file of lines."""

Removal = Literal["delete", "mask"]
"""What happens to a word that is left out: its sub-tokens are deleted, or each is replaced by the mask token."""

KindT = TypeVar("KindT", bound="Encoding")


def name_of(example_id: str, number: int) -> str:
    """Return how messages call a text: by its example's id, else by its number, from 1."""
    if example_id:
        return f"example {example_id!r}"
    return f"text {number}"


@dataclass(frozen=True)
class Encoding:
    """Sub-tokens of one text (or pair), special tokens included.

    A predictor whose input has more than these fields, such as marks of positions, has a subclass of its own.

    Attributes:
        input_ids: ids, length n.
        token_type_ids: segment of each position, length n; empty if the model has no segments.
        special: True at special tokens ([CLS], [SEP], <s>, ...), length n.
        word_ids: index into `words` for each position, NO_WORD at special tokens and pieces of no word, length n.
        characters: for each position the [start, end) of its word's characters that it covers, (0, 0) at NO_WORD,
            length n.
        segments: the text with the spans of its words, and the second segment, if any.
        shared: (word, other word) for each word without a sub-token of its own, because one of the other word's
            sub-tokens covers characters of both.
        example_id: id of the example, empty for free text.
        in_units: whether `words` are sentences or spans in place of words and sub-tokens.

    Example:
        >>> from explearn import Encoding
        >>> encoding = Encoding.by_words("not a good film")
        >>> encoding.words, encoding.word_ids
        (('not', 'a', 'good', 'film'), (0, 1, 2, 3))
        >>> encoding.delete([1]).word_ids
        (0, 2, 3)
    """

    input_ids: tuple[int, ...]
    token_type_ids: tuple[int, ...] = ()
    special: tuple[bool, ...] = ()
    word_ids: tuple[int, ...] = ()
    characters: tuple[Span, ...] = ()
    segments: tuple[Segment, ...] = ()
    shared: tuple[tuple[int, int], ...] = ()
    example_id: str = ""
    in_units: bool = False

    BY_POSITION: ClassVar[tuple[str, ...]] = ("input_ids", "token_type_ids", "special", "word_ids", "characters")
    """Fields with an entry for each position."""
    MARKS: ClassVar[tuple[str, ...]] = ()
    """Fields, of BY_POSITION, that a model gets beside its input: True at some positions."""

    @classmethod
    def by_words(cls, text: PlainText) -> Self:
        """Make the encoding whose positions are the words of a text, each with an id made from its letters.

        Args:
            text: a text, or a pair of texts.
        """
        segments = segments_in(text)
        ids: list[int] = []
        offsets: list[Span] = []
        sequence: list[int] = []
        for number, segment in enumerate(segments):
            ids += [zlib.crc32(word.encode()) for word in segment.words]
            offsets += segment.spans
            sequence += [number] * len(segment.spans)
        return cls.of(segments, ids, offsets, sequence, token_type_ids=sequence)

    @classmethod
    def of(
        cls,
        text: PlainText | Sequence[Segment],
        input_ids: Sequence[int],
        offsets: Sequence[Span],
        sequence: Sequence[int | None] | None = None,
        token_type_ids: Sequence[int] = (),
    ) -> Self:
        """Make a text's encoding from a tokenizer's output.

        Args:
            text: the text, or the pair of texts, or its segments.
            input_ids: ids of the sub-tokens.
            offsets: [start, end) of each sub-token in the characters of its segment.
            sequence: segment of each sub-token, 0 or 1; None for special tokens. Default: all are in the first.
            token_type_ids: segment ids for the model; empty if it has none.
        """
        segments = segments_in(text)
        if sequence is None:
            sequence = [0] * len(input_ids)
        # As if the segments were one string, with a character between them.
        shift = len(segments[0].text) + 1
        spans: list[Span | None] = []
        for segment, (start, end) in zip(sequence, offsets, strict=True):
            if segment is None:
                spans.append(None)
            else:
                spans.append((start + segment * shift, end + segment * shift))
        return cls(
            input_ids=tuple(input_ids),
            token_type_ids=tuple(token_type_ids),
            special=tuple(segment is None for segment in sequence),
            segments=segments,
            **align_words(spans, [(number * shift, segment) for number, segment in enumerate(segments)]),
        )

    def __len__(self) -> int:
        return len(self.input_ids)

    # ---- the text --------------------------------------------------------------------------------------------------

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Words of the text, then of the second segment."""
        return tuple(chain.from_iterable(segment.words for segment in self.segments))

    @property
    def spans(self) -> tuple[Span, ...]:
        """[start, end) of each word in the characters of its segment."""
        return tuple(chain.from_iterable(segment.spans for segment in self.segments))

    @property
    def gaps(self) -> tuple[str, ...]:
        """The characters between words, as in an `Example`."""
        return words_of(self.segments)[2]

    @property
    def pair_start(self) -> int | None:
        """Index in `words` of the second segment's first word; None if there is one segment."""
        return start_of_pair(self.segments)

    @property
    def joined(self) -> tuple[int, ...]:
        """Indices of the words that directly follow the previous word, according to `spans`."""
        return joined_words(self.spans, self.pair_start)

    # ---- what is asked about it ------------------------------------------------------------------------------------

    @property
    def key(self) -> object:
        """The predictor's input: two encodings with the same key get the same prediction."""
        return self.input_ids, self.token_type_ids, *(getattr(self, name) for name in self.MARKS)

    @property
    def focus(self) -> Span | None:
        """[first, end) of the words that the answer is about; None if it is about the whole text."""
        return None

    @property
    def fixed_words(self) -> Collection[int]:
        """Words that have a score, and stay in every shortened text."""
        return ()

    @property
    def read(self) -> set[int]:
        """Words with at least one sub-token left after truncation."""
        owners = set(self.word_ids) - {NO_WORD}
        return owners | {word for word, other in self.shared if other in owners}

    @property
    def positions(self) -> list[int]:
        """Positions that are not special tokens."""
        return [position for position, special in enumerate(self.special) if not special]

    # ---- other words, and copies without some ------------------------------------------------------------------------

    def into(self, kind: type[KindT], **more: Any) -> KindT:
        """Return the same as another kind of encoding.

        Args:
            kind: the subclass.
            more: its further fields, and other values of these.
        """
        values = {field.name: getattr(self, field.name) for field in fields(Encoding)}
        return kind(**{**values, **more})

    def cut(self, bounds: Sequence[Collection[int]]) -> Encoding:
        """Cut what can be left out at more places, if it can be cut; sub-tokens cannot.

        Args:
            bounds: places in the characters of each segment.
        """
        return self

    def with_words(self, segments: Sequence[Segment]) -> Self:
        """Return the same positions as parts of other words of the text: a caller's words, or units.

        Args:
            segments: the same text, with the spans of the other words.
        """
        shift = len(self.segments[0].text) + 1  # as if a blank were between the segments
        spans = self.spans
        second = self.pair_start or len(spans)
        offsets: list[Span | None] = []
        for word, (start, end) in zip(self.word_ids, self.characters, strict=True):
            if word == NO_WORD:
                offsets.append(None)
                continue
            first = spans[word][0] + shift * (word >= second)
            offsets.append((first + start, first + end))
        parts = [(number * shift, segment) for number, segment in enumerate(segments)]
        return replace(self, segments=tuple(segments), **align_words(offsets, parts))

    def select(self, positions: list[int]) -> Self:
        """Keep only some positions; `words` stay the text's.

        Args:
            positions: the positions, ascending.
        """
        kept = set(positions)
        return self.only([position in kept for position in range(len(self))])

    def only(self, kept: Sequence[bool]) -> Self:
        """Keep only some positions; `words` stay the text's.

        Args:
            kept: whether each position stays, length n.
        """
        return self.copies(np.array([kept], dtype=bool))[0]

    def delete(self, word_indices: Collection[int]) -> Self:
        """Remove the sub-tokens of some words; those behind them move up.

        Args:
            word_indices: the words; `fixed_words` stay.
        """
        dropped = set(word_indices) - {NO_WORD} - set(self.fixed_words)
        return self.only([word not in dropped for word in self.word_ids])

    def keep(self, word_indices: Collection[int]) -> Self:
        """Keep only the sub-tokens of some words and the special tokens.

        Args:
            word_indices: the words; `fixed_words` stay, too.
        """
        kept = {*word_indices, *self.fixed_words} - {NO_WORD}
        pairs = zip(self.special, self.word_ids, strict=True)
        return self.only([special or word in kept for special, word in pairs])

    def mask(self, word_indices: Collection[int], mask_token_id: int | None) -> Self:
        """Replace every sub-token of some words by the mask token; length and positions stay.

        Args:
            word_indices: the words.
            mask_token_id: id of the mask token. None: the sub-tokens are removed.
        """
        masked = set(word_indices) - {NO_WORD}
        stays = np.array([[word not in masked for word in self.word_ids]])
        return self.copies(stays, mask_token_id)[0]

    def masked_ids(self, mask_token_id: int) -> Sequence[int]:
        """Return the id of each position where it is masked, length n.

        Args:
            mask_token_id: id of the mask token.
        """
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
        columns = {name: getattr(self, name) for name in self.BY_POSITION if getattr(self, name)}
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


def segments_in(text: PlainText | Sequence[Segment]) -> tuple[Segment, ...]:
    """Return the segments of a text, or of a pair of texts, by words."""
    if isinstance(text, str):
        return (Segment.of(text),)
    return tuple(part if isinstance(part, Segment) else Segment.of(part) for part in text)


def start_of_pair(segments: Sequence[Segment]) -> int | None:
    """Return the index of the second segment's first word; None if there is one segment."""
    if len(segments) < 2:
        return None
    return len(segments[0].spans)


def align_words(offsets: Sequence[Span | None], parts: Sequence[tuple[int, Segment]]) -> dict[str, Any]:
    """Assign the sub-tokens of a string to the words of texts that are parts of it.

    Args:
        offsets: [start, end) of each sub-token in the characters of the string; None for special tokens.
        parts: the texts in their order, each after the position where it starts in the string.

    Returns:
        The fields word_ids, characters and shared of an `Encoding`.
    """
    bounds = []
    for start, segment in parts:
        for a, b in segment.spans:
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
    return {"word_ids": tuple(word_ids), "characters": tuple(characters), "shared": tuple(shared.items())}


# ---- texts of any kind -----------------------------------------------------------------------------------------------


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


def read_texts(
    encode: Callable[[list[PlainText]], Sequence[Encoding]], texts: Sequence[Text], first: int, name: str
) -> list[Encoding]:
    """Encode texts of any kind, with their own words and ids.

    Args:
        encode: encodes texts and pairs of texts; its messages begin with "text N: ", from 1.
        texts: the texts.
        first: number of the first text, for messages, if `texts` is part of a longer stream.
        name: the predictor's name, for messages.

    Raises:
        DataError: a text cannot be used; the message begins with its id or number.
        ModelError: `encode` does not give an encoding of each text.
    """
    segmented = [as_segments(text, number) for number, text in enumerate(texts, start=first)]
    plain = [plain_text(segments) for segments, _ in segmented]
    try:
        encoded = encode(plain)
    except DataError:
        for number, (text, (_, example_id)) in enumerate(zip(plain, segmented, strict=True), start=first):
            _raise_located(encode, text, name_of(example_id, number))
        raise
    _check_encoded(encoded, len(texts), name)
    encodings = []
    for encoding, (segments, example_id) in zip(encoded, segmented, strict=True):
        if encoding.segments != segments:
            bounds = [set(chain.from_iterable(segment.spans)) for segment in segments]
            encoding = encoding.cut(bounds).with_words(segments)
        if example_id:
            encoding = replace(encoding, example_id=example_id)
        encodings.append(encoding)
    return encodings


def plain_text(segments: Sequence[Segment]) -> PlainText:
    """Return the text of one segment, or the pair of texts of two."""
    if len(segments) == 1:
        return segments[0].text
    return segments[0].text, segments[1].text


def _raise_located(encode: Callable[[list[PlainText]], object], text: PlainText, where: str) -> None:
    """Raise what is wrong with a text, under its own name."""
    try:
        encode([text])
    except DataError as error:
        raise DataError(f"{where}{str(error).removeprefix('text 1')}") from None


def _check_encoded(encodings: Sequence[Encoding], texts: int, name: str) -> None:
    """Raise ModelError unless there is an encoding of each text, whose fields by position have one length."""
    if len(encodings) != texts:
        raise ModelError(f"{name}: encode gave {len(encodings)} encodings of {texts} texts; expected one for each")
    for encoding in encodings:
        if not isinstance(encoding, Encoding):
            raise ModelError(f"{name}: encode gave {kind_of(encoding)}; expected an explearn.Encoding of each text")
        for field in ("special", "word_ids", "characters"):
            if len(getattr(encoding, field)) != len(encoding):
                raise ModelError(
                    f"{name}: encode gave {len(getattr(encoding, field))} {field} for {len(encoding)} input_ids; "
                    "expected one for each (Encoding.of and Encoding.by_words fill them in)"
                )

"""Texts as a classifier sees them: sub-tokens with the word each belongs to, and batches of such texts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from explearn.core.documents import kind_of
from explearn.core.errors import DataError
from explearn.core.records import Example, check_text
from explearn.model.architectures import position_offset
from explearn.text.alignment import NO_WORD, Span, align, word_spans

if TYPE_CHECKING:
    import transformers

Text = str | tuple[str, str] | Example
"""What can be classified and explained: a text, a pair of texts, or an example."""

_UNBOUNDED = 100_000
"""transformers gives tokenizers without a length limit a model_max_length of 1e30."""


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
            elsewhere (`explearn.model.question_answering`).
        spans: of each word, its [start, end) in the characters of its segment; empty in encodings made without a
            tokenizer.
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

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The model's input: two encodings with the same key get the same prediction."""
        return self.input_ids, self.token_type_ids

    @property
    def positions(self) -> list[int]:
        """Positions that are not special tokens."""
        return [position for position, special in enumerate(self.special) if not special]

    def select(self, kept: list[int]) -> Encoding:
        """Keep only these positions, ascending; `words` stay the text's."""
        fields = ("input_ids", "token_type_ids", "special", "word_ids", "characters")
        rows: dict[str, Any] = {field: getattr(self, field) for field in fields}
        selected: dict[str, Any] = {field: tuple(row[i] for i in kept) if row else () for field, row in rows.items()}
        return replace(self, **selected)

    def delete(self, word_indices: Collection[int]) -> Encoding:
        """Remove the sub-tokens of these words; those behind them move up."""
        dropped = set(word_indices) - {NO_WORD}
        return self.select([i for i, word in enumerate(self.word_ids) if word not in dropped])

    def keep(self, word_indices: Collection[int]) -> Encoding:
        """Keep only the sub-tokens of these words and the special tokens."""
        kept = set(word_indices) - {NO_WORD}
        return self.select([i for i, word in enumerate(self.word_ids) if self.special[i] or word in kept])

    def mask(self, word_indices: Collection[int], mask_token_id: int) -> Encoding:
        """Replace every sub-token of these words by the mask token; length and positions stay."""
        masked = set(word_indices) - {NO_WORD}
        ids = tuple(mask_token_id if w in masked else t for t, w in zip(self.input_ids, self.word_ids, strict=True))
        return replace(self, input_ids=ids)


def encode_texts(
    tokenizer: transformers.PreTrainedTokenizerBase, texts: Sequence[Text], limit: int | None, first: int = 1
) -> list[Encoding]:
    """Tokenise texts and align sub-tokens with words.

    Args:
        limit: most sub-tokens per text, special ones included; pairs are cut from the longer segment first. None: any.
        first: number of the first text, for messages.
    """
    segments = [as_segments(text, number) for number, text in enumerate(texts, start=first)]
    if not segments:
        return []
    encoded = tokenizer(
        [text if pair is None else (text, pair) for text, pair, _ in segments],
        truncation=limit is not None,
        max_length=limit,
        verbose=False,
        return_offsets_mapping=True,
    )
    use_types = "token_type_ids" in tokenizer.model_input_names
    encodings = []
    for row, (text, pair, example_id) in enumerate(segments):
        sequence = encoded.sequence_ids(row)
        shift = len(text) + 1
        offsets = [
            None if segment is None else (start + segment * shift, end + segment * shift)
            for segment, (start, end) in zip(sequence, encoded["offset_mapping"][row], strict=True)
        ]
        encodings.append(
            Encoding(
                input_ids=tuple(encoded["input_ids"][row]),
                token_type_ids=tuple(encoded["token_type_ids"][row]) if use_types else (),
                special=tuple(segment is None for segment in sequence),
                example_id=example_id,
                pair_start=None if pair is None else len(word_spans(text)),
                **align_words(offsets, [(0, text)] if pair is None else [(0, text), (shift, pair)]),
            )
        )
    return encodings


def align_words(offsets: Sequence[Span | None], parts: Sequence[tuple[int, str]]) -> dict[str, Any]:
    """Assign the sub-tokens of a string to the words of texts that are parts of it.

    Args:
        offsets: [start, end) of each sub-token in the characters of the string; None for special tokens.
        parts: the texts in their order, each behind the place where it starts in the string.

    Returns the fields words, word_ids, characters and spans of an `Encoding`.
    """
    spans = [(start, a, b) for start, text in parts for a, b in word_spans(text)]
    places = [(start + a, start + b) for start, a, b in spans]
    word_ids, characters = [NO_WORD] * len(offsets), [(0, 0)] * len(offsets)
    known = [(position, offset) for position, offset in enumerate(offsets) if offset is not None]
    owners = align([offset for _, offset in known], places)
    for (position, (start, end)), owner in zip(known, owners, strict=True):
        if owner != NO_WORD:
            word_ids[position] = owner
            word_start, word_end = places[owner]
            characters[position] = max(start, word_start) - word_start, min(end, word_end) - word_start
    return {
        "words": tuple(text[a:b] for _, text in parts for a, b in word_spans(text)),
        "word_ids": tuple(word_ids),
        "characters": tuple(characters),
        "spans": tuple((a, b) for _, a, b in spans),
    }


def as_segments(text: Text, number: int) -> tuple[str, str | None, str]:
    """Return a text, its second segment and its id; raise DataError, naming `number`, for an unusable word."""
    if isinstance(text, Example):
        return text.text, text.pair_text, text.id
    first, second = text if isinstance(text, tuple) and len(text) == 2 else (text, None)
    for segment in (first,) if second is None else (first, second):
        if not isinstance(segment, str):
            raise DataError(f"text {number}: got {kind_of(text)}; expected a text, a pair of texts or an Example")
        try:
            check_text(segment, "text")
        except DataError as error:
            raise DataError(f"text {number}: {error}") from error
    return first, second, ""


def max_length(config: transformers.PreTrainedConfig, tokenizer: transformers.PreTrainedTokenizerBase) -> int:
    """Return the most sub-tokens that both the position embeddings and the tokenizer allow."""
    limits = [int(tokenizer.model_max_length)] if tokenizer.model_max_length < _UNBOUNDED else []
    try:
        positions = getattr(config, "max_position_embeddings", None)
    except NotImplementedError:  # XLNet says in this way that it has no limit
        positions = None
    # Encoders with relative positions say -1: they read texts of any length.
    if positions is not None and positions > 0:
        limits.append(int(positions) - position_offset(config))
    return min(limits, default=512)


@dataclass(frozen=True, slots=True)
class Batch:
    """Encodings padded on the right to one length.

    input_ids, attention_mask, token_type_ids: int64, shape (batch, tokens); token_type_ids is None where the model
    knows no segments. attention_mask is 1 at real tokens.
    """

    encodings: tuple[Encoding, ...]
    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    token_type_ids: torch.Tensor | None

    def __len__(self) -> int:
        return len(self.encodings)

    def model_inputs(self) -> dict[str, torch.Tensor]:
        inputs = {"input_ids": self.input_ids, "attention_mask": self.attention_mask}
        if self.token_type_ids is not None:
            inputs["token_type_ids"] = self.token_type_ids
        return inputs


def collate(encodings: Sequence[Encoding], pad_token_id: int, device: torch.device) -> Batch:
    """Pad encodings to the longest of them.

    An encoding of no token, which is left where every word of a text without special tokens was deleted, is read as
    one padding token: a model has no answer to nothing at all.
    """
    longest = max(1, *(len(encoding) for encoding in encodings))

    def padded(values: Callable[[Encoding], Sequence[int]], fill: int) -> torch.Tensor:
        rows = [[*values(e), *[fill] * (longest - len(values(e)))] for e in encodings]
        return torch.tensor(rows, dtype=torch.int64).to(device, non_blocking=True)

    return Batch(
        encodings=tuple(encodings),
        input_ids=padded(lambda e: e.input_ids, pad_token_id),
        attention_mask=padded(lambda e: [1] * max(1, len(e)), 0),
        token_type_ids=padded(lambda e: e.token_type_ids, 0) if encodings[0].token_type_ids else None,
    )


def text_seed(seed: int, encoding: Encoding) -> int:
    """Return a seed below 2^32 that depends only on `seed` and on the model's input for a text."""
    digest = hashlib.sha256(repr((seed, encoding.key)).encode()).digest()
    return int.from_bytes(digest[:4])

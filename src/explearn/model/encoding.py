"""A text as the classifier sees it, with the word each sub-token belongs to, and batches of such texts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import torch

from explearn.text.alignment import NO_WORD


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
    characters: tuple[tuple[int, int], ...] = ()
    pair_start: int | None = None
    answer: tuple[int, int] | None = None
    spans: tuple[tuple[int, int], ...] = ()

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What the model sees: two encodings with the same key get the same prediction."""
        return self.input_ids, self.token_type_ids

    @property
    def positions(self) -> list[int]:
        """Positions that are not special tokens."""
        return [position for position, special in enumerate(self.special) if not special]

    def select(self, kept: list[int]) -> Encoding:
        """With only these positions, ascending; `words` stay the text's."""
        return replace(
            self,
            input_ids=tuple(self.input_ids[i] for i in kept),
            token_type_ids=tuple(self.token_type_ids[i] for i in kept) if self.token_type_ids else (),
            special=tuple(self.special[i] for i in kept),
            word_ids=tuple(self.word_ids[i] for i in kept),
            characters=tuple(self.characters[i] for i in kept) if self.characters else (),
        )

    def delete(self, word_indices: Collection[int]) -> Encoding:
        """Without the sub-tokens of these words; those behind them move up."""
        dropped = set(word_indices) - {NO_WORD}
        return self.select([i for i, word in enumerate(self.word_ids) if word not in dropped])

    def keep(self, word_indices: Collection[int]) -> Encoding:
        """With only the sub-tokens of these words and the special tokens."""
        kept = set(word_indices) - {NO_WORD}
        return self.select([i for i, word in enumerate(self.word_ids) if self.special[i] or word in kept])

    def mask(self, word_indices: Collection[int], mask_token_id: int) -> Encoding:
        """With every sub-token of these words replaced by the mask token; length and positions stay."""
        masked = set(word_indices) - {NO_WORD}
        ids = tuple(mask_token_id if w in masked else t for t, w in zip(self.input_ids, self.word_ids, strict=True))
        return replace(self, input_ids=ids)


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

    An encoding of no token, what is left where every word of a text without special tokens was deleted, is read as one
    padding token: a model has no answer to nothing at all.
    """
    longest = max(1, *(len(encoding) for encoding in encodings))

    def padded(values: Callable[[Encoding], Sequence[int]], fill: int) -> torch.Tensor:
        rows = [[*(given := values(e)), *([fill] * (longest - len(given)))] for e in encodings]
        return torch.tensor(rows, dtype=torch.int64).to(device, non_blocking=True)

    return Batch(
        encodings=tuple(encodings),
        input_ids=padded(lambda e: e.input_ids, pad_token_id),
        attention_mask=padded(lambda e: [1] * max(1, len(e)), 0),
        token_type_ids=padded(lambda e: e.token_type_ids, 0) if encodings[0].token_type_ids else None,
    )


def text_seed(seed: int, encoding: Encoding) -> int:
    """A seed below 2^32 that depends only on `seed` and on what the model sees of a text."""
    digest = hashlib.sha256(repr((seed, encoding.key)).encode()).digest()
    return int.from_bytes(digest[:4])

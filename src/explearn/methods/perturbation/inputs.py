"""Perturbed texts as arrays of ids, many at a time.

Thousands of perturbed copies of a text are made by indexing arrays; an `Encoding` for each would cost more than the
forward pass on a fast device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from explearn.model.encoding import Encoding
from explearn.text.alignment import NO_WORD

Removal = Literal["delete", "mask"]
"""What happens to a word that is left out: its sub-tokens are deleted, or each is replaced by the mask token."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the model sees of n perturbed texts.

    Attributes:
        input_ids: int32, (n, tokens); row i holds `lengths[i]` ids, and what follows them has no meaning.
        lengths: int64, (n,).
        token_type_ids: uint8, (n, tokens), or None where the model knows no segments.
    """

    input_ids: NDArray[np.int32]
    lengths: NDArray[np.int64]
    token_type_ids: NDArray[np.uint8] | None

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def tokens(self) -> int:
        """Sub-tokens in all rows together."""
        return int(self.lengths.sum())

    def keys(self) -> list[bytes]:
        """Identity of what the model sees, row by row: as `Encoding.key`, equal keys get equal predictions."""
        lengths = self.lengths.tolist()
        if self.token_type_ids is None:
            return [row[:n].tobytes() for row, n in zip(self.input_ids, lengths, strict=True)]
        return [
            row[:n].tobytes() + types[:n].tobytes()
            for row, types, n in zip(self.input_ids, self.token_type_ids, lengths, strict=True)
        ]

    @classmethod
    def from_lists(cls, ids: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None) -> Inputs:
        lengths = np.array([len(row) for row in ids], dtype=np.int64)
        shape = len(ids), int(lengths.max(initial=0))

        input_ids = np.zeros(shape, dtype=np.int32)
        for row, values in zip(input_ids, ids, strict=True):
            row[: len(values)] = values
        if types is None:
            return cls(input_ids, lengths, None)
        token_type_ids = np.zeros(shape, dtype=np.uint8)
        for type_row, values in zip(token_type_ids, types, strict=True):
            type_row[: len(values)] = values
        return cls(input_ids, lengths, token_type_ids)


class PerturbedText:
    """One text whose words can be left out.

    Words without a sub-token, odd Unicode or behind the end of what the model reads, cannot: they are no part of it.
    Sub-tokens of no word always stay, as in `Encoding.delete` and `Encoding.mask`. A word that is classified can be
    masked, and is never deleted.

    Attributes:
        encoding: the text.
        words: indices of the w words that have sub-tokens, ascending, (w,).
        owners: for each position the place in `words` of its word, w where it has none, (tokens,).
    """

    def __init__(self, encoding: Encoding, mask_token_id: int) -> None:
        self.encoding = encoding
        word_ids = np.array(encoding.word_ids, dtype=np.int64)
        owned = word_ids != NO_WORD
        self.words, places = np.unique(word_ids[owned], return_inverse=True)
        self.owners = np.full(len(word_ids), len(self.words))
        self.owners[owned] = places
        self._ids = np.array(encoding.input_ids, dtype=np.int32)
        self._types = np.array(encoding.token_type_ids, dtype=np.uint8) if encoding.token_type_ids else None
        self._mask_token_id = mask_token_id
        self._undeletable = np.isin(self.words, [*encoding.in_question])

    def __len__(self) -> int:
        """Number of words that can be left out."""
        return len(self.words)

    def full(self) -> Inputs:
        """The text itself, one row."""
        return self.masked(np.ones((1, len(self)), dtype=bool))

    def perturbed(self, kept: NDArray[np.bool_], removal: Removal) -> Inputs:
        """The text once for each row of `kept`, bool, (n, w), without the words that are False there."""
        return self.deleted(kept) if removal == "delete" else self.masked(kept)

    def masked(self, kept: NDArray[np.bool_]) -> Inputs:
        visible = self._visible(kept)
        ids = np.where(visible, self._ids, np.int32(self._mask_token_id))
        types = None if self._types is None else np.broadcast_to(self._types, ids.shape)
        return Inputs(ids, np.full(len(ids), ids.shape[1]), types)

    def deleted(self, kept: NDArray[np.bool_]) -> Inputs:
        visible = self._visible(kept | self._undeletable)
        lengths = visible.sum(1)
        rows, columns = np.nonzero(visible)
        places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        shape = len(kept), int(lengths.max(initial=0))
        ids = np.zeros(shape, dtype=np.int32)
        ids[rows, places] = self._ids[columns]
        if self._types is None:
            return Inputs(ids, lengths, None)
        types = np.zeros(shape, dtype=np.uint8)
        types[rows, places] = self._types[columns]
        return Inputs(ids, lengths, types)

    def _visible(self, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Positions that stay, (n, tokens)."""
        always = np.ones((len(kept), 1), dtype=bool)
        return np.concatenate([kept, always], axis=1)[:, self.owners]

    def on_pieces(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Each word's score at all its sub-tokens, 0 at sub-tokens of no word: (w,) -> (tokens,)."""
        return np.asarray(np.append(scores, 0.0)[self.owners])

    def pieces(self) -> NDArray[np.int64]:
        """Sub-tokens of each word, (w,)."""
        return np.bincount(self.owners, minlength=len(self) + 1)[:-1]

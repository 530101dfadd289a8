"""Copies of a text without some of its words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from explearn.text.alignment import NO_WORD
from explearn.text.encoding import Encoding, Removal


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
        words, places = np.unique(word_ids[owned], return_inverse=True)
        self.words = words
        self.owners = np.full(len(word_ids), len(self.words))
        self.owners[owned] = places
        self._mask_token_id = mask_token_id

    def __len__(self) -> int:
        """Number of words that can be left out."""
        return len(self.words)

    def perturbed(self, kept: NDArray[np.bool_], removal: Removal) -> list[Encoding]:
        """Return the text once for each row of `kept`, bool, (n, w), without the words that are False there."""
        left_out = [self.words[~row].tolist() for row in kept]
        if removal == "delete":
            return [self.encoding.delete(words) for words in left_out]
        return [self.encoding.mask(words, self._mask_token_id) for words in left_out]

    def on_pieces(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Each word's score at all its sub-tokens, 0 at sub-tokens of no word: (w,) -> (tokens,)."""
        return np.asarray(np.append(scores, 0.0)[self.owners])

    def pieces(self) -> NDArray[np.int64]:
        """Sub-tokens of each word, (w,)."""
        return np.bincount(self.owners, minlength=len(self) + 1)[:-1]

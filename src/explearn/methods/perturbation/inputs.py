"""Copies of a text without some of its words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from explearn.text.alignment import NO_WORD
from explearn.text.encoding import Encoding, Removal


class PerturbedText:
    """One text whose words can be left out.

    Words without a sub-token (odd Unicode, or truncated) cannot be left out. Sub-tokens of no word always stay, as in
    `Encoding.delete` and `Encoding.mask`. A word that is classified can be masked, but not deleted.

    Args:
        encoding: the text.
        mask_token_id: id of the mask token.

    Attributes:
        encoding: the text.
        words: indices of the w words that have sub-tokens, ascending, (w,).
        owners: index in `words` of each position's word, w if it has none, (tokens,).
    """

    def __init__(self, encoding: Encoding, mask_token_id: int) -> None:
        self.encoding = encoding
        word_ids = np.array(encoding.word_ids, dtype=np.int64)
        owned = word_ids != NO_WORD
        words, indices = np.unique(word_ids[owned], return_inverse=True)
        self.words = words
        self.owners = np.full(len(word_ids), len(self.words))
        self.owners[owned] = indices
        self._mask_token_id = mask_token_id

    def __len__(self) -> int:
        """Return the number of words that can be left out."""
        return len(self.words)

    def perturbed(self, kept: NDArray[np.bool_], removal: Removal) -> list[Encoding]:
        """Return the text once for each row of `kept`, bool, (n, w), without the words that are False there."""
        # A column for each word, and one for positions of no word.
        stays = np.ones((len(kept), len(self) + 1), dtype=bool)
        stays[:, :-1] = kept
        mask: int | None = self._mask_token_id
        if removal == "delete":
            stays[:, :-1] |= np.isin(self.words, list(self.encoding.fixed_words))
            mask = None
        return self.encoding.copies(stays[:, self.owners], mask)

    def on_pieces(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give each sub-token its word's score, 0 if it has no word: (w,) -> (tokens,)."""
        return np.asarray(np.append(scores, 0.0)[self.owners])

    def pieces(self) -> NDArray[np.int64]:
        """Return the number of each word's sub-tokens, (w,)."""
        return np.bincount(self.owners, minlength=len(self) + 1)[:-1]

"""Alignment of sub-tokens to words by character offsets, with the same rule for every fast tokenizer.

WordPiece, byte-level BPE (where a piece may carry the space before it) and SentencePiece (where a lone space marker may
be a piece of its own) all report the span of characters that a piece came from. A piece belongs to the word it shares
most characters with; a piece that shares none belongs to no word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from explearn.core.arrays import Array32
from explearn.core.words import Span

if TYPE_CHECKING:
    from explearn.core.attribution import Aggregation

NO_WORD = -1


def align(offsets: Iterable[Span], words: Sequence[Span]) -> list[int]:
    """Return the index of each piece's word, NO_WORD for none.

    A piece over several words goes to the one it overlaps most, the first on ties.

    Args:
        offsets: character span of each piece, in the order of the text.
        words: character spans of the words, in order and disjoint.

    Example:
        >>> align([(0, 2), (2, 4), (5, 9)], [(0, 4), (5, 9)])
        [0, 0, 1]
    """
    owners: list[int] = []
    first = 0
    for start, end in offsets:
        while first < len(words) and words[first][1] <= start:
            first += 1
        # Byte-level pieces of one character repeat its span, so `first` may not move past a word still in use.
        owner = NO_WORD
        largest = 0
        index = first
        while index < len(words) and words[index][0] < end:
            overlap = min(end, words[index][1]) - max(start, words[index][0])
            if overlap > largest:
                owner = index
                largest = overlap
            index += 1
        owners.append(owner)
    return owners


def aggregate(scores: Array32, word_ids: Sequence[int], words: int, aggregation: Aggregation) -> Array32:
    """Aggregate sub-token scores to word scores.

    Args:
        scores: one number per position; may be longer than `word_ids` by padding.
        word_ids: word of each position, NO_WORD for special tokens and pieces of no word.
        words: number of words.
        aggregation: `max` over a word's pieces (ExpNet A.5) or their `sum`, for decompositions that add up (IvRA H).

    Returns:
        float32 scores, (words,), NaN for words without a piece.
    """
    owners = np.asarray(word_ids, dtype=np.int64)
    values = np.asarray(scores[: len(owners)], dtype=np.float64)[owners != NO_WORD]
    owners = owners[owners != NO_WORD]
    result = np.full(words, np.nan)
    if aggregation == "max":
        result[owners] = -np.inf
        np.maximum.at(result, owners, values)
    else:
        result[owners] = 0.0
        np.add.at(result, owners, values)
    return result.astype(np.float32)

"""Which word each sub-token belongs to, from character offsets: the same rule for every fast tokenizer.

WordPiece, byte-level BPE (where a piece may carry the space before it) and SentencePiece (where a lone space marker may
be a piece of its own) all report the span of characters that a piece came from. A piece belongs to the word it shares
most characters with; a piece that shares none belongs to no word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_WORD = re.compile(r"\S+")

Span = tuple[int, int]
"""[start, end) in characters."""

NO_WORD = -1


def word_spans(text: str) -> list[Span]:
    """Spans of the white-space separated words of a text."""
    return [match.span() for match in _WORD.finditer(text)]


def align(offsets: Iterable[Span], words: Sequence[Span]) -> list[int]:
    """Index of the word each piece belongs to, NO_WORD for none.

    Args:
        offsets: character span of each piece, in the order of the text.
        words: character spans of the words, in order and disjoint.

    A piece over several words goes to the one it overlaps most, the first on ties.
    """
    owners: list[int] = []
    first = 0
    for start, end in offsets:
        while first < len(words) and words[first][1] <= start:
            first += 1
        # Byte-level pieces of one character repeat its span, so `first` may not move past a word still in use.
        best, best_overlap = NO_WORD, 0
        index = first
        while index < len(words) and words[index][0] < end:
            overlap = min(end, words[index][1]) - max(start, words[index][0])
            if overlap > best_overlap:
                best, best_overlap = index, overlap
            index += 1
        owners.append(best)
    return owners

"""Text with its marked words in double square brackets, for sheets; `parse_marked` reads it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby

from explearn.core.errors import DataError
from explearn.core.words import lay_out

OPEN = "[["
CLOSE = "]]"


def format_marked(words: Sequence[str], mask: Sequence[bool], joined: Collection[int] = ()) -> str:
    """Return a text with the marked words in double square brackets, neighbours together.

    `parse_marked` reads it back.

    Args:
        words: words of the text.
        mask: which of them are marked.
        joined: indices of words that directly follow the previous word.

    Raises:
        DataError: a word itself contains `[[` or `]]`.
    """
    for word in words:
        if OPEN in word or CLOSE in word:
            raise DataError(f"got the word {word!r}; expected none with '[[' or ']]' in it, which mean marks")
    pieces = list(words)
    for start, end in spans_from_mask(mask):
        pieces[start] = OPEN + pieces[start]
        pieces[end - 1] += CLOSE
    return lay_out(pieces, joined).text


def spans_from_mask(mask: Sequence[bool]) -> list[tuple[int, int]]:
    """Return the longest runs of True in a mask as [start, end) word offsets, in order."""
    spans: list[tuple[int, int]] = []
    start = 0
    for marked, run in groupby(mask, bool):
        end = start + len(list(run))
        if marked:
            spans.append((start, end))
        start = end
    return spans

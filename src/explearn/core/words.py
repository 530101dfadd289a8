"""Words of a text: separated by white space, and segmented further in scripts without spaces between words.

Chinese, Japanese, Thai, Lao, Khmer and Burmese text is segmented by ICU: Unicode's rules (UAX #29), with dictionaries
of these languages. A run without white space is cut only before or after a character of such a script, or of its
punctuation. All other text is cut only at white space.
"""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from explearn.core.errors import DataError
from explearn.core.extras import need

Span = tuple[int, int]
"""[start, end) in characters."""

_RUN = re.compile(r"\S+")

_UNSPACED = re.compile(
    "["
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Burmese
    "\u1780-\u17ff"  # Khmer
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Hiragana, Katakana
    "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "]"
)
_PUNCTUATION = re.compile("[\u3001-\u3004\u3008-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]")


class Segment(NamedTuple):
    """A text with the [start, end) of each of its words."""

    text: str
    spans: tuple[Span, ...]

    @classmethod
    def of(cls, text: str) -> Segment:
        """Segment a text into words as `word_spans` does."""
        return cls(text, tuple(word_spans(text)))

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.text[start:end] for start, end in self.spans)


def word_spans(text: str) -> list[Span]:
    """Return the spans of a text's words (see the module).

    Raises MissingExtraError for a text in a script without spaces if ICU is not installed.
    """
    runs = [match.span() for match in _RUN.finditer(text)]
    if not _UNSPACED.search(text):
        return runs
    return [span for start, end in runs for span in _cut(text[start:end], start)]


def _cut(run: str, offset: int) -> Iterable[Span]:
    if not _UNSPACED.search(run):
        return [(offset, offset + len(run))]
    breakers = need("icu4py.breakers", extra="scripts", what="finding the words of a script without spaces")
    bounds, place = [0], 0
    # ICU's offsets count UTF-16 units; the lengths of its pieces are as in Python.
    for piece in breakers.WordBreaker(run, "en"):
        place += len(piece)
        if place == len(run) or _parts(run[place - 1], run[place]):
            bounds.append(place)
    return [(offset + start, offset + end) for start, end in pairwise(bounds)]


def _parts(before: str, after: str) -> bool:
    """Return whether a word boundary of ICU between two characters is kept."""
    if _UNSPACED.match(before) or _UNSPACED.match(after):
        return True
    return (_PUNCTUATION.match(before) is None) != (_PUNCTUATION.match(after) is None)


def joined_words(spans: Sequence[Span], pair_start: int | None = None) -> tuple[int, ...]:
    """Return the indices of words that follow the previous word without white space.

    Args:
        spans: of each word. pair_start: index of the first word of the second segment.
    """
    return tuple(i for i in range(1, len(spans)) if spans[i][0] == spans[i - 1][1] and i != pair_start)


def lay_out(words: Sequence[str], joined: Collection[int] = (), first: int = 0) -> Segment:
    """Join words into a text, with blanks except before joined words.

    Args:
        joined: indices from `joined_words`. first: index of the first of `words` in the numbering of `joined`.
    """
    behind, text, spans = set(joined), "", []
    for index, word in enumerate(words):
        text += " " if index and index + first not in behind else ""
        spans.append((len(text), len(text) + len(word)))
        text += word
    return Segment(text, tuple(spans))


def segments_of(words: Sequence[str], joined: Collection[int], pair_start: int | None) -> tuple[Segment, ...]:
    """Join the words of a text, or of a pair of texts, into one segment or two."""
    parts = [(0, words)] if pair_start is None else [(0, words[:pair_start]), (pair_start, words[pair_start:])]
    return tuple(lay_out(part, joined, first) for first, part in parts)


def words_of(segments: Sequence[Segment]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]]:
    """Return the words, the pair and the joined words of an `Example` with these segments."""
    first, second = segments[0], Segment("", ()) if len(segments) == 1 else segments[1]
    return first.words, second.words, joined_words([*first.spans, *second.spans], len(first.spans))


def locate(words: Sequence[str], text: str) -> tuple[Span, ...]:
    """Return the spans of a text's words, which are all of its non-white-space characters, in order."""
    spans, end = [], 0
    for word in words:
        start = text.index(word, end)
        end = start + len(word)
        spans.append((start, end))
    return tuple(spans)


def word_number(words: Sequence[str], token: int | str, where: str) -> int:
    """Return the index of a word, given by its index or as a string with or without surrounding punctuation.

    Raises DataError, naming `where`, for a word that does not occur exactly once.
    """
    if not isinstance(token, str):
        if not 0 <= token < len(words):
            raise DataError(f"{where}: token: got {token}; expected a word's number, 0 to {len(words) - 1}")
        return token
    bare = [word.strip(string.punctuation) for word in words]
    places = [i for i, word in enumerate(words) if word == token] or [i for i, w in enumerate(bare) if w == token]
    if len(places) != 1:
        stands = f"occurs {len(places)} times, as the words {', '.join(map(str, places))}"
        raise DataError(
            f"{where}: token: got {token!r}, which {stands if places else 'is none of its words'}; expected a word "
            f"that occurs once, or a word's number, 0 to {len(words) - 1}"
        )
    return places[0]

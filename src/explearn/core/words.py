"""Words of a text: separated by white space, and segmented further in scripts without spaces between words.

Chinese, Japanese, Thai, Lao, Khmer and Burmese text is segmented by ICU: Unicode's rules (UAX #29), with dictionaries
of these languages. A run without white space is cut only before or after a character of such a script, or of its
punctuation. All other text is cut only at white space.
"""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Sequence
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
        """Segment a text into words (see the module).

        Raises:
            MissingExtraError: the text is in a script without spaces, and ICU is not installed.

        Example:
            >>> Segment.of("a good film").spans
            ((0, 1), (2, 6), (7, 11))
        """
        spans: list[Span] = []
        for match in _RUN.finditer(text):
            start, end = match.span()
            bounds = [start, end]
            if _UNSPACED.search(match.group()):
                bounds = [start + bound for bound in _word_bounds(match.group())]
            spans.extend(pairwise(bounds))
        return cls(text, tuple(spans))

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.text[start:end] for start, end in self.spans)


def _word_bounds(run: str) -> list[int]:
    """Return where the words of a run without white space begin and end, by ICU."""
    breakers = need("icu4py.breakers", extra="scripts", what="finding the words of a script without spaces")
    bounds = [0]
    position = 0
    # ICU's offsets count UTF-16 units; the lengths of its pieces are as in Python.
    for piece in breakers.WordBreaker(run, "en"):
        position += len(piece)
        if position == len(run) or _is_boundary(run[position - 1], run[position]):
            bounds.append(position)
    return bounds


def _is_boundary(before: str, after: str) -> bool:
    """Return whether a word boundary of ICU between two characters counts as one here."""
    if _UNSPACED.match(before) or _UNSPACED.match(after):
        return True
    return bool(_PUNCTUATION.match(before)) != bool(_PUNCTUATION.match(after))


def joined_words(spans: Sequence[Span], pair_start: int | None = None) -> tuple[int, ...]:
    """Return the numbers of the words that follow the previous word without white space.

    Args:
        spans: the words' spans, each within its segment.
        pair_start: index of the first word of the second segment. None: there is one segment.
    """
    return tuple(i for i in range(1, len(spans)) if spans[i][0] == spans[i - 1][1] and i != pair_start)


def lay_out(words: Sequence[str], joined: Collection[int] = (), first: int = 0) -> Segment:
    """Join words into a text, with blanks except before joined words.

    Args:
        words: words of a segment.
        joined: numbers from `joined_words`.
        first: number of the first of `words`, where `joined` counts from the start of a longer text.

    Example:
        >>> lay_out(["don", "'t", "go"], joined=[1]).text
        "don't go"
    """
    gaps = []
    for index in range(first, first + len(words)):
        gaps.append("" if index == first or index in joined else " ")
    return with_gaps(words, [*gaps, ""])


def with_gaps(words: Sequence[str], gaps: Sequence[str]) -> Segment:
    """Join words into a text.

    Args:
        words: the words.
        gaps: the characters before each of them, and behind the last; empty: a blank between two words.
    """
    gaps = gaps or ["", *[" "] * (len(words) - 1), ""]
    text = ""
    spans: list[Span] = []
    for gap, word in zip(gaps, words, strict=False):
        text += gap
        spans.append((len(text), len(text) + len(word)))
        text += word
    return Segment(text + gaps[-1], tuple(spans))


def gaps_of(segment: Segment) -> list[str]:
    """Return the characters before each word of a segment, and behind the last; those of units that overlap: a blank.

    Example:
        >>> gaps_of(Segment.of("a  good\\nfilm "))
        ['', '  ', '\\n', ' ']
    """
    gaps = []
    last = 0
    for start, end in segment.spans:
        gap = " "
        if start >= last:
            gap = segment.text[last:start]
        gaps.append(gap)
        last = end
    return [*gaps, segment.text[last:]]


def segments_of(words: Sequence[str], gaps: Sequence[str], pair_start: int | None) -> tuple[Segment, ...]:
    """Join the words of a text, or of a pair of texts, into one segment or two.

    Args:
        words: the words.
        gaps: as in an `Example`.
        pair_start: index of the second segment's first word; None: there is one segment.
    """
    if pair_start is None:
        return (with_gaps(words, gaps),)
    first = with_gaps(words[:pair_start], gaps[: pair_start + 1])
    return first, with_gaps(words[pair_start:], gaps[pair_start + 1 :])


def words_of(segments: Sequence[Segment]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the words, the pair and the gaps of an `Example` with these segments."""
    first, second = (*segments, Segment("", ()))[:2]
    gaps: list[str] = []
    if any(segment.text != lay_out(segment.words).text for segment in segments):
        for segment in segments:
            gaps += gaps_of(segment)
    return first.words, second.words, tuple(gaps)


def locate(words: Sequence[str], text: str) -> tuple[Span, ...]:
    """Return the spans of a text's words, which are all of its non-white-space characters, in order."""
    spans: list[Span] = []
    end = 0
    for word in words:
        start = text.index(word, end)
        end = start + len(word)
        spans.append((start, end))
    return tuple(spans)


def word_number(words: Sequence[str], token: int | str, where: str) -> int:
    """Return the index of a word.

    Args:
        words: words of the text.
        token: index of the word, or the word itself, with or without punctuation around it.
        where: the text, for messages.

    Raises:
        DataError: a word that does not occur exactly once.
    """
    if not isinstance(token, str):
        if not 0 <= token < len(words):
            raise DataError(f"{where}: token: got {token}; expected a word's number, 0 to {len(words) - 1}")
        return token
    positions = [index for index, word in enumerate(words) if word == token]
    if not positions:
        positions = [index for index, word in enumerate(words) if word.strip(string.punctuation) == token]
    if len(positions) != 1:
        problem = "is none of its words"
        if positions:
            problem = f"occurs {len(positions)} times, as the words {', '.join(map(str, positions))}"
        raise DataError(
            f"{where}: token: got {token!r}, which {problem}; expected a word that occurs once, or a word's number, 0 "
            f"to {len(words) - 1}"
        )
    return positions[0]

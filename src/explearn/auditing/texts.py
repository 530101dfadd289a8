"""The texts of an audit, with their answers and scores, and rewritten versions of them."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explearn.core.errors import ParamsError, first_line
from explearn.core.examples import Example
from explearn.core.words import gaps_of

PATTERN_SECONDS = 1.0
"""Longest time that a pattern may search one text."""

Version = str | tuple[str, str]
"""A rewritten text, or pair of texts."""


def is_mark(character: str) -> bool:
    """Return whether a character is punctuation."""
    return unicodedata.category(character).startswith("P")


def bare(word: str) -> str:
    """Return a word without punctuation around it; a word of nothing else as it is.

    Example:
        >>> bare("(good!)"), bare("...")
        ('good', '...')
    """
    first = 0
    end = len(word)
    while first < end and is_mark(word[first]):
        first += 1
    while end > first and is_mark(word[end - 1]):
        end -= 1
    return word[first:end] or word


@dataclass(slots=True, eq=False)
class AuditText:
    """A text with what the classifier answers, and how much each word counts.

    Attributes:
        example: the text.
        words: its words, of both segments.
        keys: the words as findings name them: folded case, no punctuation around them.
        matches: pattern -> numbers of the words that it matches.
        probabilities: of the classes, (C,).
        shares: each word's score for the predicted class as a share of the text's absolute scores, (words,); 0 if the
            classifier did not read it. None if the text was not explained.
        group: its group; empty if there are none.
    """

    example: Example
    words: tuple[str, ...]
    keys: tuple[str, ...]
    matches: Mapping[str, list[int]]
    probabilities: NDArray[np.float64]
    shares: NDArray[np.float64] | None
    group: str = ""

    @property
    def predicted(self) -> int:
        """Index of the most probable class."""
        return int(self.probabilities.argmax())

    def strongest(self, count: int) -> list[int]:
        """Return the numbers of the highest-scoring words of an explained text, the highest first."""
        assert self.shares is not None
        numbers: list[int] = np.argsort(-self.shares, kind="stable")[:count].tolist()
        return numbers

    def rewritten(
        self, out: Collection[int] = (), put: Sequence[tuple[int, str]] = (), words: Sequence[str] = ()
    ) -> Version | None:
        """Return another version of the text; None if a segment would have no word.

        Args:
            out: numbers of words that are left out.
            put: words that are put in, each before the word with this number (the number of words: at the end).
            words: words in place of the text's, one for each; empty: the text's.
        """
        words = words or self.words
        segments: list[str] = []
        first = 0
        for segment in self.example.segments:
            gaps = gaps_of(segment)
            end = first + len(segment.spans)
            result = ""
            for number in range(first, end + (end == len(self.words))):
                for before, word in put:
                    if before == number:
                        result += f" {word}"
                if number == end or number in out or not words[number]:
                    continue
                result += " " if number == first else gaps[number - first]
                result += words[number]
            if not result.strip():
                return None
            segments.append(result.strip())
            first = end
        if len(segments) == 1:
            return segments[0]
        return segments[0], segments[1]


def compiled(patterns: Sequence[str]) -> dict[str, Any]:
    """Return the patterns compiled.

    Raises:
        ParamsError: one is empty, or not a regular expression.
    """
    import regex

    programs = {}
    for pattern in patterns:
        try:
            programs[pattern] = regex.compile(pattern)
        except regex.error as error:
            raise ParamsError(f"pattern {pattern!r}: not a regular expression ({first_line(error)})") from error
        if programs[pattern].match(""):
            raise ParamsError(f"pattern {pattern!r}: matches the empty text; expected one that needs a character")
    return programs


def pattern_matches(example: Example, programs: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return pattern -> numbers of the words that it matches.

    Raises:
        ParamsError: a pattern searches the text for more than PATTERN_SECONDS.
    """
    matches = {}
    for pattern, program in programs.items():
        numbers = []
        first = 0
        for segment in example.segments:
            try:
                found = [match.span() for match in program.finditer(segment.text, timeout=PATTERN_SECONDS)]
            except TimeoutError as error:
                raise ParamsError(
                    f"pattern {pattern!r}: takes more than {PATTERN_SECONDS:g} second on the text {example.id!r}; "
                    "expected one with fewer ways to match"
                ) from error
            for number, (start, end) in enumerate(segment.spans, start=first):
                if any(start < b and a < end for a, b in found):
                    numbers.append(number)
            first += len(segment.spans)
        matches[pattern] = numbers
    return matches

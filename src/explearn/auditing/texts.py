"""The texts of an audit, with their answers and scores, and rewritten versions of them."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explearn.core.errors import ParamsError, first_line, shown
from explearn.core.examples import Example
from explearn.text.rewriting import Edits, Rewritten, rewrite

PATTERN_SECONDS = 1.0
"""Longest time that a pattern may search one text."""


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
        unread: number of words of an explained text that the classifier did not read.
        group: its group; empty if there are none.
    """

    example: Example
    words: tuple[str, ...]
    keys: tuple[str, ...]
    matches: Mapping[str, list[int]]
    probabilities: NDArray[np.float64]
    shares: NDArray[np.float64] | None
    unread: int
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

    def rewritten(self, edits: Edits, put: Mapping[int, Sequence[str]] | None = None) -> Rewritten | None:
        """Return another version of the text, as `explearn.text.rewriting.rewrite` does."""
        return rewrite(self.example.segments, edits, put)

    def without(self, numbers: Collection[int]) -> Rewritten | None:
        """Return the text without some words, by number; None if a segment would have no word."""
        return self.rewritten(dict.fromkeys(numbers))


def compiled(patterns: Sequence[str]) -> dict[str, Any]:
    """Return the patterns compiled.

    Raises:
        ParamsError: one matches the empty text, is not a regular expression, or is nested too deeply.
    """
    import regex

    programs = {}
    for pattern in patterns:
        try:
            programs[pattern] = regex.compile(pattern)
        except (regex.error, RecursionError) as error:
            raise ParamsError(f"pattern {shown(pattern)}: not a regular expression ({first_line(error)})") from error
        if programs[pattern].match(""):
            raise ParamsError(f"pattern {pattern!r}: matches the empty text; expected one that needs a character")
    return programs


def pattern_matches(example: Example, programs: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return pattern -> numbers of the words that it matches.

    Raises:
        ParamsError: a pattern searches the text for more than PATTERN_SECONDS.
    """
    matches: dict[str, list[int]] = {pattern: [] for pattern in programs}
    first = 0
    for segment in example.segments:
        for pattern, program in programs.items():
            try:
                found = [match.span() for match in program.finditer(segment.text, timeout=PATTERN_SECONDS)]
            except TimeoutError as error:
                raise ParamsError(
                    f"pattern {pattern!r}: takes more than {PATTERN_SECONDS:g} second on the text {example.id!r}; "
                    "expected one with fewer ways to match"
                ) from error
            for number, (start, end) in enumerate(segment.spans, start=first):
                if any(start < b and a < end for a, b in found):
                    matches[pattern].append(number)
        first += len(segment.spans)
    return matches

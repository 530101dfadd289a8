"""Texts with their words as elements name them, and their scores if they were explained; and facts about many texts."""

from __future__ import annotations

import sys
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from explearn.core.examples import Example
from explearn.core.words import words_of
from explearn.text.encoding import PlainText, as_segments
from explearn.text.rewriting import Edits, Rewritten, rewrite

FREQUENT_WORDS = 30
"""The most frequent words of a set of texts are its function words."""


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
class ScoredText:
    """A text whose words may be scored.

    Attributes:
        example: the text.
        shares: each word's score for the predicted class as a share of the text's absolute scores, (words,); 0 if the
            classifier did not read it. None if the text was not explained.
        words: its words, of both segments.
        keys: the words as elements name them: folded case, no punctuation around them.
    """

    example: Example
    shares: NDArray[np.float64] | None = None
    words: tuple[str, ...] = field(init=False)
    keys: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.words = self.example.all_words
        self.keys = tuple(sys.intern(bare(word).casefold()) for word in self.words)

    @classmethod
    def of(cls, text: PlainText) -> ScoredText:
        """Return a text, or a pair of texts, that was not explained."""
        segments, _ = as_segments(text, 1)
        words, pair, gaps = words_of(segments)
        return cls(Example("text", words, "", "test", "texts", pair, gaps=gaps))

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

    def having(self, words: Sequence[str], place: int) -> Rewritten | None:
        """Return the text with words put in before the word of this number; the number of words: at the end."""
        return self.rewritten({}, {place: words})


class Vocabulary(NamedTuple):
    """Facts about all texts together, with which elements are found in single texts.

    Attributes:
        function_words: the most frequent words.
        length: median number of words.
        shares: word -> its mean share in the explained texts.
    """

    function_words: frozenset[str]
    length: float
    shares: Mapping[str, float]

    @classmethod
    def from_texts(cls, texts: Sequence[ScoredText]) -> Vocabulary:
        counts = Counter(chain.from_iterable(text.keys for text in texts))
        # The order among equally frequent words does not depend on the order of texts.
        frequent = sorted(counts, key=lambda key: (-counts[key], key))[:FREQUENT_WORDS]
        length = float(np.median([len(text.words) for text in texts]))
        sums: Counter[str] = Counter()
        explained: Counter[str] = Counter()
        for text in texts:
            if text.shares is not None:
                explained.update(text.keys)
                for key, share in zip(text.keys, text.shares.tolist(), strict=True):
                    sums[key] += share
        return cls(frozenset(frequent), length, {key: sums[key] / count for key, count in explained.items()})

    def strongest(self, words: Sequence[str]) -> str:
        """Return the word that scores highest on average."""
        return max(words, key=lambda word: self.shares.get(word, 0.0))

"""Which texts are equal, and splits in which equal texts lie on one side."""

from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from explearn.core.documents import text_digest
from explearn.core.examples import Example
from explearn.text.mapping import MappedRow
from explearn.text.quotes import folded_word
from explearn.text.scored import is_mark

logger = logging.getLogger(__name__)

SideT = TypeVar("SideT")


def text_hash(text: Example | MappedRow) -> str:
    """Return a hash of a text's words that equal texts share, and from which the text cannot be read.

    Case, punctuation and how Unicode composes a letter make no difference, nor does the label.

    Args:
        text: the text.

    Example:
        >>> def hash_of(*words):
        ...     return text_hash(Example("1", words, "", "test", "films"))
        >>> hash_of("A", "warm", "film") == hash_of("a", "warm,", "film", "!") != hash_of("a", "film")
        True
    """
    segments = []
    for words in (text.words, text.pair):
        folded = [folded_word(word) for word in words if not all(map(is_mark, word))]
        segments.append(" ".join(folded or words))
    return text_digest("\n".join(segments))[:16]


def split_texts(
    texts: Mapping[str, Example] | Mapping[str, MappedRow], draw: Callable[[Sequence[str]], Mapping[str, SideT]]
) -> dict[str, SideT]:
    """Draw a side for each text such that equal texts lie on one side; say how many are equal.

    Args:
        texts: id -> text.
        draw: returns id -> side for the ids of different texts, of which each stands for those equal to it.

    Returns:
        id -> side, in the order given.
    """
    first: dict[str, str] = {}
    same = {name: first.setdefault(text_hash(text), name) for name, text in texts.items()}
    sides = draw(list(first.values()))
    repeated = len(texts) - len(first)
    if repeated:
        logger.warning(
            "%s of %s texts repeat another one but for case and punctuation; equal texts lie on one side of a split",
            f"{repeated:,}",
            f"{len(texts):,}",
        )
    return {name: sides[different] for name, different in same.items()}


NEARLY = 0.8
"""Texts are nearly equal if this share of their different words is in both (Jaccard's index)."""


def nearly_equal(texts: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """Return id -> id of the one text that stands for all that are nearly equal, directly or through others.

    Two texts share NEARLY of their words only if they share one of their rarest, so only such texts are compared
    (prefix filtering, Chaudhuri et al. 2006).

    Args:
        texts: id -> the text's different words.

    Example:
        >>> nearly_equal({"a": frozenset("12345"), "b": frozenset("67"), "c": frozenset("1234")})
        {'a': 'a', 'b': 'b', 'c': 'a'}
    """
    counts = Counter(chain.from_iterable(texts.values()))
    first = {name: name for name in texts}

    def root(name: str) -> str:
        while first[name] != name:
            name = first[name]
        return name

    by_word: defaultdict[str, list[str]] = defaultdict(list)
    for name, words in texts.items():
        rarest = sorted(words, key=lambda word: (counts[word], word))
        for word in rarest[: len(words) - math.ceil(NEARLY * len(words)) + 1]:
            for other in by_word[word]:
                if len(words & texts[other]) >= NEARLY * len(words | texts[other]):
                    first[root(name)] = root(other)
            by_word[word].append(name)
    return {name: root(name) for name in texts}

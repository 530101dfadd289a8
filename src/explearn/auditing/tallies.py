"""How much many texts' scores lean on each element: counted from tables of scores, in memory for counts only.

The weight of an element in a text is its share of the text's scores, of which a quarter or more counts as 1: the mean
over texts says in what share of them it is a main reason. Weights are rounded to sixteenths, so that counts say all.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from explearn.core.arrays import Array, Counts
from explearn.core.examples import Example
from explearn.core.word_tables import WORD_SCHEMA
from explearn.text.elements import Element, Pattern, Punctuation, Word, WordClass
from explearn.text.scored import ScoredText, Vocabulary

FULL_SHARE = 0.25
"""Share of a text's scores from which the weight of an element is 1."""

LEVELS = 16
"""Steps of a weight from 0 to 1."""

KEPT = 2000
"""Texts that are kept with their scores: those with the lowest hashes, so that a text in two tallies is in both."""

CLASSES = (WordClass("numbers"), WordClass("negations"))
"""Classes of words to which a word belongs wherever it stands."""

_NAMES = "text id method target predicted probability segment start end word score"
COLUMNS = pa.schema([WORD_SCHEMA.field(name) for name in _NAMES.split()])

Name = tuple[str, str]
"""Kind of an element, and the element in words."""

Stratum = tuple[str, str]
"""An answer, and a group; empty: all groups."""


class Lexicon:
    """The elements that words make, each with a number.

    Args:
        patterns: patterns of the user, which are searched within words.

    Attributes:
        numbers: name -> number.
        elements: number -> element, for those that were read in a text.
    """

    def __init__(self, patterns: Sequence[Pattern] = ()) -> None:
        self.numbers: dict[Name, int] = {}
        self.elements: dict[int, Element] = {}
        self._always = (*CLASSES, *patterns)
        self._words: dict[str, tuple[list[int], int]] = {}

    def number(self, name: Name) -> int:
        """Return the number of an element, a new one if it has none."""
        return self.numbers.setdefault(name, len(self.numbers))

    def read(self, word: str) -> tuple[list[int], int]:
        """Return the numbers of the elements that a word makes, and its hash."""
        if word not in self._words:
            text = ScoredText(Example("word", (word,), "", "test", "watch"))
            vocabulary = Vocabulary(frozenset(), 0.0, {})
            made: set[Element] = {*Word.propose(text, frozenset(text.keys)), *Punctuation.propose(text, frozenset())}
            made.update(element for element in self._always if element.find(text, vocabulary))
            numbers = []
            for element in sorted(made):
                number = self.number((element.kind, str(element)))
                self.elements[number] = element
                numbers.append(number)
            digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
            self._words[word] = numbers, int.from_bytes(digest)
        return self._words[word]


def _no_counts() -> NDArray[np.int32]:
    return np.zeros((0, LEVELS + 1), dtype=np.int32)


class KeptText(NamedTuple):
    """A text that is kept.

    Attributes:
        example: the text; white space may differ.
        predicted: the answer.
        probability: its probability.
        shares: each word's share of the scores, (words,).
    """

    example: Example
    predicted: str
    probability: float
    shares: Array

    def differs(self, predicted: str, probability: float, shares: Array, tolerance: float = 0.01) -> bool:
        """Return whether answer, probability or shares are others, by more than rounding."""
        same = self.predicted == predicted and abs(self.probability - probability) <= tolerance
        return not same or float(np.abs(self.shares - shares).max()) > tolerance


def shares_of(scores: NDArray[np.floating[Any]], first: Counts) -> Array:
    """Return each word's share of its text's absolute scores, (words,); 0 for a word that was not read.

    Args:
        scores: the scores, (words,).
        first: index of the first word of each text.
    """
    known = np.nan_to_num(scores.astype(np.float64))
    sums = np.add.reduceat(np.abs(known), first)
    return np.asarray(known / np.repeat(np.where(sums > 0, sums, 1), np.diff(first, append=len(known))))


class Tally:
    """What the scores of some texts lean on.

    Args:
        lexicon: numbers the elements.
        grouped: whether the column `id` of what is added has each text's group.

    Attributes:
        texts: stratum -> number of texts.
        counts: stratum -> number of texts that have an element, by its weight, (elements, LEVELS + 1).
        kept: hash -> text.
    """

    def __init__(self, lexicon: Lexicon, grouped: bool = False) -> None:
        self.lexicon = lexicon
        self.grouped = grouped
        self.texts: Counter[Stratum] = Counter()
        self.counts: defaultdict[Stratum, NDArray[np.int32]] = defaultdict(_no_counts)
        self.kept: dict[int, KeptText] = {}

    @property
    def total(self) -> int:
        """Number of all texts."""
        return sum(count for (_, group), count in self.texts.items() if not group)

    @property
    def kept_texts(self) -> list[KeptText]:
        """The texts that are kept, in the order of their hashes."""
        return [self.kept[digest] for digest in sorted(self.kept)]

    def of(self, stratum: Stratum) -> NDArray[np.int32]:
        """Return the counts of a stratum with a row for each element of the lexicon."""
        counts = self.counts[stratum]
        missing = len(self.lexicon.numbers) - len(counts)
        if missing > 0:
            # Twice as many as are needed now, since more will come.
            counts = self.counts[stratum] = np.pad(counts, ((0, 2 * missing + 1000), (0, 0)))
        return counts[: len(self.lexicon.numbers)]

    def add(self, table: pa.Table) -> None:
        """Count whole texts.

        Args:
            table: a row a word, with COLUMNS, of one attribution a text, that for its answer.
        """
        if not table.num_rows:
            return
        words = table["word"].combine_chunks().dictionary_encode()
        read = [self.lexicon.read(word) for word in words.dictionary.to_pylist()]
        codes = words.indices.to_numpy()
        is_first = np.diff(table["text"].to_numpy(), prepend=-1) != 0
        first = np.flatnonzero(is_first)
        text = np.cumsum(is_first) - 1
        shares = shares_of(table["score"].to_numpy(), first)
        holders, elements, levels = self._weights(text, codes, shares, [numbers for numbers, _ in read])
        for stratum, members in self._strata(table, first):
            counts = self.of(stratum)
            inside = members[holders]
            np.add.at(counts, (elements[inside], levels[inside]), 1)
            self.texts[stratum] += int(members.sum())
        hashes = np.array([digest for _, digest in read], dtype=np.uint64)
        place = np.arange(len(text)) - first[text]
        self._keep(table, first, np.add.reduceat(hashes[codes] * (2 * place + 1).astype(np.uint64), first), shares)

    def _weights(
        self, text: Counts, codes: Counts, shares: Array, numbers: Sequence[Sequence[int]]
    ) -> tuple[Counts, Counts, Counts]:
        """Return text, element and level of each element that a text has.

        Args:
            text: number of each word's text, (words,).
            codes: index of each word in `numbers`, (words,).
            shares: each word's share, (words,).
            numbers: the elements of each different word.
        """
        sizes = np.array([len(made) for made in numbers])
        flat = np.fromiter(chain.from_iterable(numbers), dtype=np.int64)
        starts = np.cumsum(sizes) - sizes
        # A row for each element of each word.
        repeats = sizes[codes]
        word = np.repeat(np.arange(len(codes)), repeats)
        within = np.arange(len(word)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        element = flat[starts[codes[word]] + within]
        pairs, pair = np.unique(text[word] * len(self.lexicon.numbers) + element, return_inverse=True)
        weights = np.clip(np.bincount(pair, shares[word]) / FULL_SHARE, 0, 1)
        holders, elements = np.divmod(pairs, len(self.lexicon.numbers))
        return holders, elements, np.rint(weights * LEVELS).astype(np.int64)

    def _strata(self, table: pa.Table, first: Counts) -> Iterator[tuple[Stratum, Counts]]:
        """Yield strata with which of the texts are in each."""
        targets = np.array(table["target"].take(first).to_pylist())
        groups = np.array(table["id"].take(first).to_pylist())
        for target in sorted(set(targets.tolist())):
            answered = targets == target
            yield (target, ""), answered
            if self.grouped:
                for group in sorted(set(groups[answered].tolist()) - {""}):
                    yield (target, group), answered & (groups == group)

    def _keep(self, table: pa.Table, first: Counts, hashes: Counts, shares: Array) -> None:
        """Keep the texts with the lowest hashes."""
        limit = np.iinfo(np.uint64).max
        if len(self.kept) >= KEPT:
            limit = max(self.kept)
        ends = np.append(first[1:], table.num_rows)
        for number in np.flatnonzero(hashes < limit):
            start, end = int(first[number]), int(ends[number])
            rows = table.slice(start, end - start).to_pylist()
            kept = KeptText(_example(rows), rows[0]["target"], rows[0]["probability"], shares[start:end])
            self.kept[int(hashes[number])] = kept
        for digest in sorted(self.kept)[KEPT:]:
            del self.kept[digest]


def _example(rows: Sequence[dict[str, Any]]) -> Example:
    """Return a text from the rows of its words; without places, a blank separates them."""
    words: list[list[str]] = [[], []]
    gaps: list[list[str]] = [[], []]
    ends = [0, 0]
    for row in rows:
        segment = row["segment"]
        words[segment].append(row["word"])
        if row["start"] is not None:
            gaps[segment].append(" " * (row["start"] - ends[segment]))
            ends[segment] = row["end"]
    spaces: list[str] = []
    for of_segment in gaps:
        if of_segment:
            spaces += [*of_segment, ""]
    return Example("kept", tuple(words[0]), "", "test", "watch", tuple(words[1]), gaps=tuple(spaces))

"""The consensus's features of each word of a text: its signals, compared within the text, and the word itself.

To add a column, add its function to WORD_COLUMNS.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.stats import rankdata

from explearn.core.arrays import Array
from explearn.lens.word_signals import SIGNALS, WordSignals

_EDGES = re.compile(r"^\W+|\W+$")
_LETTER = re.compile(r"\w")

ROUNDING = 1e-6
"""A signal is constant if its standard deviation is below this share of its largest score: the rest is rounding."""

LEAST_SHARE = 0.01
"""Added to a share before the logarithm, so that a word with none of a signal is like a word with little of it."""

MOST_WORDS = 15
"""Longest text whose length is a feature; longer ones count as this long. Short texts have the larger share of their
words marked; among long ones, tasks differ, and what one task teaches about them does not carry over to another."""

MEAN_RANK = "mean_rank"

NEIGHBOURS = {"before_1": 1, "after_1": -1, "before_2": 2, "after_2": -2}
"""Neighbours whose mean rank and mean z-score are features of a word, too, since marks are phrases: how many words
before it they stand."""


@dataclass(frozen=True, slots=True)
class Words:
    """A text as the columns of WORD_COLUMNS see it.

    Attributes:
        words: the words.
        bare: the words without punctuation at their edges, or unchanged where nothing would be left.
        probability: probability of the explained class.
    """

    words: Sequence[str]
    bare: Sequence[str]
    probability: float

    def __len__(self) -> int:
        return len(self.words)


@cache
def stop_words() -> frozenset[str]:
    """Return scikit-learn's list of English stop words."""
    # It takes a second to import.
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)


WORD_COLUMNS: dict[str, Callable[[Words], Sequence[float] | Array]] = {
    "length": lambda text: [len(word) for word in text.bare],
    "stop_word": lambda text: [word.lower() in stop_words() for word in text.bare],
    "punctuation": lambda text: [not _LETTER.search(word) for word in text.words],
    "position": lambda text: np.arange(len(text)) / len(text),
    "log_words_to_15": lambda text: np.full(len(text), np.log(min(len(text), MOST_WORDS))),
    "capital": lambda text: [word[:1].isupper() for word in text.bare],
    "probability": lambda text: np.full(len(text), text.probability),
}
"""Column -> its value for each word of a text. Lengths are in characters, positions between 0 and 1; the number of
words counts up to MOST_WORDS, as a logarithm."""


def feature_names(signals: Sequence[str] = SIGNALS, word_features: bool = True) -> tuple[str, ...]:
    """Return the names of the columns that `word_matrix` gives."""
    names: list[str] = []
    for signal in signals:
        names += [f"{signal}_z", f"{signal}_rank", f"{signal}_share"]
    names.append(MEAN_RANK)
    for neighbour in NEIGHBOURS:
        names += [f"rank_{neighbour}", f"z_{neighbour}"]
    if word_features:
        names += WORD_COLUMNS
    return tuple(names)


def word_matrix(text: WordSignals, signals: Sequence[str] = SIGNALS, word_features: bool = True) -> Array:
    """Return the features of a text's words, float64, (words, F), in the order of `feature_names`.

    Of each signal s over the n words that the classifier read, those of the text alone: the z-score; the rank, (place +
    0.5) / n, ties sharing theirs evenly; and log(n |s| / sum |s| + 0.01), by which texts differ in how much of them is
    evidence at all (0 where all are 0). Then the mean of the ranks, the same mean and that of the z-scores at the words
    around, and WORD_COLUMNS. A missing signal is neutral (z 0, rank 0.5, share 1) and left out of the means, and so is
    every signal of a word that the classifier did not read. Without any signal in `signals` nothing comes from the
    model.
    """
    chosen = [SIGNALS.index(signal) for signal in signals]
    scores = text.scores[:, chosen].astype(np.float64)
    read = ~np.isnan(scores).all(-1)
    z = np.zeros_like(scores)
    rank = np.full_like(scores, 0.5)
    share = np.zeros_like(scores)
    mean_rank = np.full(len(scores), 0.5)
    mean_z = np.zeros(len(scores))
    if read.any():
        present = ~np.isnan(scores[read]).any(0)
        cells = np.ix_(read, present)
        values = scores[cells]
        spread = values.std(0)
        constant = spread <= ROUNDING * np.abs(values).max(0)
        varying = np.where(constant, 0.0, values)
        z[cells] = (varying - varying.mean(0)) / np.where(constant, 1.0, spread)
        rank[cells] = (rankdata(varying, axis=0) - 0.5) / len(values)
        sizes = np.abs(values)
        total = sizes.sum(0)
        relative = np.where(total > 0, sizes / np.where(total > 0, total, 1.0) * len(values), 1 - LEAST_SHARE)
        share[cells] = np.log(relative + LEAST_SHARE)
        if present.any():
            mean_rank[read] = rank[cells].mean(-1)
            mean_z[read] = z[cells].mean(-1)
    by_signal = np.stack([z, rank, share], -1)  # (words, signals, 3)
    columns: list[Sequence[float] | Array] = [mean_rank]
    for by in NEIGHBOURS.values():
        columns += [_shifted(mean_rank - 0.5, by), _shifted(mean_z, by)]
    if word_features:
        bare = [_EDGES.sub("", word) or word for word in text.words]
        # How sure the classifier is comes from the model, too.
        words = Words(text.words, bare, text.probability if signals else 0.5)
        columns += [column(words) for column in WORD_COLUMNS.values()]
    others = np.stack([np.asarray(column, dtype=np.float64) for column in columns], 1)
    return np.concatenate([by_signal.reshape(len(scores), 3 * len(chosen)), others], 1)


def _shifted(values: Array, by: int) -> Array:
    """Return the value `by` words before each word, 0 beyond the ends, (words,)."""
    moved = np.zeros_like(values)
    if by > 0:
        moved[by:] = values[:-by]
    else:
        moved[:by] = values[-by:]
    return moved

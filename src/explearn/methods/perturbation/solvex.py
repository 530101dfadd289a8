"""SolvE: the order of words that is best for a faithfulness metric, found by beam search."""

from __future__ import annotations

from typing import Literal

import numpy as np

from explearn.core.arrays import Counts
from explearn.core.errors import UnsupportedError
from explearn.core.validation import Rounds, Section, Units
from explearn.methods.info import About
from explearn.methods.perturbation.method import AskedText, PerturbationExplainer, PerturbedText, Scored
from explearn.predictors.labelled import CLASSES
from explearn.text.encoding import Removal

Metric = Literal["comprehensiveness", "sufficiency", "both"]


class Solvex(PerturbationExplainer):
    """Beam search for the order of words that scores best on a faithfulness metric.

    Beam search for an order of the words that is best by a faithfulness metric (Zhou and Shah, 2023, section 4).

    The worth of the top k words, T, with p the target's probability:

        comprehensiveness   p(x) - p(x without T)
        sufficiency         p(T alone) - p(x), the metric's negative, so that more is better
        both                their sum, p(T alone) - p(x without T)

    The objective of an order is the mean worth of its top 1, 2, .., n words. Orders grow by one word at a time, the
    most important first; after each step the `beam` partial orders of the largest sums stay. What the model sees
    depends on the set T, not on its order: of orders of one set only the best stays, and each set is evaluated once.
    The k-th word of n in the best order found gets (n - k + 1) / n, so scores are ranks in (0, 1]; all sub-tokens of a
    word get its score.

    A text of n words takes about beam n^2 / 2 forward passes, twice as many for `both`.
    """

    about = About(
        name="solvex",
        family="perturbation",
        cost="up to beam size (5) x words^2 forward passes, duplicates once",
        costly=True,
        watches_metric=True,
    )
    problems = CLASSES

    class Options(Section):
        metric: Metric = "both"
        """What is searched for."""
        beam: Units = 5
        """Partial orders kept; 1 is greedy search."""
        removal: Removal = "delete"
        """Words taken out are deleted (`delete`) or their sub-tokens replaced by the mask token (`mask`)."""
        max_words: Rounds = 64
        """Words that a text may have; longer ones are refused with an UnsupportedError."""

    def check_text(self, text: PerturbedText) -> None:
        if len(text) > self.options.max_words:
            raise UnsupportedError(
                f"solvex: a text has {len(text)} words, more than max_words = {self.options.max_words}; the search "
                f"takes about {self.options.beam * len(text) ** 2 // 2:,} forward passes for it: raise the option and "
                "wait, or use occlusion, which takes one a word"
            )

    def score_text(self, asked: AskedText) -> Scored:
        order, _ = self.search(asked)
        words = len(order)
        ranks = np.empty(words)
        ranks[order] = np.arange(words, 0, -1) / words
        return Scored(asked.text.on_pieces(ranks))

    def search(self, asked: AskedText) -> tuple[Counts, float]:
        """Return the best order found, most important word first, (w,), and its objective."""
        words = len(asked.text)
        metric = self.options.metric
        everything = np.ones((1, words), dtype=bool)
        chosen = np.zeros((1, words), dtype=bool)  # top words of each partial order in the beam
        orders = np.empty((1, 0), dtype=np.int64)
        sums = np.zeros(1)  # worths of its top 1, 2, .. words
        for _ in range(words):
            parents, added = np.nonzero(~chosen)
            sets = chosen[parents]
            sets[np.arange(len(sets)), added] = True
            # The beam runs from its best order down, so the first order of a set is the set's best.
            first: dict[bytes, int] = {}
            for row, key in enumerate(map(bytes, np.packbits(sets, axis=1))):
                first.setdefault(key, row)
            rows = np.array(list(first.values()))
            alone = everything if metric == "comprehensiveness" else sets[rows]
            without = everything if metric == "sufficiency" else ~sets[rows]
            p = asked.values(np.concatenate([alone, without]))
            totals = sums[parents[rows]] + p[: len(alone)] - p[len(alone) :]
            best = np.argsort(-totals, kind="stable")[: self.options.beam]
            rows = rows[best]
            orders = np.concatenate([orders[parents[rows]], added[rows, None]], axis=1)
            chosen = sets[rows]
            sums = totals[best]
        return orders[0], float(sums[0] / words)

"""The smallest change of a text that turns a classifier's answer, searched within a budget of passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from explearn.decision.decision import Decision
from explearn.text.rewriting import Edits

BUDGET = 200
"""Most changed texts that are classified."""

SINGLES = 100
"""Most words that are taken out one by one, those with the highest scores; their number is squared in pairs."""

RESERVE = 30
"""Passes kept for changes of three words and more."""

EXCHANGED = 10
"""Number of words that are exchanged, those whose removal does most."""

AT_ONCE = 16
"""Number of pairs that are classified together; the search ends with the first that hold a turn."""

KEPT = 10
"""Number of words of which each is tried as the only one that stays."""

Replacements = Callable[[int], Sequence[str]]
"""Index of a word -> words for its place."""


class Search:
    """A search for the smallest change: single words, then pairs, then larger sets.

    Each single word is taken out, then exchanged. Pairs follow by the sum of what their words do alone. Larger sets
    grow by the same order; from the first that turns the answer, words are put back as long as it stays turned.

    Attributes:
        found: the best change so far that turns the answer; None if there is none.
    """

    def __init__(self, decision: Decision) -> None:
        """Prepare a search.

        Args:
            decision: the text and its classifier.
        """
        self.decision = decision
        self.found: Edits | None = None
        self._single: dict[int, tuple[float, Edits]] = {}

    @property
    def left(self) -> int:
        """Number of passes left."""
        return BUDGET - self.decision.passes

    def run(self, scores: NDArray[np.float64], replacements: Replacements | None = None) -> Edits | None:
        """Return the smallest change found; None if none that was tried turns the answer.

        Args:
            scores: the words' scores, (words,); words with NaN are not changed.
            replacements: words to exchange for a word. None: words are only taken out.
        """
        read = np.flatnonzero(~np.isnan(scores))
        order = read[np.argsort(-scores[read], kind="stable")].tolist()
        for steps in (self._removals(order), self._exchanges(replacements), self._pairs(), self._sets()):
            for changes in steps:
                self._try(changes)
                if self.found is not None:
                    self._prune()
                    return self.found
        return None

    def _try(self, changes: Sequence[Edits]) -> None:
        """Classify changes, as far as the budget goes; keep what single words do, and the best that turns."""
        asked = [edits for edits in changes if self.decision.possible(edits)][: max(self.left, 0)]
        if not asked:
            return
        probabilities = self.decision.ask(asked)
        # Rounded, so that last digits decide nothing.
        margins = np.round(self.decision.margin(probabilities), 4)
        turned = self.decision.turned(probabilities)
        for edits, margin in zip(asked, margins.tolist(), strict=True):
            if len(edits) == 1:
                (word,) = edits
                self._single[word] = min(self._single.get(word, (np.inf, edits)), (margin, edits), key=_margin)
        if turned.any():
            candidates = np.flatnonzero(turned)
            self.found = asked[candidates[np.argmin(margins[candidates])]]

    def _by_effect(self) -> list[Edits]:
        """Return the best change of each single word, the one that does most first."""
        return [edits for _, edits in sorted(self._single.values(), key=_margin)]

    def _removals(self, order: Sequence[int]) -> Iterator[Sequence[Edits]]:
        yield [{word: None} for word in order[:SINGLES]]

    def _exchanges(self, replacements: Replacements | None) -> Iterator[Sequence[Edits]]:
        if replacements is None:
            return
        changes: list[Edits] = []
        for edits in self._by_effect()[:EXCHANGED]:
            for word in edits:
                changes += [{word: replacement} for replacement in replacements(word)]
        yield changes

    def _pairs(self) -> Iterator[Sequence[Edits]]:
        """Yield pairs by the sum of what each word does alone."""
        singles = sorted(self._single.values(), key=_margin)
        pairs = [(first + second, {**a, **b}) for (first, a), (second, b) in combinations(singles, 2)]
        ordered = [edits for _, edits in sorted(pairs, key=_margin)]
        for start in range(0, len(ordered), AT_ONCE):
            room = min(AT_ONCE, self.left - RESERVE)
            if room <= 0:
                return
            yield ordered[start : start + room]

    def _sets(self) -> Iterator[Sequence[Edits]]:
        """Yield larger and larger sets of the words that do most."""
        singles = self._by_effect()
        size = 3
        while size <= len(singles):
            yield [_joined(singles[:size])]
            size += max(1, size // 4)
        # Where single words do nothing: all but one.
        yield [_joined(singles[:kept] + singles[kept + 1 :]) for kept in reversed(range(len(singles)))][:KEPT]

    def _prune(self) -> None:
        """Put words back, those that do least first, as long as the answer stays turned."""
        if self.found is None or len(self.found) < 3:
            return  # all single words were tried before pairs
        chosen = self.found
        for edits in reversed(self._by_effect()):
            (word,) = edits
            fewer = {other: replacement for other, replacement in chosen.items() if other != word}
            if word not in chosen or self.left <= 0:
                continue
            if self.decision.turned(self.decision.ask([fewer]))[0]:
                chosen = fewer
        self.found = chosen


_margin = itemgetter(0)


def _joined(changes: Iterable[Edits]) -> Edits:
    joined: dict[int, str | None] = {}
    for edits in changes:
        joined.update(edits)
    return joined

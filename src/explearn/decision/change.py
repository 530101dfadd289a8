"""The smallest change of a text that turns a classifier's answer, searched within a budget of passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from explearn.core.attribution_fields import TOP_WORDS
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

Singles = dict[int, tuple[float, Edits]]
"""Index of a word -> the margin that its best change leaves (`Decision.margin`), and that change."""

_margin = itemgetter(0)


def smallest_change(
    decision: Decision, scores: NDArray[np.float64], replacements: Replacements | None = None
) -> Edits | None:
    """Search for the smallest change: single words, then pairs, then larger sets.

    Each single word is taken out, then exchanged. Pairs follow by the sum of what their words do alone. Larger sets
    grow by the same order; from the first that turns the answer, words are put back as long as it stays turned. The
    TOP_WORDS with the highest scores, which a record names, are tried with the sets of their size.

    Args:
        decision: the text and its classifier.
        scores: the words' scores, (words,); words with NaN are not changed.
        replacements: words to exchange for a word. None: words are only taken out.

    Returns:
        The smallest change found; None if none that was tried turns the answer.
    """
    read = np.flatnonzero(~np.isnan(scores))
    order = read[np.argsort(-scores[read], kind="stable")].tolist()
    singles: Singles = {}
    named = [word for word in order[:TOP_WORDS] if scores[word] > 0]
    for changes in _changes(decision, order, named, replacements, singles):
        found = _try(decision, changes, singles)
        if found is not None:
            return _prune(decision, found, singles)
    return None


def _left(decision: Decision) -> int:
    """Return the number of passes left."""
    return max(BUDGET - decision.passes, 0)


def _by_effect(singles: Singles) -> list[Edits]:
    """Return the best change of each single word, the one that does most first."""
    return [edits for _, edits in sorted(singles.values(), key=_margin)]


def _changes(
    decision: Decision,
    order: Sequence[int],
    named: Sequence[int],
    replacements: Replacements | None,
    singles: Singles,
) -> Iterator[Sequence[Edits]]:
    """Yield changes to try together, as long as none turns the answer.

    Args:
        decision: the text and its classifier.
        order: the words, those with the highest scores first.
        named: the words that the record names.
        replacements: words to exchange for a word.
        singles: what the single words tried so far do.
    """
    yield [{word: None} for word in order[:SINGLES]]
    if replacements is not None:
        exchanges: list[Edits] = []
        for edits in _by_effect(singles)[:EXCHANGED]:
            for word in edits:
                exchanges += [{word: replacement} for replacement in replacements(word)]
        yield exchanges
    # Pairs, by the sum of what each word does alone.
    in_order = sorted(singles.values(), key=_margin)
    sums = [(first + second, {**a, **b}) for (first, a), (second, b) in combinations(in_order, 2)]
    pairs = [edits for _, edits in sorted(sums, key=_margin)]
    if len(named) == 2:
        yield [dict.fromkeys(named)]
    for start in range(0, len(pairs), AT_ONCE):
        room = min(AT_ONCE, _left(decision) - RESERVE)
        if room <= 0:
            break
        yield pairs[start : start + room]
    # Larger and larger sets of the words that do most, after those that the record names.
    words = _by_effect(singles)
    if len(named) > 2:
        yield [dict.fromkeys(named)]
    size = 3
    while size <= len(words):
        yield [_joined(words[:size])]
        size += max(1, size // 4)
    # Where single words do nothing: all but one.
    yield [_joined(words[:kept] + words[kept + 1 :]) for kept in reversed(range(len(words)))][:KEPT]


def _try(decision: Decision, changes: Sequence[Edits], singles: Singles) -> Edits | None:
    """Classify changes, as far as the budget goes; keep what single words do, and return the best that turns."""
    asked = [edits for edits in changes if decision.possible(edits)][: _left(decision)]
    if not asked:
        return None
    probabilities = decision.ask(asked)
    # Rounded, so that last digits decide nothing.
    margins = np.round(decision.margin(probabilities), 4)
    for edits, margin in zip(asked, margins.tolist(), strict=True):
        if len(edits) == 1:
            (word,) = edits
            singles[word] = min(singles.get(word, (np.inf, edits)), (margin, edits), key=_margin)
    turned = np.flatnonzero(decision.turned(probabilities))
    if not len(turned):
        return None
    return asked[int(turned[np.argmin(margins[turned])])]


def _prune(decision: Decision, found: Edits, singles: Singles) -> Edits:
    """Put words back, those that do least first, as long as the answer stays turned."""
    if len(found) < 3:
        return found  # all single words were tried before pairs
    for edits in reversed(_by_effect(singles)):
        (word,) = edits
        fewer = {other: replacement for other, replacement in found.items() if other != word}
        if word in found and _left(decision) and decision.turned(decision.ask([fewer]))[0]:
            found = fewer
    return found


def _joined(changes: Iterable[Edits]) -> Edits:
    joined: dict[int, str | None] = {}
    for edits in changes:
        joined.update(edits)
    return joined

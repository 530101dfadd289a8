"""Maps made from a map: two words change places across a cut at which the metric of interest looks, or given sets of
words come to the top.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from explearn.core.records import filled
from explearn.judge.plausibility import ranking
from explearn.judge.protocols import as_sub_tokens
from explearn.model.encoding import Encoding
from explearn.text.alignment import aggregate

SHARPNESS = 2.0
"""A standard deviation of worth more multiplies a word's odds of being drawn by e to this power."""
TIE = 1e-6
"""Worths, probabilities, that spread less than this are equal but for rounding, and drawn evenly."""


def exchanged(
    encoding: Encoding,
    scores: NDArray[np.float32],
    cuts: Sequence[int],
    by_sub_token: bool,
    worth: NDArray[np.float64],
    draws: np.random.Generator,
) -> NDArray[np.float32]:
    """The map with the scores of two words exchanged, one from above a cut and one from below it, once or twice.

    A metric of removed words depends on the sets above its cuts alone, so an exchange within one is no use. Every other
    time the two words lie between the cut and the next ones, so that one set changes and few passes are needed. The
    less a word above the cut is worth, and the more one below it, the likelier it is drawn. All pieces of the two words
    get the other word's score.

    Args:
        scores: in [0, 1], (tokens,).
        cuts: see `MapJudge.cuts`; one is drawn. Without any the map stays as it is.
        by_sub_token: exchange sub-tokens instead of words.
        worth: of each word (or sub-token), see `MapJudge.worth`; of use is its order and spread.
    """
    if not cuts:
        return scores
    text = as_sub_tokens(encoding) if by_sub_token else encoding
    owners = np.array(text.word_ids)
    values, _ = aggregate(scores, text.word_ids, int(owners.max()) + 1 if by_sub_token else len(text.words), "max")
    # Words that were not read have no score to exchange.
    known = len(values) - int(np.isnan(values).sum())
    places = [0, *(cut for cut in sorted(set(cuts)) if cut < known), known]
    if len(places) == 2:
        return scores
    found = scores.copy()
    for _ in range(draws.integers(1, 3)):
        order = ranking(filled(values))[:known]
        place = int(draws.integers(1, len(places) - 1))
        near = draws.random() < 0.5
        highest, lowest = (places[place - 1], places[place + 1]) if near else (0, len(order))
        upper = _draw(order[highest : places[place]], -worth, draws)
        lower = _draw(order[places[place] : lowest], worth, draws)
        values[[upper, lower]] = values[[lower, upper]]
        found[owners == upper], found[owners == lower] = values[upper], values[lower]
    return found


def arranged(
    encoding: Encoding, scores: NDArray[np.float32], tops: Sequence[frozenset[int]], by_sub_token: bool
) -> NDArray[np.float32]:
    """The map with its scores dealt out anew, so that the sets `tops` are on top of the ranking of words.

    Within a set, and between two sets, words keep the order that they have. All pieces of a word get the same score.

    Args:
        scores: in [0, 1], (tokens,).
        tops: words (or sub-tokens), each set within the next one; see `MapJudge.chain`. Without any the map
            stays as it is.
        by_sub_token: the sets are of sub-tokens instead of words.
    """
    if not tops:
        return scores
    text = as_sub_tokens(encoding) if by_sub_token else encoding
    owners = np.array(text.word_ids)
    units = int(owners.max()) + 1 if by_sub_token else len(text.words)
    values, _ = aggregate(scores, text.word_ids, units, "max")
    # Words that were not read come last in every set, and have no score to deal out.
    order = ranking(filled(values))[: len(values) - int(np.isnan(values).sum())]
    layers = [next((layer for layer, top in enumerate(tops) if unit in top), len(tops)) for unit in order.tolist()]
    found = scores.copy()
    for unit, value in zip(order[np.argsort(layers, kind="stable")], values[order], strict=True):
        found[owners == unit] = value
    return found


def _draw(units: NDArray[np.intp], worth: NDArray[np.float64], draws: np.random.Generator) -> np.intp:
    """One of the units, by softmax of its standardised worth."""
    found = worth[units]
    spread = float(found.std())
    odds = np.exp(SHARPNESS * (found - found.max()) / spread) if spread > TIE else np.ones(len(units))
    chosen: np.intp = draws.choice(units, p=odds / odds.sum())
    return chosen

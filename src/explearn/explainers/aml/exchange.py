"""Maps beside a map: two words change places in its ranking, across a cut at which the metric of interest looks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from explearn.explainer import aggregate
from explearn.explainers.aml.monitor import as_sub_tokens
from explearn.metrics.plausibility import ranking
from explearn.models.encoding import Encoding


def exchanged(
    encoding: Encoding,
    scores: NDArray[np.float32],
    cuts: Sequence[int],
    by_sub_token: bool,
    draws: np.random.Generator,
) -> NDArray[np.float32]:
    """The map with the scores of two words exchanged, one from above a cut and one from below it, once or twice.

    A metric of removed words depends on the sets above its cuts alone, so an exchange within one is no use. Every other
    time the two words lie between the cut and the next ones, so that one set changes and few passes are needed. All
    pieces of the two words get the other word's score.

    Args:
        scores: in [0, 1], (tokens,).
        cuts: see `Monitor.cuts`; one is drawn. Without any the map stays as it is.
        by_sub_token: exchange sub-tokens instead of words.
    """
    if not cuts:
        return scores
    text = as_sub_tokens(encoding) if by_sub_token else encoding
    owners = np.array(text.word_ids)
    values, _ = aggregate(scores, text.word_ids, int(owners.max()) + 1 if by_sub_token else len(text.words), "max")
    places = [0, *sorted(set(cuts)), len(values)]
    found = scores.copy()
    for _ in range(draws.integers(1, 3)):
        order = ranking(values)
        place = int(draws.integers(1, len(places) - 1))
        near = draws.random() < 0.5
        highest, lowest = (places[place - 1], places[place + 1]) if near else (0, len(order))
        upper = order[draws.integers(highest, places[place])]
        lower = order[draws.integers(places[place], lowest)]
        values[[upper, lower]] = values[[lower, upper]]
        found[owners == upper], found[owners == lower] = values[upper], values[lower]
    return found

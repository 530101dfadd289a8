"""Evidence that a mean has changed, valid however often one looks: bets against what is claimed to be the mean.

A player bets a share c of a wealth of 1 that values x in [0, 1] have a mean above m: each value multiplies the wealth
by 1 - c + c x / m. If the mean of each value, given all before it, is at most m, the wealth is a nonnegative
supermartingale, and ever exceeds 1 / alpha with probability at most alpha (Ville's inequality). The mean wealth of
players with several c is one, too (Waudby-Smith and Ramdas 2024, Estimating means of bounded random variables by
betting, sections 4 and 5). Of values 1 - x and 1 - m it is evidence that the mean is below m.

Of two samples, the mean m of the first is not known. For each m, the evidence that the first's mean is below m times
the evidence that the second's is above m + margin is an e-value, since one of the two claims m; the least product over
all m is evidence that the second's mean is larger by more than the margin. The second's values may have any means, and
depend on each other, as long as none exceeds m + margin.

Samples are rows of counts of equally spaced levels from 0 to 1, so that a sample of any size takes the same time.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from explearn.core.arrays import Array, Counts

BETS = np.array([0.0, *0.93 / 1.7 ** np.arange(14)])
"""Shares of the wealth that the players bet, from 0.001 to 0.93."""

_LOGITS = np.linspace(-7.6, 7.6, 1001)
MEANS = np.array([1e-12, *1 / (1 + np.exp(-_LOGITS)), 1 - 1e-12])
"""Means that are bet against; those between two of them count as the one that gives less evidence."""

LEAST_ERRORS = 2.5
"""Standard errors by which a difference must exceed the margin for bets to be tried; fewer give next to no evidence."""

ROWS_AT_ONCE = 200

STEPS = np.linspace(-1, 1, 2001)
"""Differences that an interval may begin and end at."""


@cache
def _log_factors(levels: int) -> Array:
    """Return the logarithm of what each value multiplies a wealth by, (levels, bets, means)."""
    values = np.linspace(0, 1, levels)[:, None, None]
    return np.asarray(np.log1p(BETS[:, None] * (values / MEANS - 1)))


def log_wealth(counts: Counts) -> Array:
    """Return the logarithm of the evidence that means are above each of MEANS, (rows, means).

    Args:
        counts: how many values each sample has of each level, (rows, levels).
    """
    factors = _log_factors(counts.shape[1])
    logs = (counts @ factors.reshape(len(factors), -1)).reshape(len(counts), *factors.shape[1:])
    highest = logs.max(axis=1, keepdims=True)
    return np.asarray(highest[:, 0] + np.log(np.exp(logs - highest).mean(axis=1)))


def log_wealth_below(counts: Counts) -> Array:
    """Return the same for means below each of MEANS, which are symmetric around 1 / 2."""
    return log_wealth(counts[:, ::-1])[:, ::-1]


def _least(below: Array, above: Array, margin: float) -> Array:
    """Return the least evidence over the mean of the first sample, (rows,); its mean may lie between two of MEANS."""
    ends = MEANS[1:] + margin
    possible = ends > 0  # no mean is below 0
    places = np.minimum(np.searchsorted(MEANS, ends[possible]), len(MEANS) - 1)
    return np.asarray((below[:, :-1][:, possible] + above[:, places]).min(axis=1))


def means(counts: Counts) -> Array:
    """Return the mean of each sample, (rows,); 0 for one without values."""
    return _moments(counts)[0]


def _moments(counts: Counts) -> tuple[Array, Array]:
    """Return the mean of each sample and its squared standard error, (rows,) each."""
    levels = np.linspace(0, 1, counts.shape[-1])
    powers = np.stack([np.ones_like(levels), levels, levels**2], axis=1)
    sums = counts.astype(np.float64) @ powers
    sizes = np.maximum(sums[..., 0], 1)
    mean = sums[..., 1] / sizes
    return mean, np.maximum(sums[..., 2] / sizes - mean**2, 0) / sizes


def log_evidence_of_rise(first: Counts, second: Counts, margin: float) -> Array:
    """Return the logarithm of the evidence that the second mean exceeds the first by more than a margin, (rows,).

    Minus infinity where there is next to none.

    Args:
        first: counts of the first sample, (rows, levels).
        second: counts of the second.
        margin: the margin, from 0.

    Example:
        >>> first, second = np.array([[100, 0]]), np.array([[80, 20]])
        >>> log_evidence_of_rise(first, second, 0.02).round() > 3
        array([ True])
    """
    logs = np.full(len(first), -np.inf)
    (before, error_before), (after, error_after) = _moments(first), _moments(second)
    rows = np.flatnonzero(after - before - margin > LEAST_ERRORS * np.sqrt(error_before + error_after))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        chosen = rows[start : start + ROWS_AT_ONCE]
        logs[chosen] = _least(log_wealth_below(first[chosen]), log_wealth(second[chosen]), margin)
    return logs


def log_evidence_of_change(first: Counts, second: Counts, margin: float) -> Array:
    """Return the logarithm of the evidence that two means differ by more than a margin, (rows,)."""
    rise = log_evidence_of_rise(first, second, margin)
    fall = log_evidence_of_rise(second, first, margin)
    return np.asarray(np.logaddexp(rise, fall) - np.log(2))


def difference_interval(first: Counts, second: Counts, confidence: float) -> tuple[float, float]:
    """Return an interval of the second mean less the first that holds on whatever day one looks.

    It has the differences against which there is too little evidence.

    Args:
        first: counts of one sample, (levels,).
        second: counts of the other.
        confidence: level of the interval.
    """
    counts = np.array([first, second])
    below = log_wealth_below(counts)
    above = log_wealth(counts)
    enough = np.log(2 / (1 - confidence))

    def is_refuted(step: int, fall: bool) -> bool:
        """Return whether the difference is known to be above a step, or (`fall`) below it."""
        margin = STEPS[step]
        if fall:
            return bool(_least(below[1:], above[:1], -margin)[0] >= enough)
        return bool(_least(below[:1], above[1:], margin)[0] >= enough)

    bounds = []
    for fall, refuted, possible in ((False, 0, len(STEPS) - 1), (True, len(STEPS) - 1, 0)):
        while abs(possible - refuted) > 1:
            middle = (refuted + possible) // 2
            if is_refuted(middle, fall):
                refuted = middle
            else:
                possible = middle
        bounds.append(float(STEPS[refuted]))
    return bounds[0], bounds[1]

"""Intervals of figures, and paired tests of the differences between methods, over the texts.

Intervals are studentised: for means with a correction for skewness (`mean_interval`), for pooled figures by the
jackknife (`pooled_interval`). Bootstrap percentiles cover too little on few texts;
tests/explearn/metrics/test_interval_coverage.py measures the coverage of these intervals.
Differences are tested by Wilcoxon's signed-rank test over the texts, corrected after Holm over all pairs of methods in
one metric's column (as L2E, footnote 6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.arrays import Array, Counts, Mask
from explearn.metrics.arrays import ranks, ratio, without_rounding

Signs = NDArray[np.int8]
Interval = tuple[float, float] | tuple[None, None]

FEWEST_TEXTS = 20
"""Number of texts below which no interval is shown."""

ROUNDING = 1e-9
"""Differences below this are rounding errors."""

ENTRIES_PER_CHUNK = 2_000_000
"""Resampled words held at once by `resampled_areas`, 16 MB in float64."""


def resampled_means(values: ArrayLike, counts: Counts) -> Array:
    """Return the mean of the texts' values in each resample, without NaN: (samples,) from (texts,), (samples,
    texts)."""
    array = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(array)
    return ratio(counts @ np.where(known, array, 0.0), counts @ known)


def mean_interval(values: ArrayLike, confidence: float, lowest: float = -np.inf, highest: float = np.inf) -> Interval:
    """Return the interval of a mean over texts.

    For values 0 and 1 it is the exact one (Clopper and Pearson 1934). For n other values with mean m, deviation s and
    skewness g it is m - s h(t) to m - s h(-t), where t is Student's quantile and h removes the skewness of a
    studentised mean (Hall 1992, On the removal of skewness by transformation):

        h(t) = 3 / g (max(0, 1 + g (t / sqrt(n) - g / 6n))^(1/3) - 1)

    Args:
        values: values by text, (texts,), NaN where undefined.
        confidence: level of the interval.
        lowest: least possible value.
        highest: largest possible value.

    Returns:
        The bounds, within the range; (None, None) for fewer than two values, and for equal values without a range.
    """
    # scipy.stats takes half a second to load; importing this module should not.
    from scipy.stats import binomtest, skew, t

    array = np.asarray(values, dtype=np.float64)
    known = array[~np.isnan(array)]
    count = len(known)
    if count < 2:
        return None, None
    mean = float(known.mean())
    if np.isin(known, (0, 1)).all():
        exact = binomtest(int(known.sum()), count).proportion_ci(confidence)
        return float(exact.low), float(exact.high)
    if np.ptp(known) < ROUNDING:
        return _interval_of_equal_texts(mean, count, confidence, lowest, highest)
    g = float(skew(known))
    steps = np.array([1, -1]) * t.ppf((1 + confidence) / 2, count - 1) / count**0.5
    # For a skewness near 0, h(t) is t / sqrt(n) except for rounding.
    if abs(g) > 1e-6:
        # Below 0, rarer outliers would lengthen the interval.
        steps = 3 / g * (np.cbrt(np.maximum(1 + g * (steps - g / (6 * count)), 0)) - 1)
    low, high = np.clip(mean - known.std(ddof=1) * steps, lowest, highest)
    return float(low), float(high)


def pooled_interval(
    figure: float, without_one: ArrayLike, confidence: float, least: float = 0.0, variance: float = 0.0
) -> Interval:
    """Return the interval of a pooled figure, from the jackknife on the logit scale.

    Args:
        figure: figure over all texts, from `least` to 1.
        without_one: figure over all texts but each one, (texts,), ignoring NaN.
        confidence: level of the interval.
        least: -1 for a correlation, whose Fisher's z is half the logit of its position in [-1, 1].
        variance: additional variance, such as from draws of a training.

    Returns:
        The bounds; (None, None) for fewer than two texts, and if the figure is NaN.
    """
    from scipy.stats import t

    scale = 1 - least
    array = (np.asarray(without_one, dtype=np.float64) - least) / scale
    known = array[~np.isnan(array)]
    count = len(known)
    if count < 2 or np.isnan(figure):
        return None, None
    share = (figure - least) / scale
    same = np.ptp(known) < ROUNDING and not variance
    if same or not 0 < share < 1:
        return _interval_of_equal_texts(figure, count, confidence, least, 1.0)
    error = ((count - 1) * known.var() + variance / scale**2) ** 0.5 / (share * (1 - share))
    step = t.ppf((1 + confidence) / 2, count - 1) * error
    odds = share / (1 - share) * np.exp([-step, step])
    low, high = least + scale * odds / (1 + odds)
    return float(low), float(high)


def _interval_of_equal_texts(value: float, texts: int, confidence: float, lowest: float, highest: float) -> Interval:
    """Return the interval of a figure that is the same for each of n texts; (None, None) without a finite range.

    If no text of n differs, up to a share 1 - (alpha / 2)^(1 / n) of all texts may (Clopper and Pearson 1934). The
    bounds put all of these at one end of the range.
    """
    if np.isinf(lowest) or np.isinf(highest):
        return None, None
    others = 1 - ((1 - confidence) / 2) ** (1 / texts)
    return float(value + others * (lowest - value)), float(value + others * (highest - value))


def resampled_areas(scores: Sequence[ArrayLike], marked: Sequence[ArrayLike], counts: Counts) -> tuple[Array, Array]:
    """Return AUROC and AUPRC (average precision) over pooled words in each resample of the texts, (samples,) each.

    NaN in resamples with only one kind of word.

    Args:
        scores: scores of the words, one array (words,) per text.
        marked: marked words, likewise.
        counts: how often each text is in each resample, (samples, texts).
    """
    sizes = [np.size(text) for text in scores]
    values = np.concatenate([*scores])
    truth = np.concatenate([*marked]).astype(np.bool_)
    _, group = np.unique(values, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    owner = np.repeat(np.arange(len(sizes)), sizes)[order]
    truth = truth[order]
    rows = max(1, ENTRIES_PER_CHUNK // len(owner))
    areas = []
    precisions = []
    for start in range(0, len(counts), rows):
        weights = counts[start : start + rows, owner].astype(np.float64)
        # By distinct score, from the lowest up: (samples, scores).
        hits = np.add.reduceat(weights * truth, starts, axis=1)
        misses = np.add.reduceat(weights * ~truth, starts, axis=1)
        positives = hits.sum(axis=1)
        negatives = misses.sum(axis=1)
        below = np.cumsum(misses, axis=1) - misses / 2
        chosen_hits = np.cumsum(hits[:, ::-1], axis=1)[:, ::-1]
        chosen = chosen_hits + np.cumsum(misses[:, ::-1], axis=1)[:, ::-1]
        precision = ratio(chosen_hits, chosen, undefined=0.0)
        areas.append(ratio((hits * below).sum(axis=1), positives * negatives))
        precisions.append(ratio((hits * precision).sum(axis=1), positives * (negatives > 0)))
    return np.concatenate(areas), np.concatenate(precisions)


MOST_FLIPPED = 13
"""Most texts for which the paired test enumerates all 2^13 choices of signs; scipy's own limit with ties."""

MOST_EXACT = 50
"""Most texts for which Wilcoxon's exact distribution is used, without ties; scipy's own limit."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PairedTests:
    """The comparison of all methods in one metric.

    Attributes:
        metric: name.
        larger_is_better: its direction.
        methods: the m methods that have the metric, in the order given.
        values: their figures, (m,).
        texts: number of texts on which both of a pair are defined, int64 (m, m).
        p_values: of Wilcoxon's two-sided test, (m, m), symmetric; 1 on the diagonal and if no text differs.
        adjusted: the same after Holm's correction over all pairs.
        direction: sign of the test's sum of signed ranks, int8 (m, m): 1 if the row's method has the larger values,
            -1 if the column's has, 0 if neither.
        significance: level of `tied`.
    """

    metric: str
    larger_is_better: bool
    methods: tuple[str, ...]
    values: Array
    texts: Counts
    p_values: Array
    adjusted: Array
    direction: Signs
    significance: float = 0.05

    def __repr__(self) -> str:
        return f"PairedTests({self.metric!r}, best={self.best}, tied={self.tied})"

    @property
    def best(self) -> tuple[str, ...]:
        """Methods with the best figure; several only if figures are equal."""
        return tuple(self.methods[i] for i in np.flatnonzero(self._is_best()))

    @property
    def tied(self) -> tuple[str, ...]:
        """Methods whose figure is worse, but not significantly."""
        best = self._is_best()
        worse = (self.outcomes(self.significance)[:, best] != 0).all(axis=1)
        return tuple(self.methods[i] for i in np.flatnonzero(~best & ~worse))

    def _is_best(self) -> Mask:
        ordered = self.values if self.larger_is_better else -self.values
        return np.asarray(ordered == ordered.max(initial=-np.inf))

    def can_differ(self) -> bool:
        """Return whether a difference on all texts, all in one direction, would be significant for some pair.

        The smallest p-value for n texts is 2^(1 - n), which Holm's method multiplies by the number of pairs.
        """
        upper = self.texts[np.triu_indices(len(self.methods), 1)]
        return bool((len(upper) * 2.0 ** (1 - upper) < self.significance).any())

    def p_value(self, first: str, second: str) -> float:
        """Return the corrected p-value of the difference between two methods."""
        return float(self.adjusted[self.methods.index(first), self.methods.index(second)])

    def outcomes(self, level: float) -> Signs:
        """Return 1 if the row's method is significantly better than the column's, -1 if worse, else 0: int8 (m, m).

        A difference counts if the figures and the test agree on its direction. They can disagree if the figure pools
        the words of all texts, while the test uses figures by text.
        """
        gap = np.sign(self.values[:, None] - self.values[None, :]).astype(np.int8)
        significant = np.where((self.adjusted < level) & (self.direction == gap), gap, np.int8(0))
        return significant if self.larger_is_better else -significant

    def outcome(self, first: str, second: str, level: float) -> int:
        """Return the entry of `outcomes` for two methods."""
        return int(self.outcomes(level)[self.methods.index(first), self.methods.index(second)])


def paired_tests(
    metric: str,
    values: Mapping[str, float | None],
    by_text: Mapping[str, ArrayLike],
    larger_is_better: bool = True,
    significance: float = 0.05,
    scale: float | None = None,
) -> PairedTests:
    """Find the best method in a metric, and those that are not significantly worse.

    Args:
        metric: name.
        values: each method's figure; methods with None are left out.
        by_text: each method's value on each text, (texts,), NaN where undefined, in the same order for all methods. For
            pooled figures these are the figures by text.
        larger_is_better: direction.
        significance: a method is tied with the best if the corrected p-value is at least this, or if the test's
            direction contradicts the figures.
        scale: size of the values, whose differences below float32's resolution are ties. None: that of the larger of
            each pair.
    """
    figures = {method: value for method, value in values.items() if value is not None}
    rows = [np.asarray(by_text[method], dtype=np.float64) for method in figures]
    count = len(figures)
    p_values = np.ones((count, count))
    adjusted = np.ones((count, count))
    direction = np.zeros((count, count), dtype=np.int8)
    matrix = np.array(rows).reshape(count, -1) if rows else np.zeros((0, 0))
    known = ~np.isnan(matrix)
    first, second = np.triu_indices(count, 1)
    if len(first):
        sizes = np.nanmax(np.abs(matrix), axis=1, keepdims=True, initial=0.0)
        scales = np.maximum(sizes[first], sizes[second])
        if scale is not None:
            scales = np.full_like(scales, scale)
        differences = without_rounding(matrix[first] - matrix[second], scales)
        raw = signed_rank_test(differences, scales)
        p_values[first, second] = p_values[second, first] = raw
        adjusted[first, second] = adjusted[second, first] = holm(raw)
        sizes = np.abs(differences)
        # Of the sum of signed ranks, zeros without one; NaN last and zeros first, where they move no other's rank.
        ranked = ranks(np.where(np.isnan(sizes), np.inf, sizes)) - (sizes == 0).sum(axis=1, keepdims=True)
        signs = np.sign(np.nansum(np.sign(differences) * ranked, axis=1)).astype(np.int8)
        direction[first, second] = signs
        direction[second, first] = -signs
    return PairedTests(
        metric,
        larger_is_better,
        tuple(figures),
        values=np.array(list(figures.values()), dtype=np.float64),
        texts=known.astype(np.int64) @ known.T,
        p_values=p_values,
        adjusted=adjusted,
        direction=direction,
        significance=significance,
    )


MOST_RANKED = 300
"""Most values of both samples whose order is tried in full or at random, by which a test takes half a second."""

DRAWS = 9_999
"""Random orders that stand for all."""


def rank_sum_test(first: Array, second: Array) -> float:
    """Return the p-value of Mann and Whitney's two-sided test of two samples.

    It is exact; where values are tied it comes from DRAWS random orders, and from the normal distribution for more
    than MOST_RANKED values.
    """
    from scipy.stats import mannwhitneyu

    both = np.concatenate([first, second])
    if len(both) > MOST_RANKED:
        return float(mannwhitneyu(first, second, method="asymptotic").pvalue)
    if len(np.unique(both)) == len(both):
        return float(mannwhitneyu(first, second, method="exact").pvalue)
    count = len(first)
    ranked = ranks(both)
    orders = np.random.default_rng(0).permuted(np.tile(ranked, (DRAWS, 1)), axis=1)
    expected = count * ranked.mean()
    drawn = np.abs(orders[:, :count].sum(axis=1) - expected)
    return _permuted(drawn, abs(ranked[:count].sum() - expected))


def shares_test(hits: Sequence[int], sizes: Sequence[int]) -> float:
    """Return the p-value of Pearson's chi-squared test whether groups have one share of hits.

    It comes from DRAWS random assignments of all hits to the groups' members.

    Args:
        hits: number of hits in each group, (groups,).
        sizes: number of members of each group, (groups,).
    """
    members = np.asarray(sizes)
    expected = members * sum(hits) / members.sum()
    drawn = np.random.default_rng(0).multivariate_hypergeometric(members, sum(hits), size=DRAWS)
    distances = ((drawn - expected) ** 2 / members).sum(axis=1)
    return _permuted(distances, float(((np.asarray(hits) - expected) ** 2 / members).sum()))


def _permuted(drawn: Array, observed: float) -> float:
    """Return the share of random draws that are as large as what was observed, which counts as one of them."""
    return float((1 + (drawn >= observed - ROUNDING).sum()) / (1 + len(drawn)))


def holm(p_values: ArrayLike) -> Array:
    """Correct p-values by Holm's step-down method: the i-th smallest of m times m - i + 1, never less than the last.

    Source: Holm (1979), A simple sequentially rejective multiple test procedure.
    """
    raw = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(raw, kind="stable")
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1)), 1.0)
    return adjusted


def signed_rank_test(differences: Array, scale: ArrayLike = 1.0) -> Array:
    """Return p-values of Wilcoxon's test of each row of differences (pairs, texts), NaN left out.

    Args:
        differences: the differences.
        scale: size of the numbers of which they are differences (`without_rounding`).
    """
    # scipy.stats takes half a second to load; importing this module should not.
    from scipy.stats import wilcoxon

    differences = without_rounding(differences, scale)
    known = (~np.isnan(differences)).sum(axis=1)
    p_values = np.ones(len(differences))
    sizes = np.sort(np.abs(differences), axis=1)
    # Chosen for each row; scipy's `auto` chooses one way for all rows.
    tied = (sizes == 0).any(axis=1) | (np.diff(sizes, axis=1) == 0).any(axis=1)
    exact = ~tied & (known <= MOST_EXACT)
    # Where no text differs there is nothing to test.
    testable = np.nansum(np.abs(differences), axis=1) > 0
    few = testable & (known <= MOST_FLIPPED)
    many = testable & (known > MOST_FLIPPED)
    for row in np.flatnonzero(few):
        p_values[row] = _all_sign_flips(differences[row])
    for rows, method in ((many & exact, "exact"), (many & ~exact, "approx")):
        if rows.any():
            p_values[rows] = wilcoxon(differences[rows], axis=1, nan_policy="omit", method=method).pvalue
    return p_values


def _all_sign_flips(differences: Array) -> float:
    """Return Wilcoxon's exact two-sided p-value of at most MOST_FLIPPED values besides NaN, (texts,).

    Ties and zeros are allowed (zeros have no rank): the sum of the positive ranks is compared with that under each of
    the 2^n choices of signs. scipy gives the same p-value, but makes each choice in Python.
    """
    changed = differences[~np.isnan(differences) & (differences != 0)]
    ranked = ranks(np.abs(changed))
    # Ranks are multiples of a half, so sums are exact.
    sums = ((np.arange(2 ** len(changed))[:, None] >> np.arange(len(changed))) & 1) @ ranked
    observed = ranked[changed > 0].sum()
    return float(min(1.0, 2 * min((sums >= observed).mean(), (sums <= observed).mean())))

"""Consistency: against scipy's Spearman, and what batches may not change."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr

from explearn.metrics import consistency as c


def world(texts=12):
    rng = np.random.default_rng(0)
    return rng.normal(size=(texts, 5)), [rng.normal(size=rng.integers(1, 9)) for _ in range(texts)]


def one(states, scores, *arguments, **named):
    return c.consistency(states, {"m": scores}, *arguments, **named)["m"]


def test_one_batch_is_scipys_rank_correlation_of_distances():
    states, scores = world()
    actual = one(states, scores, batch_size=12)
    first = pdist(states)
    second = pdist(c.padded(scores))
    assert actual.figure == pytest.approx(spearmanr(first, second).statistic)
    low, high = actual.bounds
    assert low < actual.figure < high


def test_each_texts_own_value_takes_its_pairs():
    states, scores = world()
    actual = one(states, scores, batch_size=12)
    vectors = c.padded(scores)
    for i in range(12):
        others = [j for j in range(12) if j != i]
        a = np.linalg.norm(states[others] - states[i], axis=1)
        b = np.linalg.norm(vectors[others] - vectors[i], axis=1)
        assert actual.values[i] == pytest.approx(spearmanr(a, b).statistic)


def test_the_value_is_the_mean_over_even_batches():
    states, scores = world(10)
    actual = one(states, scores, batch_size=6, seed=4)
    rows = c.batches(10, 6, 4)
    assert sorted(map(len, rows)) == [5, 5] and sorted(np.concatenate(rows)) == list(range(10))
    vectors = c.padded(scores)
    each = [spearmanr(pdist(states[r]), pdist(vectors[r])).statistic for r in rows]
    assert actual.figure == pytest.approx(np.mean(each))


def test_explanations_that_follow_the_states_are_fully_consistent():
    # Powers of two have no two equal differences. On the simplex, the distance of two explanations is sqrt(2) times
    # that of their first entries.
    shares = 2.0 ** -np.arange(8)
    actual = one(100 * shares[:, None], [[x, 1 - x] for x in shares])
    assert actual.figure == pytest.approx(1) and actual.bounds[0] < 0.5 and actual.bounds[1] == pytest.approx(1)


def test_methods_judged_together_have_the_figures_of_each_alone():
    states, scores = world(30)
    flat = [np.ones(3)] * 30
    together = c.consistency(states, {"first": scores, "flat": flat, "last": scores[::-1]}, 8, seed=5)
    for method, alone in (("first", scores), ("flat", flat), ("last", scores[::-1])):
        expected = one(states, alone, 8, seed=5)
        actual = together[method]
        assert (actual.figure, *actual.bounds) == (expected.figure, *expected.bounds)
        np.testing.assert_array_equal(actual.values, expected.values)
    assert together["flat"].figure is None

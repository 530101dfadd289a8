"""Agreement of methods with each other: against scipy, and by hand."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from explearn.evaluation.run import rank_agreement

RNG = np.random.default_rng(0)
LENGTHS = (4, 7, 3)


def draw():
    return [RNG.integers(-2, 3, size=n).astype(float) for n in LENGTHS]


SCORES = {"a": draw(), "b": draw(), "c": draw()}


def test_rank_agreement_is_the_mean_of_scipys_rho():
    actual = rank_agreement(SCORES)
    for i, first in enumerate(SCORES.values()):
        for j, second in enumerate(SCORES.values()):
            expected = np.mean([spearmanr(a, b).statistic for a, b in zip(first, second, strict=True)])
            assert actual[i, j] == pytest.approx(expected)


def test_texts_that_a_method_scores_all_alike_are_left_out():
    actual = rank_agreement({"a": [[1, 2, 3], [1, 1, 1]], "b": [[3, 2, 1], [1, 2, 3]], "c": [[0, 0, 0], [0, 0, 0]]})
    assert actual[0, 1] == pytest.approx(-1) and actual[0, 0] == pytest.approx(1)
    assert np.isnan(actual[2]).all()

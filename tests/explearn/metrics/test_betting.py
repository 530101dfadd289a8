"""Evidence that means changed: none beyond its level however often one looks, and enough where they did."""

import numpy as np
import pytest

from explearn.metrics.betting import (
    BETS,
    MEANS,
    difference_interval,
    log_evidence_of_change,
    log_evidence_of_rise,
    log_wealth,
)


def sample(draw, values, shares, size):
    """Counts of 17 levels, of values that are drawn."""
    return np.bincount(draw.choice(values, size, p=shares), minlength=17)[None]


def test_the_wealth_is_the_mean_product_of_the_players_bets():
    counts = np.array([[2, 0, 1]])  # 0, 0, 1
    place = len(MEANS) // 2
    mean = MEANS[place]
    products = [(1 - bet) ** 2 * (1 - bet + bet / mean) for bet in BETS]
    assert log_wealth(counts)[0, place] == pytest.approx(np.log(np.mean(products)))


def test_the_expected_wealth_is_one_if_the_mean_is_the_one_that_is_bet_against():
    mean = MEANS[400]
    shares = np.array([1 - mean, mean])
    wealth = 0.0
    for first in (0, 1):
        for second in (0, 1):
            counts = np.bincount([first, second], minlength=2)[None]
            wealth += shares[first] * shares[second] * np.exp(log_wealth(counts)[0, 400])
    assert wealth == pytest.approx(1)


@pytest.mark.parametrize("margin", [0.0, 0.02])
def test_no_change_gives_evidence_in_at_most_one_of_twenty_series_however_often_one_looks(margin):
    draw = np.random.default_rng(3)
    values, shares = [0, 8, 16], [0.8, 0.1, 0.1]
    alarms = 0
    for _ in range(60):
        first = sample(draw, values, shares, 200)
        since = np.zeros_like(first)
        highest = -np.inf
        for _ in range(20):
            since = since + sample(draw, values, shares, 100)
            highest = max(highest, log_evidence_of_change(first, since, margin)[0])
        alarms += highest >= np.log(20)
    assert alarms <= 3


def test_what_moves_within_the_margin_gives_no_evidence_however_many_values():
    first = np.array([[900_000, 100_000]])
    second = np.array([[885_000, 115_000]])
    assert log_evidence_of_change(first, second, 0.02)[0] == -np.inf
    assert log_evidence_of_change(first, second, 0.01)[0] > np.log(1e6)


def test_evidence_has_a_direction_and_grows():
    first = np.array([[1000, 0]])
    second = np.array([[450, 50]])
    rise = log_evidence_of_rise(first, second, 0.02)[0]
    assert np.log(1e6) < rise < log_evidence_of_rise(2 * first, 2 * second, 0.02)[0]
    assert log_evidence_of_rise(second, first, 0.02)[0] == -np.inf
    # Shifted by what the margin allows, there is none for the least favourable mean.
    assert log_evidence_of_rise(first, second, 0.1)[0] == -np.inf


def test_intervals_cover_the_difference_on_every_day_together():
    draw = np.random.default_rng(4)
    missed = 0
    for _ in range(60):
        first = sample(draw, [0, 16], [0.7, 0.3], 300)[0]
        since = np.zeros_like(first)
        covers = True
        for _ in range(5):
            since = since + sample(draw, [0, 16], [0.6, 0.4], 100)[0]
            low, high = difference_interval(first, since, 0.95)
            covers &= low <= 0.1 <= high
        missed += not covers
    assert missed <= 3
    low, high = difference_interval(np.array([70_000, 30_000]), np.array([60_000, 40_000]), 0.95)
    assert 0.08 < low < 0.1 < high < 0.12

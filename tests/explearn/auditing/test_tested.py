"""When a claim is confirmed."""

import numpy as np
import pytest

from explearn.auditing.tested import Effects, centred_at_zero, false_discovery, judged


def test_effects_that_are_equal_but_for_the_last_digit_are_ties():
    draw = np.random.default_rng(5)
    rounded = draw.choice([-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.4], (60, 30))
    noisy = rounded + draw.uniform(-1e-16, 1e-16, rounded.shape)
    noisy[rounded == 0] = draw.choice([-1.5e-18, 1.5e-18], (rounded == 0).sum())
    expected = centred_at_zero(list(rounded))
    assert centred_at_zero(list(noisy)).tolist() == expected.tolist()
    # An effect that rounding made is none.
    assert centred_at_zero([np.full(20, 1.5e-18)]).tolist() == [1.0]


@pytest.mark.parametrize(("factor", "confirmed"), [(1, False), (2, True)])
def test_an_effect_is_confirmed_if_its_whole_interval_is_above_a_hundredth(factor, confirmed):
    values = factor * np.array([0.025] * 24 + [-0.006] * 16)
    effects = Effects(values[:, None], np.zeros((0, 1)))
    (p_value,) = centred_at_zero([effects.of_class(0)])
    (corrected,) = false_discovery([p_value])
    verdict = judged(effects, 0, p_value, corrected)
    assert corrected < 0.05 and verdict["effect"] == pytest.approx(values.mean()) and verdict["effect"] > 0.01
    # The t interval of these values, almost symmetric, is within a thousandth of the one without their skewness.
    expected = values.mean() - 2.0227 * values.std(ddof=1) / 40**0.5
    assert verdict["low"] == pytest.approx(expected, abs=0.001)
    assert verdict["confirmed"] is confirmed

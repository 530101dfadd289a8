"""When a claim is confirmed."""

import numpy as np
import pytest

from explearn.auditing.tested import Effects, centred_at_zero, false_discovery, judged


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

"""How many words a share is."""

import pytest

from explearn.metrics.params import EvaluateParams
from explearn.metrics.protocols import unit_count


@pytest.mark.parametrize(("protocol", "half", "least"), [("default", 3, 1), ("eraser", 3, 1), ("aml", 2, 0)])
def test_halves_are_rounded_up_to_a_word_at_least_but_down_under_aml(protocol, half, least):
    params = EvaluateParams(protocol=protocol)
    assert (unit_count(params, 5, 50), unit_count(params, 9, 1)) == (half, least)

"""How many words a share is, and how they leave a text, by protocol."""

import pytest
from fakes import MASK, encode

from explearn.metrics.params import EvaluateParams
from explearn.metrics.protocols import aopc_steps, only, unit_count, without

TEXT = encode(("a", "rather", "dull", "film"))


@pytest.mark.parametrize(("name", "count"), [("default", 3), ("eraser", 3), ("aml", 2)])
def test_halves_are_rounded_up_but_down_under_aml(name, count):
    assert unit_count(EvaluateParams(protocol=name), 5, 50) == count


def test_a_share_is_a_word_at_least_but_none_under_aml():
    assert unit_count(EvaluateParams(), 9, 1) == 1
    assert unit_count(EvaluateParams(protocol="aml"), 9, 1) == 0


@pytest.mark.parametrize(("name", "steps"), [("default", 5), ("eraser", 5), ("aml", 6)])
def test_the_aopc_is_a_mean_but_aml_divides_by_one_more(name, steps):
    assert aopc_steps(EvaluateParams(protocol=name)) == steps


def test_words_leave_by_deletion_or_by_the_mask_token():
    deleting = EvaluateParams()
    assert without(deleting, TEXT, [1, 2], MASK) == TEXT.keep([0, 3])
    assert only(deleting, TEXT, [1, 2], [0, 3], MASK) == TEXT.delete([0, 3])
    masking = EvaluateParams(removal="mask")
    assert without(masking, TEXT, [1, 2], MASK).input_ids[2:4] == (MASK, MASK)
    assert only(masking, TEXT, [1, 2], [0, 3], MASK) == TEXT.mask([0, 3], MASK)

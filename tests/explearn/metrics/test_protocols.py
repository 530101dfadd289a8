"""How many words a share is, and how they leave a text, by protocol."""

import pytest
from fakes import MASK, encode

from explearn.metrics.protocols import FaithfulnessProtocol

TEXT = encode(("a", "rather", "dull", "film"))


def protocol(name="default", removal="delete", percents=(1, 5, 10, 20, 50)):
    return FaithfulnessProtocol(name, removal, percents, 20)


@pytest.mark.parametrize(("name", "count"), [("default", 3), ("eraser", 3), ("aml", 2)])
def test_halves_are_rounded_up_but_down_under_aml(name, count):
    assert protocol(name).count(5, 50) == count


def test_a_share_is_a_word_at_least_but_none_under_aml():
    assert protocol().count(9, 1) == 1
    assert protocol("aml").count(9, 1) == 0


def test_the_aopc_is_a_mean_but_aml_divides_by_one_more():
    assert (protocol().aopc_steps, protocol("eraser").aopc_steps, protocol("aml").aopc_steps) == (5, 5, 6)


def test_words_leave_by_deletion_or_by_the_mask_token():
    assert protocol().without(TEXT, [1, 2], MASK) == TEXT.keep([0, 3])
    assert protocol().only(TEXT, [1, 2], [0, 3], MASK) == TEXT.delete([0, 3])
    masking = protocol(removal="mask")
    assert masking.without(TEXT, [1, 2], MASK).input_ids[2:4] == (MASK, MASK)
    assert masking.only(TEXT, [1, 2], [0, 3], MASK) == TEXT.mask([0, 3], MASK)

"""Records of attributions from elsewhere: what they need, and what cannot be one."""

import math

import numpy as np
import pytest
from saying import complaint

from explearn import Attribution, DataError

MINIMUM = {"words": ["a", "b"], "scores": [1, -2.5], "target": "yes", "method": "theirs"}


def test_records_from_elsewhere_need_words_scores_target_and_method_alone():
    actual = Attribution.from_dict(MINIMUM | {"their_own": 3})
    assert actual.scores.tolist() == [1, -2.5]
    assert actual.signed and actual.tokens == () and actual.predicted == "yes" and np.isnan(actual.probability)


@pytest.mark.parametrize("name", list(MINIMUM))
def test_a_field_that_is_missing_is_named(name):
    record = {field: value for field, value in MINIMUM.items() if field != name}
    with pytest.raises(DataError, match=f"field '{name}': got none; expected a value"):
        Attribution.from_dict(record)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"words": ["a"]}, "field 'scores' has 2 entries; expected 1, one per word"),
        ({"words": ["a", "b c"]}, "field 'words', word 1: got 'b c'; expected a word without white space"),
        ({"scores": [1, math.inf]}, "field 'scores': entry 1: got inf; expected a finite number"),
        ({"tokens": ["a"], "token_scores": [None]}, "field 'token_scores': got an entry without a number"),
        ({"tokens": ["a"]}, "field 'token_scores' has 0 entries; expected 1, one per sub-token"),
        ({"spans": [[0, 1]]}, "field 'spans' has 1 entries; expected 2"),
        ({"probability": 1.5}, "field 'probability': got 1.5"),
        ({"spans": [[0, 1], [3, 2]]}, r"field 'spans', word 1: got \[3, 2\)"),
        ({"pair_start": 2}, "field 'pair_start': got 2; expected less than 2, the words"),
        ({"certificate": {"bound": -1}}, "field 'certificate.bound': got -1"),
        (
            {"interactions": [{"words": ["b", "a"], "positions": [1, 0], "value": 1}]},
            "field 'interactions', pair 0: got",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_field_that_cannot_be_used_is_named(change, sentence):
    with pytest.raises(DataError, match=sentence):
        Attribution.from_dict(MINIMUM | change)


@pytest.mark.parametrize("record", [None, 3, "x", [("words", ["a"])]], ids=ascii)
def test_records_that_are_none(record):
    complaint(lambda: Attribution.from_dict(record), "to_dict")

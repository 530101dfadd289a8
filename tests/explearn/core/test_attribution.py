"""An attribution: the same after JSON, and what it says of itself."""

import dataclasses
import json
import math

import numpy as np
import pytest
from drawn import assert_same, attributions
from fakes import attribution
from hypothesis import given, settings
from saying import complaint

import explearn
from explearn import Attribution


@settings(max_examples=50, deadline=None)
@given(attributions())
def test_json_gives_it_back(expected):
    document = json.loads(json.dumps(expected.to_dict(), allow_nan=False))
    assert_same(Attribution.from_dict(document), expected)


def unread(**changes):
    """Three words, the last of which was not read."""
    record = {
        "words": ["a", "fine", "film"],
        "scores": [-0.5, 0.25, None],
        "target": "yes",
        "method": "m",
        "probability": 0.75,
        "completeness_error": 0.125,
    }
    return dataclasses.replace(Attribution.from_dict(record), **changes)


class TestWordsWithoutAScore:
    def test_come_last_when_a_number_is_needed(self):
        filled = unread().filled()
        assert filled[:2].tolist() == [-0.5, 0.25]
        assert filled[2] < -0.5 and filled[2] == pytest.approx(-0.5)
        assert unread().filled(0.0).tolist() == [-0.5, 0.25, 0.0]
        assert unread(scores=np.full(3, np.nan, np.float32)).filled().tolist() == [0, 0, 0]
        assert unread().read.tolist() == [True, True, False]

    def test_are_no_part_of_what_is_printed(self):
        line = str(unread(completeness_error=0.01))
        assert line == "m (share) for 'yes' (p = 0.750): fine +0.250, a -0.500 (1 of 3 words were not read)"
        assert "off by 0.25, 33% of their absolute sum" in str(unread(completeness_error=0.25))


def test_a_short_repr():
    assert repr(unread()) == "Attribution(method='m', target='yes', words=3, probability=0.75)"
    assert repr(unread(probability=math.nan, value=1.5)) == "Attribution(method='m', target='yes', words=3, value=1.5)"


@pytest.mark.parametrize("taker", [explearn.to_frame, explearn.to_arrow, explearn.Attributions])
def test_what_is_no_attribution(taker):
    good = unread()
    for values in ("abc", 3, [good, 3], [good.to_dict()]):
        complaint(lambda values=values: taker(values), "attribution")


def test_the_highest_words_come_first_or_the_lowest_and_never_unread_ones():
    spans = ((0, 1), (2, 3), (4, 5), (6, 7))
    actual = dataclasses.replace(attribution("abcd", (0.5, np.nan, -1, 2)), spans=spans)
    assert [tuple(top) for top in actual.top_words(2)] == [("d", 2.0, 3, (6, 7)), ("a", 0.5, 0, (0, 1))]
    assert [tuple(top) for top in actual.top_words(against=True)] == [("c", -1.0, 2, (4, 5))]

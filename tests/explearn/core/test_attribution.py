"""An attribution: what goes in comes out of every format, field by field; what cannot be one is refused."""

import dataclasses
import json
import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from explearn import Attribution, Certificate, DataError, Interaction
from explearn.core.storage import ATTRIBUTION_SCHEMA, read_attributions, write_attributions

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
WORDS = st.text(st.characters(exclude_categories=["Cs", "Z", "C"]), min_size=1, max_size=5)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
SCORES = st.floats(width=32, allow_nan=False, allow_infinity=False)
SHARES = st.floats(0, 1)


@st.composite
def attributions(draw):
    """Draw an attribution with any value in every field."""
    words = tuple(draw(st.lists(WORDS, min_size=2, max_size=5)))
    count = len(words)
    positions = st.sampled_from(list(combinations(range(count), 2)))
    tokens = tuple(draw(st.lists(NAMES, max_size=4)))
    starts = draw(st.lists(st.integers(0, 99), min_size=count, max_size=count))
    pair_start = draw(st.none() | st.integers(1, count - 1))
    pairs = []
    for first, second in draw(st.lists(positions, max_size=3)):
        pair = (words[first], words[second])
        pairs.append(Interaction(words=pair, positions=(first, second), value=draw(NUMBERS)))
    certificate = st.builds(
        Certificate,
        words=st.just(("fine", "film")),
        effect=st.floats(-9, 9),
        bound=st.floats(0, 9),
        familiar=st.booleans(),
    )
    fields = {
        "example_id": draw(NAMES | st.just("")),
        "method": draw(NAMES),
        "target": draw(NAMES),
        "predicted": draw(NAMES),
        "probability": draw(SHARES | st.just(math.nan)),
        "value": draw(st.none() | NUMBERS),
        "words": words,
        "scores": np.array(draw(st.lists(SCORES | st.just(math.nan), min_size=count, max_size=count)), np.float32),
        "tokens": tokens,
        "token_scores": np.array(draw(st.lists(SCORES, min_size=len(tokens), max_size=len(tokens))), np.float32),
        "aggregation": draw(st.sampled_from(["max", "sum"])),
        "signed": draw(st.booleans()),
        "unaligned": draw(st.integers(0, count)),
        "seconds": draw(st.floats(0, 1e6)),
        "completeness_error": draw(st.none() | NUMBERS),
        "windows": draw(st.integers(1, 9)),
        "spans": draw(st.sampled_from([(), tuple((start, start + 1) for start in starts)])),
        "gaps": draw(st.sampled_from([(), (" ", *"\t" * (count + (pair_start is not None)))])),
        "pair_start": pair_start,
        "certificate": draw(st.none() | certificate),
        "unit": draw(st.sampled_from(["word", "token", "phrase", "sentence", "span"])),
        "focus": draw(st.none() | positions),
        "interactions": tuple(pairs),
    }
    assert set(fields) == {field.name for field in dataclasses.fields(Attribution)}
    return Attribution(**fields)


def assert_same(actual, expected):
    for field in dataclasses.fields(Attribution):
        one = getattr(actual, field.name)
        other = getattr(expected, field.name)
        assert type(one) is type(other), field.name
        if isinstance(other, np.ndarray):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        elif not (isinstance(other, float) and math.isnan(other) and math.isnan(one)):
            assert one == other, field.name


class TestRoundTrips:
    @settings(max_examples=50, deadline=None)
    @given(attributions())
    def test_json(self, expected):
        document = json.loads(json.dumps(expected.to_dict(), allow_nan=False))
        assert_same(Attribution.from_dict(document), expected)

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(attributions(), max_size=3, unique_by=lambda one: (one.example_id, one.target)))
    def test_parquet(self, tmp_path, expected):
        write_attributions(tmp_path / "a.parquet", expected)
        for actual, one in zip(read_attributions(tmp_path / "a.parquet"), expected, strict=True):
            assert_same(actual, one)

    def test_all_formats_have_the_same_fields(self):
        names = ["id" if f.name == "example_id" else f.name for f in dataclasses.fields(Attribution)]
        assert list(unread().to_dict()) == ATTRIBUTION_SCHEMA.names == names


MINIMUM = {"words": ["a", "b"], "scores": [1, -2.5], "target": "yes", "method": "theirs"}


class TestRecordsFromElsewhere:
    def test_need_words_scores_target_and_method_alone(self):
        actual = Attribution.from_dict(MINIMUM | {"their_own": 3})
        assert actual.scores.tolist() == [1, -2.5]
        assert actual.signed and actual.tokens == () and actual.predicted == "yes" and np.isnan(actual.probability)

    @pytest.mark.parametrize("name", list(MINIMUM))
    def test_name_the_field_that_is_missing(self, name):
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
            (
                {"certificate": {"bound": -1}},
                "field 'certificate.bound': got -1",
            ),
            (
                {"interactions": [{"words": ["b", "a"], "positions": [1, 0], "value": 1}]},
                "field 'interactions', pair 0: got",
            ),
        ],
        ids=lambda value: str(value)[:40],
    )
    def test_name_the_field_that_cannot_be_used(self, change, sentence):
        with pytest.raises(DataError, match=sentence):
            Attribution.from_dict(MINIMUM | change)


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
        assert line == "m for 'yes' (p = 0.750): fine +0.250, a -0.500 (1 of 3 words were not read)"
        assert "off by 0.25, 33% of their absolute sum" in str(unread(completeness_error=0.25))


def test_a_short_repr():
    assert repr(unread()) == "Attribution(method='m', target='yes', words=3, probability=0.75)"
    assert repr(unread(probability=math.nan, value=1.5)) == "Attribution(method='m', target='yes', words=3, value=1.5)"

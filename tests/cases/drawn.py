"""Attributions with any value in every field."""

import dataclasses
import math
from itertools import combinations

import numpy as np
from hypothesis import strategies as st

from explearn import Attribution, Certificate, Interaction
from explearn.core.attribution_fields import ClassProbability

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
WORDS = st.text(st.characters(exclude_categories=["Cs", "Z", "C"]), min_size=1, max_size=5)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
SCORES = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def attributions(draw):
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
    classes = st.builds(ClassProbability, label=NAMES, probability=st.floats(0, 1))
    fields = {
        "example_id": draw(NAMES | st.just("")),
        "method": draw(NAMES),
        "target": draw(NAMES),
        "predicted": draw(NAMES),
        "probability": draw(st.floats(0, 1) | st.just(math.nan)),
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
        "output": draw(st.sampled_from(["", "logit", "probability", "log_probability"])),
        "classes": tuple(draw(st.lists(classes, max_size=3))),
        "without_words": draw(st.floats(0, 1) | st.just(math.nan)),
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

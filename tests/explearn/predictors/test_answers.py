"""A predictor's answers: each distinct input is asked about once."""

import numpy as np
import pytest
from fakes import FakeClassifier, random_probability

from explearn.predictors import answers
from explearn.predictors.answers import Answers


@pytest.mark.parametrize(("most", "asked"), [(2**16, [2, 1]), (1, [2, 2])])
def test_an_input_is_asked_about_once_as_long_as_there_is_room(most, asked, monkeypatch):
    monkeypatch.setattr(answers, "MOST_KEPT", most)
    classifier = FakeClassifier(random_probability)
    kept = Answers(classifier)
    texts = ["a b", "a", "a b"]
    first = kept.ask(texts)
    np.testing.assert_allclose(first, [random_probability(encoding) for encoding in classifier.encode(texts)])
    np.testing.assert_array_equal(kept.ask(["a", "b"])[0], first[1])
    assert [len(call) for call in classifier.calls] == asked

"""Probabilities of label words, from the likeliest tokens of an answer."""

import pytest
from prompt_cases import place

from explearn.predictors.llm.labels import label_named, label_probabilities
from explearn.predictors.llm.server.transport import TokenPosition

VERY = ["very good", "very bad", "neutral"]


def probabilities(words, *positions):
    """Of positions token -> probability, the first of which was taken."""
    return label_probabilities([TokenPosition.model_validate(place(likely)) for likely in positions], words)


@pytest.mark.parametrize(
    ("words", "positions", "expected"),
    [
        (["bad", "good"], [{" Good": 0.5, "good": 0.1, "bad": 0.2, "?": 0.2}], [0.25, 0.75]),  # in any spelling
        # The first token that tells labels apart counts.
        (VERY, [{"very": 0.8, "neutral": 0.2}, {" good": 0.7, " bad": 0.3}], [0.56, 0.24, 0.2]),
        (VERY, [{"neutral": 0.6, "very": 0.4}], [0.2, 0.2, 0.6]),  # a common start that was not taken is divided
        (["bad", "good"], [{"good": 0.9, "?": 0.1}], [0.1, 0.9]),  # beyond the likeliest tokens: the least of them
    ],
)
def test_a_label_has_the_probability_of_its_tokens(words, positions, expected):
    assert probabilities(words, *positions) == pytest.approx(expected)


def test_without_any_label_there_are_none():
    assert probabilities(["bad", "good"], {"perhaps": 0.9, "?": 0.1}) is None


def test_an_answer_names_the_label_that_it_begins_with():
    answers = ["**Good**, on the whole", "bad", "goods", "not good"]
    assert [label_named(answer, ["bad", "good"]) for answer in answers] == [1, 0, None, None]

"""The words of texts as elements name them, and facts about many texts."""

import numpy as np
import pytest

from explearn import Example
from explearn.text.scored import ScoredText, Vocabulary


def text(words, shares=None):
    return ScoredText(Example("t", tuple(words.split()), "yes", "test", "films"), shares)


def test_keys_have_no_case_and_no_punctuation_around_them():
    assert text("(Good) don't STRASSE ...").keys == ("good", "don't", "strasse", "...")


def test_a_vocabulary_has_the_median_length_and_mean_shares_of_explained_texts():
    texts = [text("good film", np.array([0.75, 0.25])), text("Good", np.array([-1.0])), text("a b c d")]
    vocabulary = Vocabulary.from_texts(texts)
    assert vocabulary.length == 2
    assert vocabulary.shares == pytest.approx({"good": -0.125, "film": 0.25})
    assert vocabulary.strongest(["good", "film", "unknown"]) == "film"


def test_function_words_are_the_thirty_most_frequent():
    words = [f"w{number:02}" for number in range(40)]
    texts = [text(" ".join(words[: number + 1])) for number in range(40)]
    assert Vocabulary.from_texts(texts).function_words == frozenset(words[:30])


def test_the_strongest_words_are_those_with_the_highest_shares_first():
    assert text("a b c d", np.array([0.1, 0.4, -0.5, 0.4])).strongest(3) == [1, 3, 0]


def test_words_put_in_keep_the_white_space():
    assert text("a b").having(["x", "y"], 1) == "a x y b"
    assert text("a b").having(["x"], 2) == "a b x"

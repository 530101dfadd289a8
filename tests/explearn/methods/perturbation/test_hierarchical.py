"""Hierarchical occlusion: sentences, then the words inside the best ones."""

import numpy as np
import pytest

import explearn

SENTENCE = "nothing of note happens in the first half of it."


class Counting:
    """A film is good by one word and bad by another; counts the texts it is asked about."""

    def __init__(self):
        self.asked = 0

    def __call__(self, texts):
        self.asked += len(texts)
        good = [0.5 + 0.4 * ("splendid" in text) - 0.3 * ("dull" in text) for text in texts]
        return [[1 - p, p] for p in good]

    def predictor(self):
        return explearn.FunctionPredictor(self, ["bad", "good"])


def test_a_text_with_a_pass_for_each_word_gets_occlusion():
    function = Counting()
    text = "a splendid film . it is dull"
    found = explearn.explain(function.predictor(), text, "hierarchical")
    expected = explearn.explain(function.predictor(), text, "occlusion", removal="delete")
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)


@pytest.mark.parametrize("passes", [12, 30, 60])
def test_a_long_text_takes_no_more_than_the_passes(passes):
    function = Counting()
    text = " ".join([SENTENCE] * 5 + ["but the splendid cast carries it."] + [SENTENCE] * 5)
    found = explearn.explain(function.predictor(), text, "hierarchical", passes=passes)
    assert len(found.words) > 100 and function.asked <= passes
    best = [word for word, score in zip(found.words, found.scores, strict=True) if score == found.scores.max()]
    if passes == 12:  # one for the text, one for each sentence
        assert best == ["but", "the", "splendid", "cast", "carries", "it."]
    else:
        assert best == ["splendid"] and found.scores.max() == pytest.approx(0.4)


def test_words_of_which_any_suffices_are_found():
    """Five sentences say the same: no word, and no sentence, changes the answer by itself."""

    def predict_proba(texts):
        count = np.array([text.count("splendid") for text in texts])
        p = 1 / (1 + np.exp(2 - 2 * count))
        return np.stack([1 - p, p], axis=1)

    classifier = explearn.FunctionPredictor(predict_proba, ["bad", "good"])
    text = " ".join([SENTENCE, "but the splendid cast carries most of it."] * 5)
    found = explearn.explain(classifier, text, "hierarchical")
    best = np.argsort(-found.scores)[:5]
    assert {found.words[word] for word in best} == {"splendid"}
    assert explearn.explain(classifier, text, "occlusion", removal="delete").scores.max() < 0.01


def test_more_sentences_than_passes_are_joined():
    function = Counting()
    explearn.explain(function.predictor(), "it is. " * 40 + "splendid.", "hierarchical", passes=10)
    assert function.asked <= 10

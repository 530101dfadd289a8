"""SLALOM: a classifier that is one is found out, value by value and weight by weight."""

import numpy as np
import pytest
import tiny
from scipy.special import expit, logit, softmax

import explearn
from explearn.methods.perturbation.method import AskedText, PerturbedText
from explearn.methods.perturbation.slalom import draw_sets, fit_slalom, log_odds
from explearn.predictors.answers import Answers

WORDS = ["a", "warm", "but", "rather", "slow", "and", "not", "quite", "funny", "sequel"]
VALUES = np.array([0.1, 2.5, -0.3, 0.4, -2.0, 0.0, -1.5, 0.2, 1.8, -0.6])
WEIGHTS = np.array([-1.2, 0.9, 0.3, -0.5, 1.1, -0.9, 1.4, -0.7, 0.6, -1.0])
"""They add up to 0."""


def odds(words):
    at = [WORDS.index(word) for word in words]
    return float(softmax(WEIGHTS[at]) @ VALUES[at])


def of_three_classes():
    """The last class has the odds of a SLALOM; the others share the rest."""

    def predict_proba(texts):
        p = expit([odds(text.split()) for text in texts])
        return np.stack([0.3 * (1 - p), 0.7 * (1 - p), p], axis=1)

    return explearn.FunctionPredictor(predict_proba, ["bad", "fair", "good"])


@pytest.mark.parametrize("sets", ["short", "deletion"])
def test_value_and_weight_of_each_word_are_found(sets):
    shares = softmax(WEIGHTS)
    expected = {"value": VALUES, "weight": WEIGHTS, "linear": shares * VALUES}
    expected["removal"] = [odds(WORDS) - odds(WORDS[:i] + WORDS[i + 1 :]) for i in range(len(WORDS))]
    for score, wanted in expected.items():
        method = explearn.get_explainer("slalom", sets=sets, score=score, ridge=0)
        (found,) = method.explain(of_three_classes(), [" ".join(WORDS)], ["good"])
        np.testing.assert_allclose(found.scores, wanted, atol=1e-5)
    assert sum(expected["linear"]) == pytest.approx(odds(WORDS))


def test_the_penalty_makes_weights_alike_and_leaves_values():
    kept = draw_sets(len(WORDS), 400, "short", np.random.default_rng(0))
    wanted = np.array([odds(np.array(WORDS)[row]) for row in kept])
    sizes = []
    for ridge in (0.0, 0.001, 0.1, 100.0):
        values, weights = fit_slalom(kept, wanted, ridge)
        assert np.corrcoef(values, VALUES)[0, 1] > 0.9 and abs(weights.sum()) < 1e-9
        sizes.append(np.abs(weights).max())
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] < 0.01 < 0.8 * sizes[0] < sizes[1]


@pytest.mark.parametrize("words", [1, 2, 4, 30])
def test_sets_are_short_or_lack_few_words(words):
    rng = np.random.default_rng(0)
    short = draw_sets(words, 60, "short", rng).sum(1)
    assert short.min() == 1 and short.max() == min(3, words)
    deletion = draw_sets(words, 60, "deletion", rng).sum(1)
    assert deletion.min() == max(1, words - 5) and deletion.max() == words


def test_a_word_alone_has_its_log_odds_for_a_value():
    values, weights = fit_slalom(np.ones((4, 1), dtype=bool), np.full(4, 1.5), 0.01)
    assert values == pytest.approx([1.5]) and weights.tolist() == [0]
    (found,) = explearn.get_explainer("slalom", score="removal").explain(of_three_classes(), ["warm"], ["good"])
    assert found.scores.tolist() == [0]


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_log_odds_are_of_the_class_against_all_others(classes):
    of = tiny.classifier("bert", classes)
    (encoding,) = of.encode([tiny.TEXTS[0]])
    asked = AskedText(PerturbedText(encoding, 0), Answers(of), 1, "delete")
    kept = np.eye(len(asked.text), dtype=bool)
    np.testing.assert_allclose(log_odds(asked, kept), logit(asked.values(kept)), rtol=1e-5, atol=1e-6)

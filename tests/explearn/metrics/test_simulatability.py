"""Simulatability: students that explanations should, and should not, help."""

import numpy as np
import pytest

from explearn import DataError
from explearn.metrics.params import SimulatabilityParams
from explearn.metrics.simulatability import simulatability, to_simplex

QUICK = SimulatabilityParams(repeats=2, dimensions=16)


def world(texts=60):
    """One word of each text, of a few for each class, says its class; the others are drawn from many."""
    rng = np.random.default_rng(0)
    vocabulary = rng.normal(size=(200, 24))
    embeddings = []
    classes = []
    telling = []
    for number in range(texts):
        ids = rng.integers(10, 200, size=16 - number % 3)
        place = rng.integers(len(ids))
        label = number % 2
        ids[place] = 5 * label + rng.integers(5)
        embeddings.append(vocabulary[ids])
        classes.append(label)
        telling.append(np.eye(len(ids))[place])
    return embeddings, classes, telling


def test_explanations_that_name_the_word_help_and_those_that_name_others_do_not():
    embeddings, classes, telling = world()
    misleading = [1 - t for t in telling]
    actual = simulatability(embeddings, classes, {"good": telling, "bad": misleading}, QUICK)
    assert actual["good"].with_explanations.mean() > actual["good"].without.mean() + 0.1
    assert actual["good"].gain.mean() > actual["bad"].gain.mean() + 0.1
    assert actual["good"].gain == pytest.approx(actual["good"].with_explanations - actual["good"].without)


def test_students_taught_with_no_weight_on_explanations_are_those_taught_without():
    embeddings, classes, telling = world(20)
    actual = simulatability(embeddings, classes, {"m": telling}, QUICK.model_copy(update={"weight": 0.0}))["m"]
    assert (actual.gain == 0).all()


def test_results_depend_on_the_seed_and_not_on_the_other_methods():
    embeddings, classes, telling = world(24)
    both = simulatability(embeddings, classes, {"a": telling, "b": telling[:]}, QUICK, seed=5)
    alone = simulatability(embeddings, classes, {"a": telling}, QUICK, seed=5)
    assert (both["a"].with_explanations == alone["a"].with_explanations).all()
    assert (both["b"].with_explanations == alone["a"].with_explanations).all()
    other = simulatability(embeddings, classes, {"a": telling}, QUICK, seed=6)["a"]
    assert (other.with_explanations != alone["a"].with_explanations).any()


def test_words_that_the_classifier_does_not_know_are_passed_over():
    embeddings, classes, telling = world(12)
    embeddings[0] = np.full_like(embeddings[0], np.nan)
    embeddings[1] = np.where(np.arange(len(embeddings[1]))[:, None] == 0, np.nan, embeddings[1])
    actual = simulatability(embeddings, classes, {"m": telling}, QUICK)["m"]
    assert np.isfinite(actual.gain).all()


def test_shares_by_hand():
    assert to_simplex([1, -5, 3]) == pytest.approx([0.25, 0, 0.75])
    assert to_simplex([-1, 0]) == pytest.approx([0.5, 0.5])


def test_bad_input_is_named():
    embeddings, classes, telling = world(4)
    for arguments, message in (
        ((embeddings[:1], classes[:1], {"m": telling[:1]}), "at least one for each of 2 folds"),
        (([np.full((3, 2), np.nan)] * 2, [0, 1], {"m": [[1, 2, 3]] * 2}), "no word has an embedding"),
    ):
        with pytest.raises(DataError, match=message):
            simulatability(*arguments, QUICK)


def test_students_are_not_tested_on_a_text_equal_to_one_that_they_learned_from():
    embeddings, classes, telling = world(60)
    classes = np.random.default_rng(3).integers(2, size=60).tolist()  # nothing to learn from
    repeated = embeddings * 3, classes * 3, {"m": telling * 3}, QUICK
    known = simulatability(*repeated)["m"].without.mean()
    unknown = simulatability(*repeated, same=[*range(60)] * 3)["m"].without.mean()
    assert known > 0.75
    assert unknown < 0.65
    with pytest.raises(DataError, match="1 different texts; expected at least one for each of 2 folds"):
        simulatability(embeddings, classes, {"m": telling}, QUICK, same=["one"] * 60)

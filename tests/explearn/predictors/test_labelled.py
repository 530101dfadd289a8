"""Classes by name and by index, and answers that are numbers."""

import numpy as np
import pytest
import tiny
import torch

from explearn import ModelError, ParamsError, Problem, UnknownNameError, get_explainer
from explearn.predictors.labelled import check_segments


@pytest.mark.parametrize("problem", [Problem.SINGLE_LABEL, Problem.BINARY, Problem.MULTI_LABEL])
def test_torch_and_numpy_give_the_same_probabilities(problem):
    logits = np.array([[-2.0, 2.0], [0.5, -0.5]])
    sigmoids = 1 / (1 + np.exp(-logits))
    expected = sigmoids
    if problem is Problem.SINGLE_LABEL:
        expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(problem.probabilities_of(logits), expected)
    np.testing.assert_allclose(problem.probabilities(torch.tensor(logits)), expected)
    np.testing.assert_allclose(problem.log_probabilities(torch.tensor(logits)), np.log(expected))


def test_labels_by_name_and_by_index():
    of = tiny.classifier("bert", 3)
    assert [of.label_index(target) for target in ("fair", 1, "bad", 0)] == [1, 1, 0, 0]
    for target, words in (("goood", "'goood'; did you mean good?"), (3, "'3'; known: 0, 1, 2."), (-1, "index '-1'")):
        with pytest.raises(UnknownNameError, match=f"unknown class.*{words}"):
            of.label_index(target)


def test_texts_with_their_labels_are_not_taken_for_pairs():
    texts = [("a warm film", "yes"), ("a dull film", "no")]
    with pytest.raises(ParamsError, match=r"each second segment is the name of a class \(no, yes\)"):
        check_segments(["no", "yes"], texts)
    check_segments(["no", "yes"], texts[:1])
    check_segments(["no", "yes"], [*texts, "a third"])


def test_nothing_is_predicted_or_explained_from_logits_that_are_not_finite():
    of = tiny.make_classifier()
    of.model.classifier.weight.data[0] = float("nan")  # in the head alone, so that attention stays finite
    calls = [lambda: of.predict(["the quick fox"])]
    for name in ("attention_flow", "rollout", "random", "input_x_gradient"):
        calls.append(lambda name=name: get_explainer(name).explain(of, ["the quick fox"]))
    for call in calls:
        with pytest.raises(ModelError, match="gave a logit that is not finite"):
            call()

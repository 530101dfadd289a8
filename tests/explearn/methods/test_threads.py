"""One thread explains while another predicts with the same classifier."""

import random
import threading
from contextlib import contextmanager

import numpy as np
import pytest
import tiny
import torch

TEXTS = list(tiny.TEXTS[:3])


@contextmanager
def predicting(of, expected, actual):
    """Predict in another thread for as long as the block takes; what is not as expected goes into `found`."""
    over = threading.Event()
    encodings = of.encode(TEXTS)
    rounds = 0

    def predict():
        nonlocal rounds
        try:
            while not over.is_set():
                rounds += 1
                if not np.array_equal(of.predict_proba(encodings), expected):
                    actual.append("a prediction is another one")
                if of.model.training or of.model.config._attn_implementation != implementation:
                    actual.append("the model's mode or attention is another one")
                if any(parameter.requires_grad for parameter in of.model.parameters()):
                    actual.append("a parameter takes gradients")
                if torch.is_inference_mode_enabled() or not torch.is_grad_enabled():
                    actual.append("gradients are off")
        except Exception as error:
            actual.append(repr(error))

    implementation = of.model.config._attn_implementation
    thread = threading.Thread(target=predict)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert rounds > 0


@pytest.mark.parametrize("name", ["attn_lrp", "gae", "integrated_gradients", "lime", "lrp", "raw_attention", "shap"])
def test_explaining_in_one_thread_leaves_predictions_of_another_alone(name):
    of = tiny.make_classifier("bert", 3)
    method = tiny.quick(name)
    expected = of.predict_proba(TEXTS)
    alone = method.explain(of, TEXTS)
    before = torch.random.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    actual = []
    with predicting(of, expected, actual):
        together = method.explain(of, TEXTS)
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_array_equal(one.scores, other.scores)
    assert not actual
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert (np.random.get_state()[1].tolist(), random.getstate()) == before[1:]


@pytest.mark.parametrize("name", ["kernel_shap", "gradient_shap", "deep_lift", "rollout"])
def test_two_threads_explain_as_one_does(name):
    of = tiny.make_classifier("bert", 3)
    alone = [one.scores for one in tiny.quick(name).explain(of, TEXTS)]
    actual = []

    def explain():
        mine = tiny.quick(name)
        for _ in range(3):
            actual.append([one.scores for one in mine.explain(of, TEXTS)])

    threads = [threading.Thread(target=explain) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(actual) == 6
    for scores in actual:
        for one, other in zip(scores, alone, strict=True):
            np.testing.assert_array_equal(one, other)

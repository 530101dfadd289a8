from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import InputXGradient

import explearn
import tiny
from explearn.errors import ParamsError

OUTPUTS = {
    "logit": lambda logits: logits,
    "probability": lambda logits: logits.softmax(-1),
    "log_probability": lambda logits: logits.log_softmax(-1),
}
TEXTS: list[Any] = [*tiny.TEXTS, *tiny.PAIRS]


def embedded(of: explearn.Classifier, text: Any) -> tuple[Any, torch.Tensor, Any]:
    """A text's encoding, its word embeddings, and the function from those to logits, without padding."""
    (encoding,) = of.encode([text])
    batch = of.batch([encoding])
    inputs = {name: value for name, value in batch.model_inputs().items() if name != "input_ids"}
    embeddings = of.model.get_input_embeddings()(batch.input_ids).detach()
    return encoding, embeddings, lambda e: of.model(inputs_embeds=e, **inputs).logits


def close(found: np.ndarray, expected: torch.Tensor) -> None:
    expected = expected.detach()
    np.testing.assert_allclose(found, expected, atol=1e-6 * max(1.0, float(expected.abs().max())))


@functools.cache
def double_classifier(kind: str) -> explearn.Classifier:
    """In float64, where padding and batches do not show in the last digits."""
    of = tiny.make_classifier(kind, 3)
    of.model.double()
    return of


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
class TestInputXGradient:
    def test_is_the_gradient_times_the_embedding(self, kind: str, output: str) -> None:
        """By torch's autograd, for every class of every text."""
        of = double_classifier(kind)
        for target in range(3):
            found = explearn.get_explainer("input_x_gradient", output=output).explain(of, TEXTS, [target] * len(TEXTS))
            for attribution, text in zip(found, TEXTS, strict=True):
                encoding, embeddings, forward = embedded(of, text)
                embeddings.requires_grad_(True)
                (gradient,) = torch.autograd.grad(OUTPUTS[output](forward(embeddings))[0, target], embeddings)
                close(attribution.token_scores, (gradient * embeddings).sum(-1)[0][encoding.positions])

    def test_is_what_captum_gives(self, kind: str, output: str) -> None:
        of = double_classifier(kind)
        for attribution, text in zip(
            explearn.get_explainer("input_x_gradient", output=output).explain(of, TEXTS), TEXTS, strict=True
        ):
            encoding, embeddings, forward = embedded(of, text)
            method = InputXGradient(lambda e, forward=forward: OUTPUTS[output](forward(e)))
            products = method.attribute(embeddings.requires_grad_(True), target=of.labels.index(attribution.target))
            close(attribution.token_scores, products.sum(-1)[0][encoding.positions])


def test_words_sum_their_pieces() -> None:
    of = tiny.classifier("roberta")
    (found,) = explearn.get_explainer("input_x_gradient").explain(of, ["unbelievably"])
    assert len(found.tokens) > 1
    assert found.scores[0] == pytest.approx(float(found.token_scores.sum()), rel=1e-5)


def test_the_probabilities_of_two_classes_pull_against_each_other() -> None:
    """p_0 + p_1 = 1, so their gradients are opposite."""
    of = tiny.classifier("bert", 2)
    method = explearn.get_explainer("input_x_gradient", output="probability")
    for a, b in zip(method.explain(of, tiny.TEXTS, [0] * 5), method.explain(of, tiny.TEXTS, [1] * 5), strict=True):
        np.testing.assert_allclose(a.scores, -b.scores, atol=1e-6)


def test_an_output_that_is_not_known() -> None:
    with pytest.raises(ParamsError, match="output: got 'logits'; expected one of logit, probability, log_probability"):
        explearn.get_explainer("input_x_gradient", output="logits")

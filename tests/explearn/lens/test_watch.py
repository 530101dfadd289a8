"""Gradients at attention and hidden states equal those of autograd through the model's own written-out attention."""

import copy

import pytest
import tiny
import torch

from explearn.lens.watch import differentiate

KINDS = tiny.SEEN
IN_FLOAT32 = ("gemma2", "mixtral", "phimoe", "qwen2_moe", "qwen3_moe")
"""transformers has no float64 of mixtures of experts, nor of masks behind Gemma 2's cap on attention logits."""
PARTS = ("attentions", "attention_gradients", "inputs", "input_gradients")


def double(kind):
    """In float64 where the model has it, so that rounding hides nothing."""
    of = tiny.classifier(kind, 3)
    model = copy.deepcopy(of.model)
    return of.with_model(model if kind in IN_FLOAT32 else model.double())


@pytest.mark.parametrize("kind", KINDS)
def test_values_and_gradients_equal_those_of_the_eager_model(kind):
    of = double(kind)
    # These take the softmax in float32 whatever the precision of the weights, where they write it out.
    tolerance = 1e-5
    if kind in (*tiny.ARCHITECTURES, "deberta-v2", "mpnet", "gpt2"):
        tolerance = 1e-10
    elif kind in IN_FLOAT32:
        tolerance = 1e-4
    texts = [*tiny.TEXTS[:2], tiny.PAIRS[0]]
    targets = [0, 1, 2]
    batch = tiny.batch(of, texts)
    whole = differentiate(of, batch, torch.tensor(targets), attentions=True, inputs=True)
    padding = batch.attention_mask == 0
    for layer in range(tiny.LAYERS):
        assert (whole.attentions[layer].transpose(1, 3)[padding] == 0).all() or kind in ("deberta-v2", "gemma2")
        assert (whole.attention_gradients[layer].transpose(1, 2)[padding] == 0).all()
        assert (whole.input_gradients[layer][padding] == 0).all()
    for row, (text, target) in enumerate(zip(texts, targets, strict=True)):
        expected = tiny.eager_gradients(of, text, target)
        n = expected.inputs[0].shape[1]
        torch.testing.assert_close(whole.logits[row], expected.logits[0], atol=tolerance, rtol=tolerance)
        for layer in range(tiny.LAYERS):
            # No gradient is asked for where nothing is attended to.
            seen = expected.attentions[layer][0] > 0
            for name in PARTS:
                actual = getattr(whole, name)[layer][row]
                wanted = getattr(expected, name)[layer][0]
                if "attention" in name:
                    actual = actual[:, :n, :n][seen]
                    wanted = wanted[seen]
                else:
                    actual = actual[:n]
                torch.testing.assert_close(actual, wanted, atol=tolerance, rtol=tolerance)
                assert actual.abs().max() > 1e-4

"""Gradients at attention and hidden states equal those of autograd through the model's own written-out attention."""

import copy

import pytest
import tiny
import torch

from explearn.lens.watch import differentiate, watch

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


@pytest.mark.parametrize("kind", ["bert", "albert", "modernbert", "gpt2"])
def test_embeddings_words_and_states_are_the_model_s(kind):
    of = tiny.classifier(kind, 3)
    batch = tiny.batch(of)
    with torch.inference_mode():
        run = watch(of, batch)
        whole = of.model(**batch.model_inputs(), output_hidden_states=True)
    real = batch.attention_mask.bool()
    words = of.model.get_input_embeddings()(batch.input_ids)
    if kind == "modernbert":
        words = of.model.model.embeddings.norm(words)
    assert run.words is not None and torch.equal(run.words, words)
    torch.testing.assert_close(run.states[real], whole.hidden_states[-1][real], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(run.inputs[0][real], whole.hidden_states[0][real], atol=1e-5, rtol=1e-5)
    if kind != "albert":  # a projection stands between
        assert torch.equal(run.embedded, run.inputs[0])


def test_the_predicted_class_is_explained_by_default_and_only_what_is_asked_for_is_there():
    of = double("bert")
    batch = tiny.batch(of)
    actual = differentiate(of, batch, None, inputs=True)
    assert torch.equal(actual.targets, actual.logits.argmax(-1)) and actual.attention_gradients == ()
    named = differentiate(of, batch, actual.targets, inputs=True)
    torch.testing.assert_close(actual.input_gradients, named.input_gradients, atol=0, rtol=0)
    assert differentiate(of, batch, None, attentions=True).input_gradients == ()

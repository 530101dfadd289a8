"""Gradients taken part by part equal those of the model's own written-out attention."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from rounding import assert_close

import explearn
from explearn.core.errors import UnsupportedError
from explearn.lens.gradients import content_mask, differentiate
from explearn.model.classifier import Classifier

TEXTS = {"single": tiny.TEXTS, "pairs": tiny.PAIRS}


def make(kind: str, classes: int = 3) -> Any:
    """In float64, so that rounding hides nothing."""
    of = tiny.make_classifier(kind, classes)
    of.model.double()
    return of


def eager_gradients(of: Any, batch: Any, targets: list[int]) -> tuple[list[torch.Tensor], ...]:
    """Attentions, their gradients, inputs of the blocks, their gradients, from transformers' eager attention."""
    inputs = batch.model_inputs()
    embedded = of.model.get_input_embeddings()(inputs.pop("input_ids")).requires_grad_()
    with tiny.eager(of.model):
        found = of.model(inputs_embeds=embedded, **inputs, output_attentions=True, output_hidden_states=True)
    attentions, states = list(found.attentions), list(found.hidden_states[:-1])
    explained = found.logits[range(len(targets)), targets].sum()
    gradients = torch.autograd.grad(explained, [*attentions, *states])
    return attentions, list(gradients[: len(attentions)]), states, list(gradients[len(attentions) :])


@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
def test_values_and_gradients_equal_those_of_the_eager_model(kind: str, texts: str) -> None:
    of = make(kind)
    batch = of.batch(of.encode(TEXTS[texts]))
    targets = [i % 3 for i in range(len(batch))]
    found = differentiate(of, batch, torch.tensor(targets), attentions=True, inputs=True)
    mask = batch.attention_mask.bool()
    pairs = (mask[:, :, None] & mask[:, None])[:, None].expand(-1, tiny.HEADS, -1, -1)
    expected = eager_gradients(of, batch, targets)
    parts = (found.attentions, found.attention_gradients, found.inputs, found.input_gradients)
    for part, reference, real in zip(parts, expected, (pairs, pairs, mask, mask), strict=True):
        assert len(part) == len(reference) == tiny.LAYERS
        for ours, theirs in zip(part, reference, strict=True):
            assert_close(ours[real], theirs[real])
            assert ours[real].abs().max() > 1e-4
    with torch.inference_mode():
        torch.testing.assert_close(found.logits, of.model(**batch.model_inputs()).logits)


@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
def test_padding_has_no_attention_and_no_gradient(kind: str) -> None:
    of = make(kind)
    batch = of.batch(of.encode(tiny.TEXTS))
    found = differentiate(of, batch, None, attentions=True, inputs=True)
    padding = batch.attention_mask == 0
    for attention, gradient, inputs in zip(
        found.attentions, found.attention_gradients, found.input_gradients, strict=True
    ):
        assert (attention.transpose(1, 3)[padding] == 0).all()
        assert (gradient.transpose(1, 2)[padding] == 0).all()
        assert (inputs[padding] == 0).all()


def test_the_predicted_class_is_explained_by_default() -> None:
    of = make("bert")
    batch = of.batch(of.encode(tiny.TEXTS))
    found = differentiate(of, batch, None, inputs=True)
    assert found.targets.tolist() == found.logits.argmax(-1).tolist()
    named = differentiate(of, batch, found.targets, inputs=True)
    torch.testing.assert_close(found.input_gradients, named.input_gradients, atol=0, rtol=0)


@pytest.mark.parametrize("first", [1, -1])
def test_lower_layers_can_be_left_out(first: int) -> None:
    of = make("albert")
    batch = of.batch(of.encode(tiny.TEXTS))
    everything = differentiate(of, batch, None, attentions=True, inputs=True)
    upper = differentiate(of, batch, None, attentions=True, inputs=True, first_layer=first)
    for name in ("attentions", "attention_gradients", "inputs", "input_gradients"):
        torch.testing.assert_close(getattr(upper, name), getattr(everything, name)[first:])
    torch.testing.assert_close(upper.logits, everything.logits)


def test_only_the_gradients_asked_for_are_there() -> None:
    of = make("bert")
    batch = of.batch(of.encode(tiny.TEXTS))
    assert differentiate(of, batch, None, attentions=True).input_gradients == ()
    assert differentiate(of, batch, None, inputs=True).attention_gradients == ()


@pytest.mark.parametrize("around", [nullcontext, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
def test_nothing_is_left_on_the_model_nor_on_the_results(kind: str, around: Any) -> None:
    of = tiny.make_classifier(kind)
    before = of.model.config._attn_implementation
    with around():
        batch = of.batch(of.encode(tiny.TEXTS))
        found = differentiate(of, batch, torch.zeros(len(batch), dtype=torch.int64), attentions=True, inputs=True)
    tensors = (*found.attentions, *found.attention_gradients, *found.inputs, *found.input_gradients, found.logits)
    assert not any(t.requires_grad for t in tensors)
    assert tiny.hooks(of.model) == 0
    assert of.model.config._attn_implementation == before
    assert not any(p.requires_grad or p.grad is not None for p in of.model.parameters())


def test_an_exception_leaves_autograd_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    of = tiny.make_classifier("bert", precision="bf16")

    def fail(*_: object) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(of.model.classifier, "forward", fail)
    batch = of.batch(of.encode(tiny.TEXTS))
    with torch.no_grad():
        with pytest.raises(RuntimeError, match="no memory"):
            differentiate(of, batch, None, attentions=True)
        assert not torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
    assert tiny.hooks(of.model) == 0


@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
def test_low_precision_gives_finite_float32(kind: str) -> None:
    of = tiny.make_classifier(kind, precision="bf16")
    found = differentiate(of, of.batch(of.encode(tiny.TEXTS)), None, attentions=True, inputs=True)
    for tensor in (found.logits, *found.attentions, *found.attention_gradients, *found.inputs, *found.input_gradients):
        assert tensor.dtype == torch.float32
        assert tensor.isfinite().all()


def test_other_architectures_are_refused() -> None:
    of = tiny.make_classifier("bert")
    of.model.config.model_type = "longformer"
    with pytest.raises(UnsupportedError, match="attention of a 'longformer' model cannot be captured"):
        differentiate(of, of.batch(of.encode(tiny.TEXTS)), None, inputs=True)


@pytest.mark.parametrize("kind", tiny.KINDS_OF_TOKENIZER)
def test_content_is_what_is_neither_special_nor_padding(kind: str) -> None:
    of = tiny.classifier(kind)
    encodings = of.encode(tiny.PAIRS)
    found = content_mask(of.batch(encodings))
    assert [row.nonzero().flatten().tolist() for row in found] == [e.positions for e in encodings]


class TestInferenceMode:
    def test_a_model_loaded_in_it_has_gradients(self, tmp_path: Path) -> None:
        folder = tiny.save(tmp_path)
        with torch.inference_mode():
            of = Classifier.from_pretrained(folder, device="cpu")
        found, expected = (
            explearn.get_explainer("attn_lrp").explain(each, tiny.TEXTS) for each in (of, tiny.classifier("bert"))
        )
        for one, other in zip(found, expected, strict=True):
            assert_close(one.scores, other.scores)

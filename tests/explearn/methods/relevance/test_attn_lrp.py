"""AttnLRP against the gradient of a model whose own parts are held constant, and its rules one by one."""

import copy
from operator import attrgetter

import numpy as np
import pytest
import tiny
import torch
import transformers
from torch import nn

import explearn
from explearn.lens.hooks import Hooks
from explearn.predictors.architectures import blocks_in_order

TEXTS = [*tiny.TEXTS, *tiny.PAIRS]
EXACT = (*tiny.ARCHITECTURES, "xlm-roberta", "deberta-v2", "mpnet", "gpt2")
"""In float64 throughout; the others take softmax and norms in float32 where they write them out."""
KINDS = (*EXACT, "modernbert", "modernbert mean", "llama", "mistral", "qwen2", "gemma")

GATED = {"modernbert": "mlp.Wo", **dict.fromkeys(("llama", "mistral", "qwen2", "gemma"), "mlp.down_proj")}
"""Where a block keeps the linear map behind the product of two maps in its feed-forward layer."""


def double_classifier(kind):
    of = tiny.classifier(kind, 3)
    return of.with_model(copy.deepcopy(of.model).double())


def half(x):
    """x, with half its gradient."""
    return (x + x.detach()) / 2


class DetachedAttention(torch.overrides.TorchFunctionMode):
    """Half the gradient to each operand of a product of two activations; weights and distances have no gradient."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        actual = func(*args, **(kwargs or {}))
        products = (torch.matmul, torch.bmm, torch.Tensor.matmul, torch.Tensor.__matmul__)
        if func in products and all(x.requires_grad for x in args[:2]):
            return half(actual)
        return actual


def detached_norm(module, args, _kwargs, output):
    """Output = centred input * what a constant deviation leaves of it + bias."""
    (x,) = args
    mean = x.mean(-1, keepdim=True) if isinstance(module, nn.LayerNorm) else 0.0
    bias = getattr(module, "bias", None)
    bias = 0.0 if bias is None else bias
    moved = (x - mean).detach()
    slope = torch.where(moved == 0, 0.0, (output - bias) / moved).detach()
    return (x - mean) * slope + bias


def constant(function):
    return lambda *args, **_: args[-1] * (function(*args) / args[-1]).detach()


def detached_rules(of, text, target, monkeypatch):
    """AttnLRP by constants in the model's own parts: e * d f / d e of the embeddings' output, (n,)."""
    model = of.model
    blocks = blocks_in_order(model.base_model)
    starts = []

    def start(x):
        starts.append(x.detach().requires_grad_())
        return starts[0]

    for owner, name in ((torch, "tanh"), (nn.functional, "relu")):
        monkeypatch.setattr(owner, name, constant(getattr(owner, name)))
    for name in ("gelu", "gelu_new", "gelu_pytorch_tanh", "silu"):
        activation = type(transformers.activations.ACT2FN[name])
        monkeypatch.setattr(activation, "forward", constant(activation.forward))
    with Hooks() as hooks, tiny.eager(model), torch.enable_grad(), DetachedAttention():
        if hasattr(model.base_model, "embeddings"):
            hooks.replace(model.base_model.embeddings, start)
        else:
            hooks.before(blocks[0], lambda _m, args, kwargs: ((start(args[0]), *args[1:]), kwargs))
        for module in model.modules():
            if isinstance(module, nn.LayerNorm) or "RMSNorm" in type(module).__name__:
                hooks.after(module, detached_norm)
        if gated := GATED.get(model.config.model_type):
            for block in blocks:
                hooks.before(attrgetter(gated)(block), lambda _m, args, kwargs: ((half(args[0]),), kwargs))
        logits = model(**tiny.batch(of, [text]).model_inputs()).logits
        (gradient,) = torch.autograd.grad(logits[0, target], starts[0])
    monkeypatch.undo()
    return (gradient * starts[0]).sum(-1)[0].detach()


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_the_gradient_of_a_model_whose_parts_are_held_constant(kind, monkeypatch):
    """In a padded batch there, one by one here."""
    of = double_classifier(kind)
    targets = [i % 3 for i in range(len(TEXTS))]
    actual = tiny.score("attn_lrp", of, TEXTS, targets).scores
    tolerance = 1e-9 if kind in EXACT else 1e-4
    for row, text, target in zip(actual, TEXTS, targets, strict=True):
        expected = detached_rules(of, text, target, monkeypatch)
        assert (row[: len(expected)] - expected).abs().max() < tolerance * expected.abs().max()
        assert not row[len(expected) :].any()


@pytest.mark.parametrize("kind", [*KINDS, "eurobert", "gpt_neox", "phi3", "qwen3_moe"])
def test_attention_that_is_written_out_gives_the_same(kind):
    """In inference mode, too."""
    of = tiny.make_classifier(kind)
    fused = explearn.get_explainer("attn_lrp").explain(of, tiny.TEXTS)
    with tiny.eager(of.model), torch.inference_mode():
        written = explearn.get_explainer("attn_lrp").explain(of, tiny.TEXTS)
    for a, b in zip(fused, written, strict=True):
        np.testing.assert_allclose(a.scores, b.scores, atol=1e-4 * np.abs(a.scores).max())


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_half_precision_stays_finite(kind):
    """On a CPU, where ComputeOptions would refuse fp16."""
    of = tiny.make_classifier(kind)
    of.dtype = torch.float16
    scores = tiny.score("attn_lrp", of, TEXTS)
    assert scores.scores.dtype == torch.float32 and torch.isfinite(scores.scores).all()
    expected = tiny.score("attn_lrp", tiny.classifier(kind), TEXTS, scores.targets.tolist()).scores
    gaps = (scores.scores - expected).abs().amax(1) / expected.abs().amax(1)
    assert gaps.median() < 0.05

"""AttnLRP's changed gradients against relevance that is handed down explicitly, part by part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny
import torch
from torch import nn

import explearn
from explearn.lens.anatomy import TracedPass, dissect, merge_heads, split_heads
from explearn.methods.relevance.attn_lrp import changed_backward

TEXTS: list[Any] = [*tiny.TEXTS, *tiny.PAIRS]


def score(of: explearn.TransformerPredictor, texts: Any, targets: Any = None) -> Any:
    wanted = None if targets is None else torch.tensor(targets)
    return explearn.get_explainer("attn_lrp").score_batch(of, of.batch(of.encode(texts)), wanted)


def double_classifier(kind: str, biases: bool = True) -> explearn.TransformerPredictor:
    """In float64; without `biases` all behind the embeddings are 0."""
    of = tiny.make_classifier(kind, 3)
    of.model.double()
    embeddings = {id(p) for p in dissect(of.model).embeddings.parameters()}
    for name, parameter in of.model.named_parameters():
        if not biases and name.endswith("bias") and id(parameter) not in embeddings:
            parameter.zero_()
    return of


class Explicit:
    """Relevance of one text without padding by the paper's equations: each R_in written out from R_out.

    lost: what softmax took and did not hand on, sum(R_out) - sum(R_in), added up over blocks.
    """

    def __init__(self, of: explearn.TransformerPredictor, text: Any, target: int) -> None:
        run = TracedPass.run(of.model, of.batch(of.encode([text])))
        anatomy, hidden, activated = run.anatomy, run.output, run.activated
        self.logit = anatomy.head.classifier(activated)[0, target]
        self.lost = torch.zeros((), dtype=torch.float64)

        logits = torch.zeros(1, 3, dtype=torch.float64)
        logits[0, target] = self.logit
        relevance = self.linear(anatomy.head.classifier, activated, logits)
        first = self.linear(anatomy.head.dense, hidden[:, 0], relevance)
        relevance = torch.zeros_like(hidden)
        relevance[:, 0] = first
        for layer in reversed(range(len(anatomy.blocks))):
            relevance = self.block(anatomy.blocks[layer], run.block(layer), relevance)
        if anatomy.projection is not None:
            relevance = self.linear(anatomy.projection, run.embedded, relevance)
        self.scores = relevance.sum(-1)[0]

    @staticmethod
    def ratio(relevance: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return torch.where(value == 0, 0.0, relevance / value)

    def linear(self, layer: nn.Linear, x: torch.Tensor, relevance: torch.Tensor) -> torch.Tensor:
        """R_i = sum_j x_i W_ji R_j / z_j, z with its bias."""
        contributions = x[..., None, :] * layer.weight
        return (contributions * self.ratio(relevance, layer(x))[..., None]).sum(-2)

    def norm(self, layer: nn.LayerNorm, x: torch.Tensor, relevance: torch.Tensor) -> torch.Tensor:
        """The linear map x -> weight * (x - mean(x)) / deviation, with the deviation a constant."""
        size = x.shape[-1]
        centring = torch.eye(size, dtype=x.dtype) - 1 / size
        deviation = (x.var(-1, correction=0, keepdim=True) + layer.eps).sqrt()
        matrix = layer.weight[:, None] * centring / deviation[..., None]
        return (x[..., None, :] * matrix * self.ratio(relevance, layer(x))[..., None]).sum(-2)

    def block(self, block: Any, kept: Any, relevance: torch.Tensor) -> torch.Tensor:
        total = self.norm(block.norm, kept.sum, relevance)
        share = self.ratio(total, kept.sum)
        activated = self.linear(block.contract, kept.activated, kept.contracted * share)
        middle = kept.middle * share + self.linear(block.expand, kept.middle, activated)
        total = self.norm(block.attention_norm, kept.attention_sum, middle)
        share = self.ratio(total, kept.attention_sum)
        context = split_heads(self.linear(block.output, kept.context, kept.attended * share), block.heads)
        # Uniform rule: R[A_qk] = sum_d A_qk V_kd R_qd / (2 O_qd), R[V_kd] = sum_q of the same.
        parts = torch.einsum("bhqk,bhkd,bhqd->bhqkd", kept.attention, kept.value, context)
        parts = parts / (2 * split_heads(kept.context, block.heads))[:, :, :, None]
        attention, value = parts.sum(4), parts.sum(2)
        raw = kept.query @ kept.key.transpose(-1, -2)
        logits = raw / kept.query.shape[-1] ** 0.5
        scores = logits * (attention - kept.attention * attention.sum(-1, keepdim=True))
        self.lost += attention.sum() - scores.sum()
        parts = torch.einsum("bhqd,bhkd,bhqk->bhqkd", kept.query, kept.key, scores / (2 * raw))
        query, key = parts.sum(3), parts.sum(2)
        result = kept.input * share
        for layer, part in ((block.query, query), (block.key, key), (block.value, value)):
            result = result + self.linear(layer, kept.input, merge_heads(part))
        return result


@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
class TestAgainstExplicitPropagation:
    def test_changed_gradients_give_the_relevance_handed_down_part_by_part(self, kind: str) -> None:
        """In a padded batch, and whether attention is fused or written out."""
        of = double_classifier(kind)
        targets = [i % 3 for i in range(len(TEXTS))]
        actual = score(of, TEXTS, targets).scores
        with tiny.eager(of.model):
            torch.testing.assert_close(score(of, TEXTS, targets).scores, actual, rtol=1e-9, atol=1e-12)
        for row, text, target in zip(actual, TEXTS, targets, strict=True):
            expected = Explicit(of, text, target).scores
            assert (row[: len(expected)] - expected).abs().max() < 1e-9 * expected.abs().max()
            assert not row[len(expected) :].any()

    def test_without_biases_softmax_alone_keeps_relevance_from_the_sum(self, kind: str) -> None:
        of = double_classifier(kind, biases=False)
        lost = []
        for row, text in zip(score(of, TEXTS, [1] * len(TEXTS)).scores, TEXTS, strict=True):
            explicit = Explicit(of, text, 1)
            lost.append(abs(float(explicit.lost)))
            assert float(row.sum() + explicit.lost) == pytest.approx(float(explicit.logit), abs=1e-9)
        assert np.median(lost) > 1e-3
        for block in dissect(of.model).blocks:
            block.output.weight.zero_()
        scores = score(of, TEXTS)
        np.testing.assert_allclose(scores.scores.sum(1), scores.logits.amax(1), atol=1e-9)
        # Nothing comes to the head but by way of the first token.
        assert not scores.scores[:, 1:].any()

    def test_the_logits_are_the_classifier_s_and_nothing_is_left_on_the_model(self, kind: str) -> None:
        of = tiny.make_classifier(kind, 3)
        with torch.no_grad():
            scores = score(of, TEXTS)
        torch.testing.assert_close(scores.logits, of.logits(of.batch(of.encode(TEXTS))), atol=1e-5, rtol=1e-5)
        assert not scores.scores.requires_grad and not scores.logits.requires_grad
        assert tiny.hooks(of.model) == 0
        assert not any(p.requires_grad or p.grad is not None for p in of.model.parameters())


@pytest.mark.parametrize("kind", ["modernbert", "eurobert", *tiny.DECODERS, *tiny.MORE_DECODERS])
def test_attention_that_is_written_out_gives_the_same(kind: str) -> None:
    """In inference mode, too."""
    of = tiny.make_classifier(kind)
    fused = list(explearn.get_explainer("attn_lrp").explain(of, tiny.TEXTS))
    with tiny.eager(of.model), torch.inference_mode():
        written = list(explearn.get_explainer("attn_lrp").explain(of, tiny.TEXTS))
    for one, other in zip(fused, written, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-4 * np.abs(one.scores).max())


class Parts(nn.Module):
    """Parts one by one: an activation as a module or a function, a norm, products of two inputs and of a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.activation, self.norm = nn.GELU(), nn.LayerNorm(8)

    def forward(self, part: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        parts = {
            "module": lambda: self.activation(x),
            "function": lambda: torch.tanh(x),
            "norm": lambda: self.norm(x),
            "product": lambda: x @ y.T,
            "constant": lambda: x @ y.detach().T,
            "gate": lambda: x * y,
        }
        result: torch.Tensor = parts[part]()
        return result


class TestRules:
    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
    @pytest.mark.parametrize("part", ["module", "function", "norm", "product", "constant", "gate"])
    def test_relevance_passes_each_part_as_its_rule_says(self, part: str, dtype: torch.dtype) -> None:
        model = Parts().to(dtype).requires_grad_(False)
        torch.manual_seed(0)
        model.norm.weight.normal_(), model.norm.bias.normal_()
        x, y = (torch.randn(3, 8, dtype=dtype, requires_grad=True) for _ in range(2))
        x.data[:, 0] = 0
        with changed_backward(model) as rules:
            value = model(part, x, y)
        torch.testing.assert_close(value, model(part, x, y), rtol=0, atol=0)
        (gradient,) = torch.autograd.grad(value.sum(), x, retain_graph=True)
        assert gradient.dtype == dtype and gradient.isfinite().all()
        relevance, exact = (gradient * x).detach().double(), value.detach().double()
        tolerance = {"rtol": 50 * torch.finfo(dtype).eps, "atol": 50 * torch.finfo(dtype).eps}
        if part in ("module", "function"):
            torch.testing.assert_close(relevance, exact, **tolerance)  # unchanged, and 0 at 0
        elif part == "norm":
            torch.testing.assert_close(relevance.sum(1), (exact - model.norm.bias.double()).sum(1), **tolerance)
        else:
            share = 1 if part == "constant" else 2
            torch.testing.assert_close(relevance.sum(), exact.sum() / share, **tolerance)
        rules.changed = False
        (plain,) = torch.autograd.grad(value.sum(), x)
        (expected,) = torch.autograd.grad(model(part, x, y).sum(), x)
        torch.testing.assert_close(plain, expected, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_half_precision_stays_finite(kind: str) -> None:
    """On a CPU, where ComputeOptions would refuse fp16."""
    of = tiny.make_classifier(kind)
    of.dtype = torch.float16
    scores = score(of, TEXTS)
    assert scores.scores.dtype == torch.float32 and torch.isfinite(scores.scores).all()
    expected = score(tiny.classifier(kind), TEXTS, scores.targets.tolist()).scores
    gaps = (scores.scores - expected).abs().amax(1) / expected.abs().amax(1)
    assert gaps.median() < 0.05

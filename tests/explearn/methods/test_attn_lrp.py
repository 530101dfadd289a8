"""AttnLRP's changed gradients against relevance that is handed down explicitly, part by part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from torch import nn

import explearn
from explearn.core.errors import UnsupportedError
from explearn.lens.anatomy import dissect, merge_heads, split_heads, trace_block
from explearn.methods.relevance import attn_lrp

TEXTS: list[Any] = [*tiny.TEXTS, *tiny.PAIRS]


def score(of: explearn.Classifier, texts: Any, targets: Any = None) -> Any:
    wanted = None if targets is None else torch.tensor(targets)
    return explearn.get_explainer("attn_lrp").score_batch(of, of.batch(of.encode(texts)), wanted)


def double_classifier(kind: str, **config: Any) -> explearn.Classifier:
    of = tiny.make_classifier(kind, 3, **config)
    of.model.double()
    return of


def without_biases(of: explearn.Classifier) -> explearn.Classifier:
    """All biases behind the embeddings set to 0."""
    anatomy = dissect(of.model)
    embeddings = {id(p) for p in anatomy.embeddings.parameters()}
    for name, parameter in of.model.named_parameters():
        if name.endswith("bias") and id(parameter) not in embeddings:
            parameter.zero_()
    return of


class Explicit:
    """Relevance of one text without padding by the paper's equations: each R_in written out from R_out.

    lost: what softmax took and did not hand on, sum(R_out) - sum(R_in), added up over blocks.
    """

    def __init__(self, of: explearn.Classifier, text: Any, target: int) -> None:
        batch = of.batch(of.encode([text]))
        anatomy = dissect(of.model)
        mask = batch.attention_mask.bool()
        assert mask.all()
        embedded = replace(anatomy, projection=None).embed(batch)
        hidden = embedded if anatomy.projection is None else anatomy.projection(embedded)
        traces = []
        for block in anatomy.blocks:
            traces.append(trace_block(block, hidden, mask))
            hidden = traces[-1].result
        activated = anatomy.head.activation(anatomy.head.dense(hidden[:, 0]))
        self.logit = anatomy.head.classifier(activated)[0, target]
        self.lost = torch.zeros((), dtype=torch.float64)

        logits = torch.zeros(1, 3, dtype=torch.float64)
        logits[0, target] = self.logit
        relevance = self.linear(anatomy.head.classifier, activated, logits)
        first = self.linear(anatomy.head.dense, hidden[:, 0], relevance)
        relevance = torch.zeros_like(hidden)
        relevance[:, 0] = first
        for block, kept in zip(reversed(anatomy.blocks), reversed(traces), strict=True):
            relevance = self.block(block, kept, relevance)
        if anatomy.projection is not None:
            relevance = self.linear(anatomy.projection, embedded, relevance)
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
        """For every class, in a padded batch."""
        of = double_classifier(kind)
        for target in range(3):
            found = score(of, TEXTS, [target] * len(TEXTS)).scores
            assert found.dtype == torch.float64
            for row, text in zip(found, TEXTS, strict=True):
                expected = Explicit(of, text, target).scores
                gap = (row[: len(expected)] - expected).abs().max()
                assert gap < 1e-9 * expected.abs().max()
                assert not row[len(expected) :].any()

    def test_without_biases_softmax_alone_keeps_relevance_from_the_sum(self, kind: str) -> None:
        of = without_biases(double_classifier(kind))
        lost = []
        for target in range(3):
            found = score(of, TEXTS, [target] * len(TEXTS)).scores
            for row, text in zip(found, TEXTS, strict=True):
                explicit = Explicit(of, text, target)
                lost.append(abs(float(explicit.lost)))
                assert float(row.sum() + explicit.lost) == pytest.approx(float(explicit.logit), abs=1e-9)
        assert np.median(lost) > 1e-3

    def test_without_biases_and_attention_scores_add_up_to_the_logit(self, kind: str) -> None:
        of = without_biases(double_classifier(kind))
        for block in dissect(of.model).blocks:
            block.output.weight.zero_()
        found = score(of, TEXTS)
        np.testing.assert_allclose(found.scores.sum(1), found.logits.amax(1), atol=1e-9)
        # Nothing comes to the head but by way of the first token.
        assert not found.scores[:, 1:].any()

    def test_logits_are_the_classifier_s(self, kind: str) -> None:
        of = tiny.classifier(kind, 3)
        expected = of.logits(of.batch(of.encode(TEXTS)))
        torch.testing.assert_close(score(of, TEXTS).logits, expected, atol=1e-5, rtol=1e-5)

    def test_nothing_is_left_on_the_model(self, kind: str) -> None:
        of = tiny.make_classifier(kind)
        with torch.no_grad():
            found = score(of, TEXTS)
        assert not found.scores.requires_grad and not found.logits.requires_grad
        assert tiny.hooks(of.model) == 0
        assert not any(p.requires_grad or p.grad is not None for p in of.model.parameters())


class TestRules:
    @pytest.mark.parametrize("activation", [nn.functional.gelu, torch.tanh, nn.functional.relu])
    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
    def test_relevance_passes_an_activation_unchanged(self, activation: Any, dtype: torch.dtype) -> None:
        x = torch.tensor([-3, -0.5, -1e-30, -0.0, 0.0, 1e-30, 0.5, 3], dtype=dtype, requires_grad=True)
        value = attn_lrp._activate(x, activation)
        assert torch.equal(value, activation(x))
        gradient = torch.tensor([2.0, -1, 3, 1, 1, 2, 5, -4], dtype=dtype)
        (found,) = torch.autograd.grad(value, x, gradient)
        assert found.dtype == dtype
        assert torch.isfinite(found).all() and (found[3:5] == 0).all()
        tolerance = {"rtol": 1e-2 if dtype == torch.bfloat16 else 1e-6, "atol": 1e-20}
        torch.testing.assert_close((x * found).detach(), (value * gradient).detach(), **tolerance)

    def test_the_operands_of_a_product_share_its_relevance(self) -> None:
        left, right = (torch.rand(2, 2, requires_grad=True) for _ in range(2))
        value = attn_lrp._halve_gradient(left @ right)
        assert torch.equal(value, left @ right)
        for gradient, operand in zip(torch.autograd.grad(value.sum(), (left, right)), (left, right), strict=True):
            assert (gradient * operand).sum().item() == pytest.approx(value.sum().item() / 2, rel=1e-5)

    def test_layer_norm_is_the_module_s_and_keeps_what_its_bias_gives(self) -> None:
        norm = nn.LayerNorm(6).requires_grad_(False)
        torch.manual_seed(0)
        norm.weight.normal_(), norm.bias.normal_()
        x = torch.randn(4, 6, requires_grad=True)
        value = attn_lrp._normalise(norm, x)
        torch.testing.assert_close(value, norm(x))
        (gradient,) = torch.autograd.grad(value.sum(), x)
        torch.testing.assert_close((gradient * x).sum(1), (value - norm.bias).sum(1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
def test_half_precision_stays_finite(kind: str) -> None:
    """On a CPU, where ComputeOptions would refuse fp16."""
    of = tiny.make_classifier(kind)
    of.dtype = torch.float16
    found = score(of, TEXTS)
    assert found.scores.dtype == torch.float32
    assert torch.isfinite(found.scores).all()
    expected = score(tiny.classifier(kind), TEXTS, found.targets.tolist()).scores
    gaps = (found.scores - expected).abs().amax(1) / expected.abs().amax(1)
    assert gaps.median() < 0.05


def test_an_unknown_architecture_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    of = tiny.make_classifier("bert")
    monkeypatch.setattr(of.model.config, "model_type", "longformer")
    with pytest.raises(UnsupportedError, match="'longformer' model cannot be captured"):
        list(explearn.get_explainer("attn_lrp").explain(of, ["lazy dog"]))

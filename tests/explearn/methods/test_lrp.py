"""Partial LRP, full LRP and transformer attribution: the original code's scores, the rules by hand, conservation."""

from __future__ import annotations

from typing import Any

import golden
import numpy as np
import pytest
import tiny
import torch

import explearn
from explearn.core.errors import ParamsError, UnsupportedError
from explearn.lens.anatomy import dissect
from explearn.methods.relevance import lrp
from explearn.methods.relevance.lrp import Forward, call_in_float64
from explearn.methods.relevance.propagation import (
    ConservingRules,
    DoublingRules,
    Rules,
    divide,
    join,
    product,
    through_head,
    to_attention,
    to_input,
)

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "partial_lrp__ours_layers": ("lrp", {}),
    "partial_lrp": ("lrp", {"rules": "doubling"}),
    "full_lrp__ours_layers": ("full_lrp", {}),
    "full_lrp": ("full_lrp", {"rules": "doubling"}),
    "transformer_attribution": ("transformer_attribution", {}),
    "transformer_attribution__start_last": ("transformer_attribution", {"start_layer": -1}),
}
"""Name in the reference -> method and options that give it."""

METHODS = ("lrp", "full_lrp", "transformer_attribution")
TEXTS: list[Any] = [*tiny.TEXTS, *tiny.PAIRS]

TOLERANCE = 1e-6
"""By how much a total of relevance may miss 1: the stabiliser of 1e-9 has its part at every division."""


def score(name: str, of: explearn.Classifier, texts: Any, targets: Any = None, **options: Any) -> Any:
    batch = of.batch(of.encode(texts))
    return explearn.get_explainer(name, **options).score_batch(
        of, batch, None if targets is None else torch.tensor(targets)
    )


def tensor(*values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


class TestReference:
    @pytest.mark.parametrize("together", [False, True], ids=["alone", "in_a_padded_batch"])
    @pytest.mark.parametrize("file", [golden.PREDICTED, golden.OTHER_CLASS])
    @pytest.mark.parametrize("variant", VARIANTS)
    def test_scores_equal_the_original_code_s(self, variant: str, file: str, together: bool) -> None:
        name, options = VARIANTS[variant]
        explainer = explearn.get_explainer(name, cls_score="original", **options)
        golden.assert_reproduces(explainer, variant, 1e-9, file=file, together=together, special=True)

    @pytest.mark.parametrize("variant", VARIANTS)
    def test_and_for_a_float32_classifier_to_float32_s_last_digits(self, variant: str) -> None:
        name, options = VARIANTS[variant]
        explainer = explearn.get_explainer(name, cls_score="original", **options)
        golden.assert_reproduces(explainer, variant, 1e-7, precision="float32", together=True, special=True)


class TestRules:
    """By hand; the stabiliser shows from the ninth digit."""

    INPUTS, WEIGHT = tensor([1, -2]), tensor([3, -1], [-1, 2])

    @pytest.mark.parametrize(
        ("rules", "expected"),
        # Output 0 has 3 from input 0 and 2 from input 1; output 1 has no positive product and hands nothing on.
        [(ConservingRules(), [[5 * 3 / 5, 5 * 2 / 5]]), (DoublingRules(), [[5, 5]])],
        ids=["conserving", "doubling"],
    )
    def test_linear(self, rules: Rules, expected: list[list[float]]) -> None:
        found = rules.linear(tensor([5, 7]), self.INPUTS, self.WEIGHT)
        np.testing.assert_allclose(found, expected, rtol=1e-8)

    def test_a_float32_weight_is_used_in_the_inputs_precision(self) -> None:
        found = ConservingRules().linear(tensor([5, 7]), self.INPUTS, self.WEIGHT.float())
        assert found.dtype == torch.float64

    @pytest.mark.parametrize(
        ("rules", "first", "second"),
        # Plain: 1/4 of (3, 1) and 1/1 of (-1, 2). Their totals -1/4 and 9/4 have the sizes 1 : 9, of 2 in all.
        [
            (ConservingRules(), [-0.6, 0.8], [0.2, 1.6]),
            (DoublingRules(), [0.75, -1], [0.25, 2]),
        ],
        ids=["conserving", "doubling"],
    )
    def test_add(self, rules: Rules, first: list[float], second: list[float]) -> None:
        found = rules.add(tensor([1, 1]), tensor([3, -1]), tensor([1, 2]))
        np.testing.assert_allclose(found[0], [first], rtol=1e-7)
        np.testing.assert_allclose(found[1], [second], rtol=1e-7)

    def test_totals_of_a_sum_are_those_of_each_text(self) -> None:
        torch.manual_seed(0)
        relevance, first, second = torch.randn(3, 2, 4, 5, dtype=torch.float64)
        together = ConservingRules().add(relevance, first, second)
        for row in range(2):
            one = slice(row, row + 1)
            alone = ConservingRules().add(relevance[one], first[one], second[one])
            assert torch.equal(together[0][one], alone[0]) and torch.equal(together[1][one], alone[1])

    def test_product(self) -> None:
        left, right = tensor([1, 3]), tensor([2], [-1])
        found = product(tensor([1]), left, right, left @ right)
        np.testing.assert_allclose(found[0], [[-1, 1.5]], rtol=1e-8)
        np.testing.assert_allclose(found[1], [[-1], [1.5]], rtol=1e-8)

    def test_join(self) -> None:
        found = join(tensor(2, -4, 0), [tensor(1, 2, 3), tensor(4, -8, 6)])
        np.testing.assert_allclose(found, [5, -6, 0], rtol=1e-8)

    def test_no_division_by_zero(self) -> None:
        found = divide(tensor(1, 1, -2), tensor(0, -1e-9, 1e-9))
        np.testing.assert_allclose(found, [0, 1e9, -1e9])


@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
class TestConservation:
    @torch.inference_mode()
    def test_relevance_adds_up_to_1_at_every_stage_and_is_0_at_padding(self, kind: str) -> None:
        of, rules = tiny.classifier(kind, 3), ConservingRules()
        batch = of.batch(of.encode(TEXTS))
        run = Forward.run(dissect(of.model), batch)
        padding = ~run.mask
        assert padding.any()

        def check(*parts: torch.Tensor) -> None:
            total = sum(part.flatten(1).sum(1) for part in parts)
            np.testing.assert_allclose(total, np.ones(len(TEXTS)), atol=TOLERANCE)

        start = torch.eye(3, dtype=torch.float64)[run.logits.argmax(-1)]
        relevance = through_head(rules, run.anatomy.head, run.output, run.activated, start)
        check(relevance)
        for layer in reversed(range(tiny.LAYERS)):
            block, kept = run.anatomy.blocks[layer], run.block(layer)
            reached = to_attention(rules, block, kept, relevance)
            check(reached.attention, reached.value, reached.skipped)
            assert not reached.attention.transpose(1, 3)[padding].any()
            relevance = to_input(rules, block, kept, reached)
            check(relevance)
            assert not relevance[padding].any()
        if run.anatomy.projection is not None:
            check(rules.linear(relevance, run.embedded, run.anatomy.projection.weight))

    def test_full_lrp_s_scores_add_up_to_1(self, kind: str) -> None:
        found = score("full_lrp", tiny.classifier(kind, 3), TEXTS)
        assert found.completeness_error.max() < TOLERANCE
        np.testing.assert_allclose(found.scores.sum(1), np.ones(len(TEXTS)), atol=TOLERANCE)

    def test_the_doubling_rules_make_no_such_promise(self, kind: str) -> None:
        found = score("full_lrp", tiny.classifier(kind, 3), TEXTS, rules="doubling")
        assert found.completeness_error is None
        assert found.scores.sum(1).abs().max() > 100


def test_the_completeness_error_is_by_how_much_the_scores_miss_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lrp, "through_head", lambda *args: 3 * through_head(*args))
    found = score("full_lrp", tiny.classifier("bert", 3), TEXTS)
    np.testing.assert_allclose(found.completeness_error, (found.scores.double().sum(1) - 1).abs(), atol=TOLERANCE)
    np.testing.assert_allclose(found.completeness_error, np.full(len(TEXTS), 2), atol=1e-5)


def test_attributions_carry_the_completeness_error() -> None:
    for found in explearn.get_explainer("full_lrp").explain(tiny.classifier("bert"), TEXTS):
        assert found.completeness_error is not None
        assert found.completeness_error < TOLERANCE


@pytest.mark.parametrize("kind", ["albert", "electra"])
def test_full_lrp_passes_a_projection_of_the_embeddings_as_a_linear_map(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen under the doubling rules: a conserving map would change no token's sum."""
    reached: list[torch.Tensor] = []

    def recorded(*args: Any) -> torch.Tensor:
        reached.append(to_input(*args))
        return reached[-1]

    monkeypatch.setattr(lrp, "to_input", recorded)
    of = tiny.classifier(kind, 3)
    found = score("full_lrp", of, TEXTS, rules="doubling").scores
    run = Forward.run(dissect(of.model), of.batch(of.encode(TEXTS)))
    assert run.anatomy.projection is not None
    expected = DoublingRules().linear(reached[-1], run.embedded, run.anatomy.projection.weight)
    torch.testing.assert_close(found, expected.sum(-1).float())
    assert (found - reached[-1].sum(-1)).abs().max() > 0.1 * found.abs().max()


class TestClsScore:
    @pytest.mark.parametrize("name", METHODS)
    def test_nothing_but_the_first_token_s_score_depends_on_it(self, name: str) -> None:
        of = tiny.classifier("bert", 3)
        own, original = (score(name, of, TEXTS, cls_score=option).scores for option in ("own", "original"))
        assert torch.equal(own[:, 1:], original[:, 1:])
        assert (own[:, 0] != original[:, 0]).all()

    @pytest.mark.parametrize("name", ["lrp", "full_lrp"])
    def test_the_original_s_is_0_in_partial_and_full_lrp(self, name: str) -> None:
        assert not score(name, tiny.classifier("bert", 3), TEXTS, cls_score="original").scores[:, 0].any()

    def test_the_original_s_is_the_text_s_minimum_in_transformer_attribution(self) -> None:
        of = tiny.classifier("bert", 3)
        found = score("transformer_attribution", of, TEXTS, cls_score="original").scores
        for row, encoding in zip(found, of.encode(TEXTS), strict=True):
            assert row[0] == row[1 : len(encoding)].min() > 0


class TestTransformerAttribution:
    def test_a_layer_counts_from_the_first_or_from_the_last(self) -> None:
        of = tiny.classifier("bert", 3)
        for layer in range(tiny.LAYERS):
            one, other = (
                score("transformer_attribution", of, TEXTS, start_layer=start).scores
                for start in (layer, layer - tiny.LAYERS)
            )
            assert torch.equal(one, other)
            assert torch.equal(one, score("transformer_attribution", of, TEXTS).scores) == (layer == 0)

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_the_rolled_out_row_adds_up_to_1(self, kind: str) -> None:
        found = score("transformer_attribution", tiny.classifier(kind, 3), TEXTS).scores
        np.testing.assert_allclose(found.sum(1), np.ones(len(TEXTS)), rtol=1e-5)

    @pytest.mark.parametrize("layer", [tiny.LAYERS, -tiny.LAYERS - 1])
    def test_a_layer_that_is_not_there(self, layer: int) -> None:
        explainer = explearn.get_explainer("transformer_attribution", start_layer=layer)
        with pytest.raises(ParamsError, match=f"start_layer {layer} does not exist: the model has 3, 0 to 2 or -3 to"):
            list(explainer.explain(tiny.classifier("bert"), ["lazy dog"]))


class TestPrecision:
    @pytest.mark.parametrize("name", METHODS)
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_a_float32_classifier_gets_the_scores_of_its_float64_copy(self, kind: str, name: str) -> None:
        wide = tiny.make_classifier(kind, 3)
        wide.model.double()
        found, expected = score(name, tiny.classifier(kind, 3), TEXTS), score(name, wide, TEXTS)
        assert (found.scores.dtype, expected.scores.dtype) == (torch.float32, torch.float64)
        torch.testing.assert_close(found.scores, expected.scores.float(), atol=0, rtol=1e-6)

    @pytest.mark.parametrize("name", METHODS)
    def test_low_precision_decides_the_logits_alone(self, name: str) -> None:
        of = tiny.make_classifier("bert", 3, precision="bf16")
        found = score(name, of, TEXTS)
        assert torch.equal(found.logits, of.logits(of.batch(of.encode(TEXTS))))
        assert torch.equal(found.targets, found.logits.argmax(-1))
        expected = score(name, tiny.classifier("bert", 3), TEXTS, found.targets.tolist())
        assert torch.equal(found.scores, expected.scores)

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_logits_are_the_classifier_s(self, kind: str) -> None:
        of = tiny.classifier(kind, 3)
        expected = of.logits(of.batch(of.encode(TEXTS)))
        torch.testing.assert_close(score("full_lrp", of, TEXTS).logits, expected, atol=1e-5, rtol=1e-5)

    def test_mps_has_no_float64(self, monkeypatch: pytest.MonkeyPatch) -> None:
        of = tiny.make_classifier("bert")
        monkeypatch.setattr(of, "device", torch.device("mps"))
        with pytest.raises(UnsupportedError, match="needs float64, which MPS devices do not have; use device cpu, or"):
            explearn.get_explainer("full_lrp").check(of)


class TestNothingIsLeft:
    def state(self, of: explearn.Classifier) -> list[Any]:
        return [(id(p), p.dtype, p.requires_grad, p.grad) for p in of.model.parameters()]

    @pytest.mark.parametrize("name", METHODS)
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_on_the_model(self, kind: str, name: str) -> None:
        of = tiny.make_classifier(kind)
        before = self.state(of)
        score(name, of, TEXTS)
        assert (self.state(of), tiny.hooks(of.model)) == (before, 0)

    def test_after_an_exception(self) -> None:
        of = tiny.make_classifier("bert")
        before = self.state(of)
        with pytest.raises(ZeroDivisionError):
            call_in_float64([of.model], lambda: 1 / 0)
        assert self.state(of) == before

    def test_of_a_module_that_is_used_twice(self) -> None:
        of = tiny.make_classifier("bert")
        attention = of.model.bert.encoder.layer[0].attention.self
        attention.key = attention.query
        before = self.state(of)
        score("full_lrp", of, TEXTS)
        assert self.state(of) == before


@pytest.mark.parametrize("name", METHODS)
def test_an_unknown_architecture_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of = tiny.make_classifier("bert")
    monkeypatch.setattr(of.model.config, "model_type", "longformer")
    with pytest.raises(UnsupportedError, match="'longformer' model cannot be captured"):
        list(explearn.get_explainer(name).explain(of, ["lazy dog"]))


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("lrp", {"rules": "ours"}, "rules: got 'ours'; expected one of conserving, doubling"),
        ("full_lrp", {"rules": "ours"}, "rules: got 'ours'; expected one of conserving, doubling"),
        ("lrp", {"cls_score": "zero"}, "cls_score: got 'zero'; expected one of own, original"),
        ("transformer_attribution", {"cls_score": 0}, "cls_score: got 0; expected one of own, original"),
        ("transformer_attribution", {"start_layer": 1.0}, "start_layer: got 1.0; expected a layer's number"),
        ("transformer_attribution", {"start_layer": True}, "start_layer: got True; expected a layer's number"),
    ],
)
def test_options_of_other_values_are_refused(name: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ParamsError, match=words):
        explearn.get_explainer(name, **options)

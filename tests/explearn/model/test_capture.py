from __future__ import annotations

from typing import Any

import pytest
import tiny
import torch
import transformers
from rounding import assert_close

from explearn.core.errors import ParamsError, UnsupportedError
from explearn.lens import capture
from explearn.lens.capture import (
    capture_attention,
    cls_row_and_column,
    cls_row_mean,
    head_mean,
    layer_count,
    resolve_layer,
)
from explearn.lens.features import batch_features
from explearn.model.encoding import Batch


def batch_of(kind: str) -> Batch:
    """Texts and pairs of several lengths: all but the longest are padded."""
    of = tiny.classifier(kind)
    return of.batch(of.encode([*tiny.TEXTS, *tiny.PAIRS]))


@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
class TestAgainstEagerAttention:
    @pytest.mark.parametrize("layer", range(-tiny.LAYERS, tiny.LAYERS))
    def test_row_and_column_of_every_layer(self, kind: str, layer: int) -> None:
        of, batch = tiny.classifier(kind), batch_of(kind)
        expected = tiny.eager_attentions(of, batch)[layer]
        found = batch_features(of, batch, [layer]).attention
        assert found.shape == (len(batch), batch.input_ids.shape[1], 2 * tiny.HEADS)
        row, column = expected[:, :, 0, :], expected[:, :, :, 0]
        wanted = torch.cat([row, column], dim=1).transpose(1, 2)
        real = batch.attention_mask.bool()
        assert_close(found[real], wanted[real])

    def test_mean_over_heads_of_all_layers(self, kind: str) -> None:
        of, batch = tiny.classifier(kind), batch_of(kind)
        with capture_attention(of.model, head_mean) as captured, torch.inference_mode():
            of.model(**batch.model_inputs())
        real = batch.attention_mask.bool()
        for layer, expected in enumerate(tiny.eager_attentions(of, batch)):
            assert_close(captured.of(layer)[real], expected.mean(1)[real])

    def test_mean_over_heads_of_the_first_row(self, kind: str) -> None:
        of, batch = tiny.classifier(kind), batch_of(kind)
        with capture_attention(of.model, cls_row_mean, [1]) as captured, torch.inference_mode():
            of.model(**batch.model_inputs())
        expected = tiny.eager_attentions(of, batch)[1].mean(1)[:, 0]
        assert_close(captured.of(1), expected)

    def test_padding_gets_no_attention(self, kind: str) -> None:
        of, batch = tiny.classifier(kind), batch_of(kind)
        padding = batch.attention_mask == 0
        assert padding.any()
        with capture_attention(of.model, cls_row_mean, [0]) as captured, torch.inference_mode():
            of.model(**batch.model_inputs())
        assert (captured.of(0)[padding] == 0).all()

    def test_small_blocks_change_nothing(self, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        of, batch = tiny.classifier(kind), batch_of(kind)
        whole = batch_features(of, batch, [-1]).attention
        monkeypatch.setattr(capture, "BLOCK_ELEMENTS", 1)  # one text, one head at a time
        assert_close(batch_features(of, batch, [-1]).attention, whole)

    def test_the_model_keeps_its_fused_attention_and_its_output(self, kind: str) -> None:
        of, batch = tiny.classifier(kind), batch_of(kind)
        with torch.inference_mode():
            plain = of.model(**batch.model_inputs()).logits
            with capture_attention(of.model, cls_row_and_column) as captured:
                during = of.model.config._attn_implementation
                watched = of.model(**batch.model_inputs()).logits
        assert during == of.model.config._attn_implementation == "sdpa"
        assert torch.equal(plain, watched)
        assert captured.calls == tiny.LAYERS


@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
class TestNothingIsLeftBehind:
    def test_after_use(self, kind: str) -> None:
        of, batch = tiny.classifier(kind), batch_of(kind)
        before = tiny.hooks(of.model)
        with capture_attention(of.model, head_mean):
            of.model(**batch.model_inputs())
            assert tiny.hooks(of.model) > before
        assert tiny.hooks(of.model) == before

    def test_after_an_exception_in_the_block(self, kind: str) -> None:
        of = tiny.classifier(kind)
        before = tiny.hooks(of.model)
        with pytest.raises(KeyboardInterrupt), capture_attention(of.model, head_mean):
            raise KeyboardInterrupt
        assert tiny.hooks(of.model) == before

    def test_after_an_exception_in_the_model(self, kind: str) -> None:
        of, batch = tiny.classifier(kind), batch_of(kind)
        before = tiny.hooks(of.model)

        def fail(*_tensors: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("out of memory")

        with pytest.raises(RuntimeError, match="out of memory"), capture_attention(of.model, fail):
            of.model(**batch.model_inputs())
        assert tiny.hooks(of.model) == before


def test_layers_that_were_not_asked_for_are_not_kept() -> None:
    of, batch = tiny.classifier("bert"), batch_of("bert")
    with capture_attention(of.model, head_mean, [2]) as captured:
        of.model(**batch.model_inputs())
    assert [kept is not None for kept in captured.layers] == [False, False, True]
    with pytest.raises(RuntimeError, match="layer 0 was not captured"):
        captured.of(0)


def test_a_second_forward_pass_overwrites_the_first() -> None:
    of = tiny.classifier("albert")
    first, second = (of.batch(of.encode([text])) for text in tiny.TEXTS[:2])
    with capture_attention(of.model, cls_row_mean, [1]) as captured, torch.inference_mode():
        of.model(**first.model_inputs())
        of.model(**second.model_inputs())
    expected = tiny.eager_attentions(of, second)[1].mean(1)[:, 0]
    assert_close(captured.of(1), expected)


@pytest.mark.parametrize("reduce", [cls_row_and_column, cls_row_mean, head_mean])
def test_float64_stays_float64(reduce: capture.Reducer[torch.Tensor]) -> None:
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(2, 3, 5, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    found = reduce(query, key, mask)
    assert found.dtype == torch.float64
    weights = (query @ key.transpose(-1, -2)).masked_fill(~mask[:, None, None], -torch.inf).softmax(-1)
    expected = {
        cls_row_and_column: torch.cat([weights[:, :, 0], weights[:, :, :, 0]], dim=1).transpose(1, 2),
        cls_row_mean: weights[:, :, 0].mean(1),
        head_mean: weights.mean(1),
    }[reduce]
    assert_close(found, expected)


class TestLayers:
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_albert_s_shared_layer_counts_each_time_it_runs(self, kind: str) -> None:
        assert layer_count(tiny.classifier(kind).model) == tiny.LAYERS

    @pytest.mark.parametrize(("layer", "index"), [(0, 0), (2, 2), (-1, 2), (-3, 0)])
    def test_negative_layers_count_from_the_end(self, layer: int, index: int) -> None:
        assert resolve_layer(tiny.classifier("bert").model, layer) == index

    @pytest.mark.parametrize("layer", [3, -4, 100])
    def test_a_layer_that_does_not_exist(self, layer: int) -> None:
        with pytest.raises(ParamsError, match=rf"layer {layer} does not exist: the model has 3, 0 to 2 or -3 to -1"):
            resolve_layer(tiny.classifier("bert").model, layer)

    @pytest.mark.parametrize("layer", ["last", 1.0, None])
    def test_a_layer_that_is_no_number(self, layer: Any) -> None:
        with pytest.raises(ParamsError, match=f"layer: got {layer!r}; expected a whole number"):
            resolve_layer(tiny.classifier("bert").model, layer)


class TestUnsupported:
    def test_another_architecture(self) -> None:
        config = transformers.MobileBertConfig(
            vocab_size=50,
            hidden_size=32,
            embedding_size=16,
            intra_bottleneck_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
        )
        model = transformers.MobileBertForSequenceClassification(config)
        with pytest.raises(UnsupportedError, match="'mobilebert' model cannot be captured; supported: albert, bert"):
            layer_count(model)
        with pytest.raises(UnsupportedError), capture_attention(model, head_mean):
            pass
        assert tiny.hooks(model) == 0

    def test_a_decoder_whose_tokens_see_only_what_stands_before_them(self) -> None:
        model = tiny.model("bert", is_decoder=True)
        with pytest.raises(UnsupportedError, match="decoder"):
            layer_count(model)

    def test_groups_of_several_layers_in_albert(self) -> None:
        """Its `num_hidden_layers` then counts groups; each layer of a group runs."""
        of = tiny.make_classifier("albert")
        of.model = tiny.model("albert", inner_group_num=2)
        batch = of.batch(of.encode(tiny.TEXTS))
        expected = tiny.eager_attentions(of, batch)
        assert layer_count(of.model) == len(expected) == 2 * tiny.LAYERS
        found = batch_features(of, batch, [3]).attention[..., : tiny.HEADS]
        assert_close(found, expected[3][:, :, 0].transpose(1, 2))

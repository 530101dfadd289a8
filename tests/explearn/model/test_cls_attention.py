"""Attention from and to [CLS] of many layers in one pass, against eager attention and against the model left alone."""

from __future__ import annotations

from typing import Any

import pytest
import tiny
import torch
from rounding import assert_close

from explearn.core.errors import UnsupportedError
from explearn.lens import cls_attention
from explearn.lens.cls_attention import run_with_cls_attention
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch


def batch_of(of: Classifier) -> Batch:
    """Texts and pairs of several lengths: all but the longest are padded."""
    return of.batch(of.encode([*tiny.TEXTS, *tiny.PAIRS]))


def expected(of: Classifier, batch: Batch, layers: list[int]) -> torch.Tensor:
    eager = tiny.eager_attentions(of, batch)
    parts = [part for layer in layers for part in (eager[layer][:, :, 0], eager[layer][:, :, :, 0])]
    return torch.cat(parts, dim=1).transpose(1, 2)


def no(*_: object) -> bool:
    return False


@pytest.mark.parametrize("layers", [[0, 1, 2], [2, 0], [1]], ids=str)
@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
def test_row_and_column_are_those_of_eager_attention(kind: str, layers: list[int]) -> None:
    of = tiny.classifier(kind)
    batch = batch_of(of)
    _, found = run_with_cls_attention(of.model, batch.model_inputs(), layers)
    real = batch.attention_mask.bool()
    assert found.shape == (*batch.input_ids.shape, len(layers) * 2 * tiny.HEADS)
    assert_close(found[real], expected(of, batch, layers)[real])


@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
def test_nothing_attends_to_padding(kind: str) -> None:
    of = tiny.classifier(kind)
    batch = batch_of(of)
    _, found = run_with_cls_attention(of.model, batch.model_inputs(), [1])
    padding = batch.attention_mask == 0
    assert padding.any() and (found[padding][:, : tiny.HEADS] == 0).all()


@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
def test_the_model_s_output_is_the_same_to_the_bit_and_nothing_is_left_on_it(kind: str) -> None:
    of = tiny.make_classifier(kind)
    batch = batch_of(of)
    with torch.inference_mode():
        plain = of.model(**batch.model_inputs()).logits
    output, _ = run_with_cls_attention(of.model, batch.model_inputs(), [0, 1, 2])
    assert torch.equal(output.logits, plain)
    assert of.model.config._attn_implementation == "sdpa" and tiny.hooks(of.model) == 0


@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
def test_the_normalisers_come_from_the_fused_kernel(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were they computed again, a pass would take the longer the more layers are read."""

    def refuse(*_: object) -> None:
        raise AssertionError("a log-sum-exp over all keys was computed")

    monkeypatch.setattr(cls_attention, "_normalisers", refuse)
    of = tiny.classifier(kind)
    run_with_cls_attention(of.model, batch_of(of).model_inputs(), [0, 1, 2])


@pytest.mark.parametrize("block", [1, 2**18])
@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
def test_where_there_is_no_such_kernel_they_are_computed(
    kind: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = tiny.classifier(kind)
    batch = batch_of(of)
    monkeypatch.setattr(cls_attention, "BLOCK_ELEMENTS", block)
    monkeypatch.setattr(cls_attention, "runs_flash_on_cpu", no)
    _, found = run_with_cls_attention(of.model, batch.model_inputs(), [0, 1, 2])
    real = batch.attention_mask.bool()
    assert_close(found[real], expected(of, batch, [0, 1, 2])[real])


def test_a_model_with_eager_attention() -> None:
    of = tiny.make_classifier("bert")
    of.model.set_attn_implementation("eager")
    batch = batch_of(of)
    _, found = run_with_cls_attention(of.model, batch.model_inputs(), [2, 1])
    real = batch.attention_mask.bool()
    assert_close(found[real], expected(of, batch, [2, 1])[real])


@pytest.mark.parametrize("fused", [True, False])
def test_a_float64_model_gives_float64(fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    of = tiny.make_classifier("bert")
    of.model.double()
    batch = batch_of(of)
    if not fused:
        monkeypatch.setattr(cls_attention, "runs_flash_on_cpu", no)
    _, found = run_with_cls_attention(of.model, batch.model_inputs(), [0, 2])
    real = batch.attention_mask.bool()
    assert found.dtype == torch.float64
    assert_close(found[real], expected(of, batch, [0, 2])[real])


def test_under_autocast_the_attention_is_that_of_what_the_model_computed() -> None:
    of = tiny.classifier("bert")
    batch = batch_of(of)
    with torch.autocast("cpu", torch.bfloat16):
        _, found = run_with_cls_attention(of.model, batch.model_inputs(), [0, 1, 2])
    real = batch.attention_mask.bool()
    assert found.dtype == torch.float32
    assert_close(found[real], expected(of, batch, [0, 1, 2])[real], torch.bfloat16, roundings=4)


def test_another_architecture() -> None:
    model: Any = torch.nn.Module()
    model.config = type("Config", (), {"model_type": "longformer", "_attn_implementation": "sdpa"})()
    with pytest.raises(UnsupportedError, match="attention of a 'longformer' model cannot be captured"):
        run_with_cls_attention(model, {}, [0])


def test_a_model_that_attends_more_often_than_it_has_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    of = tiny.classifier("bert")
    monkeypatch.setattr(cls_attention, "layer_count", lambda _: tiny.LAYERS + 1)
    with pytest.raises(UnsupportedError, match="it ran 3 times in a pass; expected 4, once a layer"):
        run_with_cls_attention(of.model, batch_of(of).model_inputs(), [0])

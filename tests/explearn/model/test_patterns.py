"""Attention of architectures that rotate, group, mask or bias it, against transformers' own written-out attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tiny
import torch
from rounding import assert_close

from explearn.core.compute import ComputeOptions
from explearn.core.errors import UnsupportedError
from explearn.lens.capture import (
    capture_attention,
    cls_row_and_column,
    cls_row_mean,
    head_mean,
    layer_count,
    read_position,
    read_weights,
)
from explearn.lens.gradients import differentiate
from explearn.lens.patterns import AttentionCalls, Call, Pattern, probabilities
from explearn.model.architectures import ARCHITECTURES, blocks_in_order, head_size, reads
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch

KINDS = ("deberta-v2", "mpnet", "modernbert", "modernbert mean", *tiny.DECODERS)


def batch_of(of: Classifier) -> Batch:
    """Texts and pairs of several lengths: all but the longest are padded."""
    return of.batch(of.encode([*tiny.TEXTS, *tiny.PAIRS]))


def last_tokens(batch: Batch) -> torch.Tensor:
    return batch.attention_mask.sum(1) - 1


def run(of: Classifier, batch: Batch, reduce: Callable[..., Any]) -> list[torch.Tensor]:
    with capture_attention(of.model, reduce) as captured, torch.inference_mode():
        of.model(**batch.model_inputs())
    return [captured.of(layer) for layer in range(tiny.LAYERS)]


@pytest.mark.parametrize("kind", KINDS)
class TestAgainstEagerAttention:
    def test_row_and_column_of_the_token_that_is_read(self, kind: str) -> None:
        of = tiny.any_classifier(kind)
        batch = batch_of(of)
        real = batch.attention_mask.bool()
        for found, expected in zip(run(of, batch, cls_row_and_column), tiny.eager_attentions(of, batch), strict=True):
            for text, n in enumerate(batch.attention_mask.sum(1).tolist()):
                own = expected[text, :, :n, :n]
                place = n - 1 if kind in tiny.DECODERS else 0
                row, column = own[:, place], own[:, :, place]
                if kind == "modernbert mean":
                    row, column = own.mean(1), own.mean(2)
                assert_close(found[text, :n], torch.cat([row, column]).T)
            assert (found[:, :, : tiny.HEADS][~real] == 0).all()

    def test_means_over_heads(self, kind: str) -> None:
        of = tiny.any_classifier(kind)
        batch = batch_of(of)
        real = batch.attention_mask.bool()
        expected = tiny.eager_attentions(of, batch)
        weights = read_weights(of.model.config, batch)
        for found, row, attention in zip(
            run(of, batch, head_mean), run(of, batch, cls_row_mean), expected, strict=True
        ):
            assert_close(found[real], attention.mean(1)[real])
            wanted = torch.einsum("bq,bqk->bk", weights, attention.mean(1))
            assert_close(row, wanted)

    def test_small_blocks_change_nothing(self, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        of = tiny.any_classifier(kind)
        batch = batch_of(of)
        whole = run(of, batch, cls_row_and_column)
        monkeypatch.setattr("explearn.lens.patterns.BLOCK_ELEMENTS", 1)
        for found, expected in zip(run(of, batch, cls_row_and_column), whole, strict=True):
            assert_close(found, expected)

    def test_a_model_loaded_with_eager_attention_gives_the_same(self, kind: str) -> None:
        of = tiny.any_classifier(kind)
        batch = batch_of(of)
        real = batch.attention_mask.bool()
        expected = run(of, batch, head_mean)
        with tiny.eager(of.model):
            found = run(of, batch, head_mean)
        for a, b in zip(found, expected, strict=True):
            assert_close(a[real], b[real])

    def test_the_model_is_left_as_it_was_also_after_an_exception(self, kind: str) -> None:
        of = tiny.any_classifier(kind)
        batch, hooks = batch_of(of), tiny.hooks(of.model)
        with torch.inference_mode():
            expected = of.model(**batch.model_inputs()).logits
            with capture_attention(of.model, head_mean):
                found = of.model(**batch.model_inputs()).logits
        assert torch.equal(found, expected)

        def fail(*_: object) -> None:
            raise RuntimeError("no memory")

        with pytest.raises(RuntimeError, match="no memory"):
            run(of, batch, fail)
        assert tiny.hooks(of.model) == hooks

    def test_gradients_are_those_of_autograd_through_eager_attention(self, kind: str) -> None:
        of = tiny.any_classifier(kind)
        hooks = tiny.hooks(of.model)
        texts = tiny.TEXTS[:3]
        whole = differentiate(of, of.batch(of.encode(texts)), torch.tensor([0, 1, 1]), attentions=True, inputs=True)
        assert tiny.hooks(of.model) == hooks
        for row, (text, target) in enumerate(zip(texts, [0, 1, 1], strict=True)):
            expected = tiny.eager_gradients(of, text, target)
            n = len(expected.attentions[0][0, 0])
            assert_close(whole.logits[row], expected.logits[0])
            for layer in range(tiny.LAYERS):
                for name in ("attentions", "attention_gradients"):
                    found, wanted = getattr(whole, name)[layer][row, :, :n, :n], getattr(expected, name)[layer][0]
                    # No gradient is asked for where nothing is attended to.
                    seen = expected.attentions[layer][0] > 0
                    assert_close(found[seen], wanted[seen])
                for name in ("inputs", "input_gradients"):
                    found, wanted = getattr(whole, name)[layer][row, :n], getattr(expected, name)[layer][0]
                    assert_close(found, wanted)

    def test_layers_below_the_first_one_asked_for_build_no_graph(self, kind: str) -> None:
        of = tiny.any_classifier(kind)
        batch = batch_of(of)
        last = differentiate(of, batch, None, attentions=True, first_layer=-1)
        assert len(last.attentions) == 1
        every = differentiate(of, batch, None, attentions=True)
        assert_close(last.attention_gradients[-1], every.attention_gradients[-1])


@pytest.mark.parametrize("kind", ["modernbert", "modernbert mean", "llama", "gpt2"])
def test_where_the_kernel_gives_no_normalisers_they_are_computed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of = tiny.any_classifier(kind)
    batch = batch_of(of)
    real = batch.attention_mask.bool()
    expected = [run(of, batch, reduce) for reduce in (cls_row_and_column, head_mean)]
    monkeypatch.setattr("explearn.lens.patterns.runs_flash_on_cpu", lambda *_: False)
    for reduce, wanted in zip((cls_row_and_column, head_mean), expected, strict=True):
        for a, b in zip(run(of, batch, reduce), wanted, strict=True):
            assert_close(a[real], b[real])


@pytest.mark.parametrize("kind", ["modernbert", *tiny.DECODERS])
def test_row_and_column_make_no_matrix_where_the_kernel_gives_the_normalisers(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were it made, a pass would take the longer the more layers are read."""

    def refuse(*_: object) -> None:
        raise AssertionError("a whole attention matrix was computed")

    monkeypatch.setattr(Pattern, "_blocks", refuse)
    of = tiny.any_classifier(kind)
    run(of, batch_of(of), cls_row_and_column)


def test_what_a_layer_keeps_has_a_graph_where_one_is_asked_for() -> None:
    of = tiny.any_classifier("modernbert")
    batch = batch_of(of)
    real = batch.attention_mask.bool()
    expected = run(of, batch, cls_row_and_column)
    table = of.model.get_input_embeddings()
    inputs = table(batch.input_ids).detach().requires_grad_()
    handle = table.register_forward_hook(lambda *_: inputs)
    try:
        with torch.enable_grad(), capture_attention(of.model, cls_row_and_column, keep_graph=True) as captured:
            of.model(**batch.model_inputs())
    finally:
        handle.remove()
    found = captured.of(1)
    assert_close(found.detach()[real], expected[1][real])
    (gradient,) = torch.autograd.grad(found[..., tiny.HEADS :][real].sum(), inputs)
    assert gradient.isfinite().all() and gradient.abs().max() > 0


@pytest.mark.parametrize("kind", tiny.DECODERS)
def test_of_a_causal_model_the_column_is_empty_but_at_the_token_that_is_read(kind: str) -> None:
    of = tiny.classifier(kind)
    batch = batch_of(of)
    last = last_tokens(batch)
    assert read_position(of.model.config, batch.input_ids).tolist() == last.tolist()  # type: ignore[union-attr]
    for found in run(of, batch, cls_row_and_column):
        row, column = found[..., : tiny.HEADS], found[..., tiny.HEADS :]
        for text, place in enumerate(last.tolist()):
            assert (column[text, :place] == 0).all()
            torch.testing.assert_close(column[text, place], row[text, place])


def test_the_last_token_is_the_last_that_is_not_the_padding_id() -> None:
    """As transformers finds it, by the id: also padding inside a text, and a text of padding alone."""
    config = tiny.classifier("gpt2").model.config
    pad = config.pad_token_id
    ids = torch.tensor([[5, 6, 7, pad], [5, pad, 7, 8], [pad, pad, pad, pad]])
    found = read_position(config, ids)
    assert found is not None and found.tolist() == [2, 3, 0]


def test_local_layers_see_no_further_than_their_window() -> None:
    of = tiny.any_classifier("modernbert")
    batch = of.batch(of.encode([tiny.TEXTS[3]]))
    first, second, _ = run(of, batch, head_mean)
    n = first.shape[1]
    distance = (torch.arange(n)[:, None] - torch.arange(n)).abs()
    assert n > 6 and (first > 0).all()
    assert (second[0][distance > 2] == 0).all() and (second[0][distance <= 2] > 0).all()


def test_heads_may_be_wider_than_the_model_by_their_number() -> None:
    assert head_size(tiny.classifier("gemma").model.config) == 12
    assert head_size(tiny.classifier("bert").model.config) == tiny.HIDDEN // tiny.HEADS
    assert head_size(tiny.classifier("deberta-v2").model.config) == tiny.HIDDEN // tiny.HEADS


def test_what_the_head_reads() -> None:
    assert reads(tiny.any_classifier("modernbert mean").model.config) == "mean"
    assert reads(tiny.any_classifier("modernbert").model.config) == "first"
    assert reads(tiny.classifier("llama").model.config) == "last"


def test_an_attention_that_cannot_be_seen_is_refused_before_a_score_is_made() -> None:
    """A kernel that is neither torch's attention nor a softmax, such as a flash kernel."""
    of = tiny.make_classifier("llama")
    batch = batch_of(of)
    for block in blocks_in_order(of.model.base_model):
        block.self_attn.forward = lambda hidden_states, **_: (hidden_states, None)  # type: ignore[assignment]
    with pytest.raises(UnsupportedError, match="'llama' model has 3 layers, and 0 of them computed attention"):
        differentiate(of, batch, None, attentions=True)


class TestPattern:
    """Two tokens by hand: Q K^T = (0 ln 3; 0 0)."""

    query = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]])
    key = torch.tensor([[[[0.0, 0.0], [1.0986123, 0.0]]]])

    def test_without_a_mask(self) -> None:
        pattern = Pattern(torch.ones(1, 2, dtype=torch.bool), torch.tensor([0]))
        torch.testing.assert_close(pattern.row(self.query, self.key), torch.tensor([[[0.25, 0.75]]]))
        torch.testing.assert_close(pattern.head_mean(self.query, self.key), torch.tensor([[[0.25, 0.75], [0.5, 0.5]]]))

    def test_with_a_causal_mask_and_the_last_token_read(self) -> None:
        causal = torch.ones(1, 1, 2, 2, dtype=torch.bool).tril()
        pattern = Pattern(torch.ones(1, 2, dtype=torch.bool), torch.tensor([1]), causal)
        found = pattern.row_and_column(self.query, self.key)
        torch.testing.assert_close(found, torch.tensor([[[0.5, 0.0], [0.5, 0.5]]]))

    def test_a_query_that_sees_nothing_attends_to_nothing_and_has_no_nan_gradient(self) -> None:
        query = self.query.clone().requires_grad_()
        mask = torch.tensor([[[[False, False], [True, False]]]])
        found = probabilities(query, self.key, mask)
        assert found.tolist() == [[[[0.0, 0.0], [1.0, 0.0]]]]
        found[..., 0].sum().backward()
        assert query.grad is not None and query.grad.isfinite().all()


def test_calls_are_seen_in_their_own_thread_and_while_entered_alone() -> None:
    seen: list[Call] = []
    q = torch.randn(1, 4, 3, 2)
    k = torch.randn(1, 2, 3, 2)
    with AttentionCalls(seen.append):  # type: ignore[arg-type]
        torch.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True, scale=2.0)
        torch.nn.functional.softmax(q, dim=-1)
        torch.nn.functional.softmax(q[0, 0], dim=-1)  # no attention matrix
    torch.nn.functional.softmax(q, dim=-1)
    fused, written = seen
    assert fused.query is not None and fused.key is not None and fused.mask is not None
    torch.testing.assert_close(fused.query, 2 * q)
    torch.testing.assert_close(fused.key, k[:, [0, 0, 1, 1]])
    assert fused.mask[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    torch.testing.assert_close(written.attention, q.softmax(-1))


def test_every_entry_whose_attention_is_seen_at_calls_is_tested_here() -> None:
    told = {name for name, entry in ARCHITECTURES.items() if entry.attention == "calls"}
    assert told == {kind.split()[0] for kind in KINDS}
    assert layer_count(tiny.classifier("gpt2").model) == tiny.LAYERS


def test_on_the_cpu_in_bf16_features_are_finite() -> None:
    of = Classifier(
        tiny.model("llama"), tiny.tokenizer("llama"), ComputeOptions(device="cpu", precision="bf16"), "llama"
    )
    with capture_attention(of.model, cls_row_and_column) as captured, torch.inference_mode(), of.autocast():
        of.model(**batch_of(of).model_inputs())
    assert captured.of(0).dtype == torch.float32 and captured.of(0).isfinite().all()

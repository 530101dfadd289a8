"""Parts of each layer's attention, against transformers' own written-out attention and against the model left alone."""

import pytest
import tiny
import torch
from saying import complaint

import explearn
from explearn import ComputeOptions, TransformerPredictor, UnsupportedError
from explearn.lens.attention import BLOCK_ELEMENTS, Attention, layer_count, read_weights, reduced_attention
from explearn.lens.features import batch_features
from explearn.predictors.architectures import ARCHITECTURES, blocks_in_order
from explearn.predictors.encoding import Batch

TEXTS = [*tiny.TEXTS, *tiny.PAIRS]
TOLERANCE = 1e-5
"""Of attention in float32: rounding of logits of a size of about 10, 10 x 2^-24, grows with the products' length."""

KINDS = tiny.SEEN


def run(of, batch, reduce, **options):
    return reduced_attention(of, batch, reduce, **options)[1]


def row_and_column(kind, matrix):
    """Of one text's attention without padding, (heads, n, n), what is of the token that is read, (n, 2 heads)."""
    if kind in ("modernbert mean", "eurobert"):
        return torch.cat([matrix.mean(1), matrix.mean(2)]).T
    position = -1 if kind in (*tiny.DECODERS, *tiny.MORE_DECODERS) else 0
    return torch.cat([matrix[:, position], matrix[:, :, position]]).T


def test_every_entry_whose_attention_is_seen_is_tested_here():
    like_roberta = {"camembert", "xlm-roberta"}
    assert {name for name, entry in ARCHITECTURES.items() if entry.attention} == {
        *(kind.split()[0] for kind in KINDS),
        *like_roberta,
    }


@pytest.mark.parametrize("kind", KINDS)
class TestAgainstEagerAttention:
    @pytest.mark.parametrize("block", [BLOCK_ELEMENTS, 1])
    def test_rows_columns_and_means_over_heads(self, kind, block, monkeypatch):
        monkeypatch.setattr("explearn.lens.attention.BLOCK_ELEMENTS", block)
        of = tiny.classifier(kind)
        batch = tiny.batch(of, TEXTS)
        padding = batch.attention_mask == 0
        assert padding.any()
        layers = run(of, batch, lambda layer: (layer.row_and_column(), layer.row(), layer.head_mean()))
        assert len(layers) == layer_count(of.model) == tiny.LAYERS
        for (both, row, mean), matrices in zip(layers, tiny.eager_attentions(of, batch), strict=True):
            assert torch.equal(row, both[..., : tiny.HEADS])
            assert (row[padding] == 0).all()
            for text, n in enumerate(batch.attention_mask.sum(1).tolist()):
                matrix = matrices[text, :, :n, :n]
                torch.testing.assert_close(both[text, :n], row_and_column(kind, matrix), atol=TOLERANCE, rtol=0)
                torch.testing.assert_close(mean[text, :n, :n], matrix.mean(0), atol=TOLERANCE, rtol=0)

    def test_the_model_gives_the_same_to_the_bit_and_is_left_as_it_was(self, kind):
        of = tiny.classifier(kind)
        batch = tiny.batch(of, TEXTS)
        hooks = tiny.hooks(of.model)
        implementation = of.model.config._attn_implementation
        with torch.inference_mode():
            expected = of.model(**batch.model_inputs()).logits
        assert torch.equal(reduced_attention(of, batch, Attention.row_and_column)[0], expected)

        def fail(_):
            raise RuntimeError("no memory")

        with pytest.raises(RuntimeError, match="no memory"):
            run(of, batch, fail)
        assert tiny.hooks(of.model) == hooks and of.model.config._attn_implementation == implementation


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_under_autocast_the_attention_is_that_of_what_the_model_computed(kind):
    of = tiny.make_classifier(kind, precision="bf16")
    batch = tiny.batch(of, TEXTS)
    actual = run(of, batch, Attention.row_and_column)
    exact = run(tiny.classifier(kind), batch, Attention.row_and_column)
    real = batch.attention_mask.bool()
    for low, wanted in zip(actual, exact, strict=True):
        assert low.dtype == torch.float32
        # bf16 has 8 bits, and three layers round.
        torch.testing.assert_close(low[real], wanted[real], atol=12 * 2**-8, rtol=0)


def test_groups_of_several_layers_in_albert():
    """Its `num_hidden_layers` then counts groups; each layer of a group runs."""
    of = tiny.make_classifier("albert")
    of.model = tiny.model("albert", inner_group_num=2)
    batch = tiny.batch(of, TEXTS)
    expected = tiny.eager_attentions(of, batch)
    assert layer_count(of.model) == len(expected) == 2 * tiny.LAYERS
    actual = batch_features(of, batch, [3]).attention[..., : tiny.HEADS]
    torch.testing.assert_close(actual, expected[3][:, :, 0].transpose(1, 2), atol=TOLERANCE, rtol=0)


def test_the_last_token_is_the_last_that_is_not_the_padding_id():
    """As transformers finds it, by the id: also padding inside a text, and a text of padding alone."""
    model = tiny.classifier("gpt2").model
    pad = model.config.pad_token_id
    ids = torch.tensor([[5, 6, 7, pad], [5, pad, 7, 8], [pad, pad, pad, pad]])
    weights = read_weights(model, Batch((), ids, torch.ones_like(ids), None))
    assert weights.argmax(-1).tolist() == [2, 3, 0]


class TestByHand:
    """Two tokens: Q K^T = (0 ln 3; 0 0)."""

    query = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]])
    key = torch.tensor([[[[0.0, 0.0], [1.0986123, 0.0]]]])

    def test_a_query_that_sees_nothing_attends_to_nothing_and_has_no_nan_gradient(self):
        query = self.query.clone().requires_grad_()
        mask = torch.tensor([[[[False, False], [True, False]]]])
        actual = Attention(query, self.key, mask=mask).matrix()
        assert actual.tolist() == [[[[0.0, 0.0], [1.0, 0.0]]]]
        actual[..., 0].sum().backward()
        assert query.grad is not None and query.grad.isfinite().all()


class TestRefusals:
    def test_attention_by_other_functions_than_torch_s_own(self):
        model = tiny.model("bert")
        model.set_attn_implementation("flex_attention")
        of = TransformerPredictor(model, tiny.tokenizer("bert"), ComputeOptions(device="cpu"))
        for name in ("rollout", "attn_lrp", "attcat", "cam", "decompx", "input_x_gradient", "integrated_gradients"):
            complaint(lambda name=name: explearn.get_explainer(name).explain(of, TEXTS), f"{name}: ", "ttention")
        assert explearn.explain(of, TEXTS[0]).method == "occlusion"

    def test_a_decoder_whose_tokens_see_only_what_stands_before_them(self):
        with pytest.raises(UnsupportedError, match="decoder"):
            layer_count(tiny.model("bert", is_decoder=True))

    def test_an_attention_that_cannot_be_seen(self):
        """A kernel that is neither torch's attention nor a softmax, such as a flash kernel."""
        of = tiny.make_classifier("llama")
        for block in blocks_in_order(of.model.base_model):
            block.self_attn.forward = lambda hidden_states, **_: (hidden_states, None)
        with pytest.raises(UnsupportedError, match="'llama' model has 3 layers, and 0 of them computed attention"):
            run(of, tiny.batch(of, TEXTS), Attention.head_mean)

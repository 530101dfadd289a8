"""Every method on every kind of architecture: explained as its formula says, or refused in one sentence.

The references are slow and plain: transformers' written-out attention, one text at a time, autograd, loops.
"""

import functools

import numpy as np
import pytest
import tiny
import torch

import explearn
from explearn import UnsupportedError
from explearn.lens.hooks import Hooks
from explearn.lens.listed_head import head_states
from explearn.methods.attention.explainers import flows

POST_NORM = ("bert", "roberta", "distilbert", "xlm-roberta")
PROJECTED = ("albert", "electra")
"""A linear map follows the embeddings."""
BIASED = ("deberta-v2", "mpnet")
PRE_NORM = ("modernbert", "modernbert mean", *tiny.DECODERS)
SEEN = (*POST_NORM, *BIASED, *PRE_NORM)
KINDS = (*SEEN, "longformer")

TEXT = "unbelievably slow delivery and a quick dog"
TARGET = 1
LRP = {"full_lrp", "transformer_attribution"}
TAKES_BLOCKS_APART = {*LRP, "lrp", "alti", "globenc", "decompx"}
LOOKS_INSIDE = {
    *TAKES_BLOCKS_APART,
    *("raw_attention", "attention_mean", "rollout", "attention_flow"),
    *("gae", "mgae", "cam", "grad_cam", "cat", "attcat", "attn_lrp", "gim", "libragrad"),
}


def refused(kind):
    """Method -> what its refusal says, on an architecture."""
    if kind == "longformer":
        return dict.fromkeys(LOOKS_INSIDE, "attention of a 'longformer' model cannot be captured")
    if kind in PRE_NORM:
        actual = dict.fromkeys(TAKES_BLOCKS_APART, "here norms stand before the sub-layers")
        return {**actual, "attention_flow": "flow starts at the one token"} if kind == "modernbert mean" else actual
    return dict.fromkeys(LRP, "has no rule for the position terms that a") if kind in BIASED else {}


@pytest.mark.parametrize("kind", KINDS)
def test_every_method_explains_or_says_why_not(kind):
    of = tiny.classifier(kind)
    expected = refused(kind)
    for name in tiny.UNTRAINED:
        method = tiny.quick(name)
        if name not in expected:
            attributions = method.explain(of, [TEXT, tiny.TEXTS[0]], [TARGET, 0])
            assert [len(a.scores) for a in attributions] == [7, 4], name
            assert all(np.isfinite(a.scores).all() for a in attributions), name
            continue
        with pytest.raises(UnsupportedError, match=expected[name]) as refusal:
            method.explain(of, [])
        words = str(refusal.value)
        assert words.startswith(name) and "\n" not in words and ". " not in words
        assert of.model.config.model_type in words


@pytest.mark.parametrize("kind", ["deberta-v2", "modernbert mean", "llama", "longformer"])
def test_padding_and_order_change_no_score(kind):
    of = tiny.classifier(kind)
    for name in sorted(set(tiny.UNTRAINED) - set(refused(kind)) - tiny.QUICK.keys()):
        method = explearn.get_explainer(name)
        texts = [tiny.TEXTS[0], tiny.TEXTS[3], tiny.PAIRS[0]]
        together = method.explain(of, texts, [TARGET] * len(texts))
        for text, b in zip(texts, together, strict=True):
            (a,) = method.explain(of, [text], [TARGET])
            largest = max(0.1, float(np.abs(a.token_scores).max()))
            np.testing.assert_allclose(b.token_scores, a.token_scores, rtol=0, atol=2e-5 * largest, err_msg=name)


def token_scores(of, name, text=TEXT, **options):
    method = explearn.get_explainer(name, **options)
    scores = method.score_texts(of, of.encode([text]), [TARGET])
    return torch.from_numpy(np.asarray(scores[0].scores)).float()


def assert_close(actual, expected):
    torch.testing.assert_close(actual, expected.float(), rtol=1e-4, atol=2e-5 * max(1.0, float(expected.abs().max())))


@functools.cache
def eager_of(kind):
    return tiny.eager_gradients(tiny.classifier(kind), TEXT, TARGET)


def read_row(kind, n):
    """Which tokens the head reads, (n,)."""
    if kind == "modernbert mean":
        return torch.full((n,), 1 / n)
    place = n - 1 if kind in tiny.DECODERS else 0
    return torch.eye(n)[place]


@pytest.mark.parametrize("kind", [*SEEN, *PROJECTED])
class TestAgainstEagerAttention:
    def test_what_is_read_off_attention(self, kind):
        of = tiny.classifier(kind)
        maps = [a[0].mean(0) for a in eager_of(kind).attentions]
        n = len(maps[0])
        row = read_row(kind, n)
        assert_close(token_scores(of, "raw_attention"), row @ maps[-1])
        assert_close(token_scores(of, "attention_mean"), row @ torch.stack(maps).mean(0))
        product = torch.eye(n)
        for attention in maps:
            product = (attention + torch.eye(n)) / 2 @ product
        assert_close(token_scores(of, "rollout"), row @ product)

    def test_attention_flow_starts_at_the_token_that_is_read(self, kind):
        if kind == "modernbert mean":
            return  # refused
        of = tiny.classifier(kind)
        text = "dog"
        maps = [a[0].mean(0).double().numpy() for a in tiny.eager_gradients(of, text, TARGET).attentions]
        (encoding,) = of.encode([text])
        start = int(read_row(kind, len(encoding)).argmax())
        expected = flows(np.array(maps), encoding.positions, start)
        np.testing.assert_allclose(token_scores(of, "attention_flow", text)[encoding.positions], expected, atol=1e-5)

    def test_gradients_at_attention_and_states(self, kind):
        of = tiny.classifier(kind)
        layers = eager_of(kind)
        n = layers.attentions[0].shape[-1]
        row = read_row(kind, n)

        relevance = torch.eye(n)
        for a, g in zip(layers.attentions, layers.attention_gradients, strict=True):
            relevance = relevance + (a[0] * g[0]).relu().mean(0) @ relevance
        assert_close(token_scores(of, "gae"), row @ relevance)
        assert_close(token_scores(of, "mgae", share=1), row @ relevance)
        attention = layers.attentions[-1][0]
        gradient = layers.attention_gradients[-1][0]
        weights = torch.stack([g[a > 0].mean() for a, g in zip(attention, gradient, strict=True)])
        assert_close(token_scores(of, "grad_cam"), row @ (weights[:, None, None] * attention).mean(0).relu())
        products = [(x[0] * g[0]).sum(-1) for x, g in zip(layers.inputs, layers.input_gradients, strict=True)]
        assert_close(token_scores(of, "cat"), torch.stack(products).sum(0))
        weighted = [p * a[0].mean((0, 1)) for p, a in zip(products, layers.attentions, strict=True)]
        assert_close(token_scores(of, "attcat"), torch.stack(weighted).sum(0))

    def test_cam_is_the_logit_that_a_token_s_state_gives_less_the_bias(self, kind):
        of = tiny.classifier(kind)
        layers = eager_of(kind)
        model = of.model
        with torch.inference_mode(), Hooks() as hooks:
            encoder = hooks.record(model.base_model)
            logits = model(**tiny.batch(of, [TEXT]).model_inputs()).logits[0]
            activated, last = head_states(model, encoder.output[0][0])
            activation = activated @ last.weight[TARGET]
        row = read_row(kind, len(activation))
        assert_close(token_scores(of, "cam"), activation * (row @ layers.attentions[-1][0].mean(0)))
        if kind != "modernbert mean":  # there the head reads no one token's state
            bias = 0.0 if last.bias is None else last.bias[TARGET]
            torch.testing.assert_close(activation[int(row.argmax())] + bias, logits[TARGET], rtol=1e-4, atol=1e-4)

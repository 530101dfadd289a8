"""Heads of a user's own on an encoder that is known: explained right, or refused by name."""

import numpy as np
import pytest
import tiny
import torch
from saying import complaint
from torch import nn
from transformers import BertPreTrainedModel
from transformers.models.bert.modeling_bert import BertModel, BertPooler

import explearn
from explearn import ComputeOptions, TransformerPredictor
from explearn.methods.expnet.explainer import ExpNet
from explearn.methods.marker.explainer import Marker

STARTS_AT_CLS = ("raw_attention", "attention_mean", "rollout", "attention_flow", "gae", "mgae", "grad_cam")
TAKES_APART = ("cam", "lrp", "full_lrp", "transformer_attribution", "decompx", "alti", "globenc")
ANY_HEAD = ("attn_lrp", "attcat", "input_x_gradient", "occlusion")


class MeanPooled(BertPreTrainedModel):
    """BERT with one linear map on the mean of all tokens."""

    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, **_):
        states = self.bert(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)[0]
        real = attention_mask[..., None].to(states.dtype)
        return type("Output", (), {"logits": self.classifier((states * real).sum(1) / real.sum(1))})


class NoPooling(BertPooler):
    """The first token's state as it is."""

    def forward(self, hidden_states):
        return hidden_states[:, 0]


def of(model):
    return TransformerPredictor(model.eval(), tiny.tokenizer("bert"), ComputeOptions(device="cpu"), "own")


def changed(change):
    model = tiny.model("bert", 3)
    change(model)
    return of(model)


def scores(classifier, name):
    return np.concatenate([a.scores for a in explearn.get_explainer(name).explain(classifier, tiny.TEXTS[:2], [1, 2])])


def test_a_head_that_reads_the_mean():
    config = tiny.model("bert", 3).config
    classifier = of(MeanPooled(config))
    for name in (*STARTS_AT_CLS, *TAKES_APART):
        complaint(lambda name=name: scores(classifier, name), f"{name}: own has a head of its own")
    assert all(np.isfinite(scores(classifier, name)).all() for name in ANY_HEAD)
    labels = classifier.predict(tiny.TEXTS)
    marks = [[True] + [False] * (len(text.split()) - 1) for text in tiny.TEXTS]
    for learned in (Marker(), ExpNet(protocol="in_domain")):
        complaint(
            lambda learned=learned: learned.fit(classifier, tiny.TEXTS, marks, labels=labels),
            "own has a head of its own",
        )


def without_pooling(model):
    model.bert.pooler = NoPooling(model.config)


def without_dense(model):
    model.bert.pooler.dense = nn.Identity()


def with_two_layers(model):
    width = model.config.hidden_size
    model.classifier = nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, 3))


@pytest.mark.parametrize("change", [without_pooling, without_dense, with_two_layers])
def test_a_head_on_the_first_token_is_another_for_methods_that_take_it_apart(change):
    classifier = changed(change)
    for name in STARTS_AT_CLS:
        assert np.isfinite(scores(classifier, name)).all()
    for name in set(TAKES_APART) - {"cam"}:
        complaint(lambda name=name: scores(classifier, name), name)


def test_a_head_without_biases():
    def change(model):
        model.bert.pooler.dense = nn.Linear(tiny.HIDDEN, tiny.HIDDEN, bias=False)
        model.classifier = nn.Linear(tiny.HIDDEN, 3, bias=False)

    classifier = changed(change)
    logits = classifier.predict_logits(classifier.encode(tiny.TEXTS[:1]))[0, 1]
    (parts,) = explearn.get_explainer("decompx").explain(classifier, tiny.TEXTS[:1], [1])
    assert parts.completeness_error is not None and parts.completeness_error < 1e-4 * max(1, abs(logits))
    assert all(np.isfinite(scores(classifier, name)).all() for name in TAKES_APART)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float64))
def test_other_precisions_of_the_head_that_is_listed(dtype):
    classifier = changed(lambda model: model.to(dtype))
    assert all(np.isfinite(scores(classifier, name)).all() for name in ("gae", "cam"))


def half(_module, _inputs, output):
    return output * 0.5


def half_of_input(_module, inputs):
    return (inputs[0] * 0.5,)


def replaced(module):
    """A `forward` of somebody's own."""
    forward = module.forward
    module.forward = lambda states: forward(states) * 0.5


HOOKED = {
    "the head's output": lambda model: model.classifier.register_forward_hook(half),
    "the head's input": lambda model: model.classifier.register_forward_pre_hook(half_of_input),
    "the head's forward": lambda model: replaced(model.classifier),
    "a map to values": lambda model: model.bert.encoder.layer[1].attention.self.value.register_forward_hook(half),
    "a norm": lambda model: model.bert.encoder.layer[1].output.LayerNorm.register_forward_hook(half),
}


@pytest.mark.parametrize("hook", HOOKED)
def test_what_weights_do_not_show_is_refused_by_methods_that_read_them(hook):
    classifier = changed(lambda model: None)
    before = {name: scores(classifier, name) for name in ANY_HEAD}
    for name in TAKES_APART:
        assert np.isfinite(scores(classifier, name)).all()  # a hook is seen also after that
    HOOKED[hook](classifier.model)
    for name in TAKES_APART:
        complaint(lambda name=name: scores(classifier, name), f"{name}: own: its ", "hook")
    if hook == "a norm":
        complaint(lambda: scores(classifier, "attn_lrp"), "attn_lrp: own: its bert.encoder.layer.1.output.LayerNorm")
    elif hook == "the head's output":
        for name in set(ANY_HEAD) - {"occlusion"}:  # its scores are of probabilities
            np.testing.assert_allclose(scores(classifier, name), before[name] / 2, rtol=1e-4, atol=1e-6)


def test_a_hook_that_is_removed_is_forgotten():
    classifier = changed(lambda model: None)
    hook = classifier.model.classifier.register_forward_hook(half)
    complaint(lambda: scores(classifier, "cam"), "hook")
    hook.remove()
    assert np.isfinite(scores(classifier, "cam")).all()

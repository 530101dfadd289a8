"""Explainers trained on one device and applied to the same classifier spread over two."""

import copy
import functools

import accelerate
import numpy as np
import pytest
import tiny
import torch
from listed import listed
from pretend_devices import FIRST, SECOND, pretend_devices
from rounding import tolerance
from spread_cases import halves

from explearn import ComputeOptions, TransformerPredictor
from explearn.methods.aml.faml import FAML
from explearn.methods.aml.paml import PAML
from explearn.methods.consensus.explainer import Consensus
from explearn.methods.expnet.explainer import ExpNet
from explearn.methods.ivra.explainer import IvRA, SMaT
from explearn.methods.marker.explainer import Marker
from explearn.methods.reader.explainer import Reader

QUICK = {"epochs": 1, "batch_size": 4, "validation_texts": 6}
TEXTS = ["a warm funny sequel", "the quick brown fox"]
METHODS = {
    "consensus": Consensus,
    "marker": functools.partial(Marker, epochs=1, protocol="in_domain"),
    "expnet": functools.partial(ExpNet, epochs=1, protocol="in_domain"),
    "reader": functools.partial(Reader, samples=4, width=16, epochs=1),
    "ivra": functools.partial(IvRA, frozen=True, criteria=["cons"], schedule=QUICK),
    "ivra comp": functools.partial(IvRA, frozen=True, criteria=["comp", "suff"], schedule=QUICK),
    "smat": functools.partial(SMaT, frozen=True, criteria=["cons"], schedule=QUICK),
    "paml": functools.partial(PAML, backbone="states", epochs=1, batch_size=4),
}
OF_DECODERS = ("consensus", "marker", "expnet", "reader", "ivra", "smat")


@functools.cache
def task(kind):
    of = tiny.classifier(kind)
    texts = ["the fox sleeps", "a warm dog", "slow delivery", "no refund", "the sea shore", "a funny castle"]
    pairs = [(text, of.predict([text])[0]) for text in texts]
    gold = [(True, *[False] * (len(text.split()) - 1)) for text in texts]
    others = [listed(of, pairs, pairs, gold=gold, name=name) for name in ("one", "two")]
    return listed(of, pairs, pairs, gold=gold, others=others)


@functools.cache
def trained(name, kind):
    method = METHODS[name]().learn(task(kind))
    return method


def of_it(explainer, kind):
    """What it explains: the model that it trained, or the task's."""
    own = getattr(explainer, "classifier", None)
    return own if isinstance(own, TransformerPredictor) else tiny.classifier(kind)


def spread(one, kind):
    model = copy.deepcopy(one.model)
    accelerate.dispatch_model(model, halves(model, FIRST, SECOND), main_device=torch.device(FIRST))
    return TransformerPredictor(model, one.tokenizer, ComputeOptions(max_tokens=1024), kind)


def check_same(explainer, kind):
    one = of_it(explainer, kind)
    expected = [actual.scores for actual in explainer.explain(one, TEXTS)]
    with pretend_devices():
        two = spread(one, kind)
        assert two.spread is not None and len(two.spread.devices) == 2
        actual = [attribution.scores for attribution in explainer.explain(two, TEXTS)]
    for a, b in zip(expected, actual, strict=True):
        np.testing.assert_allclose(b, a, rtol=0, atol=tolerance(max(1.0, float(np.abs(a).max()))))


@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "bert") for name in METHODS), *((name, "gpt2") for name in OF_DECODERS)]
)
def test_a_trained_explainer_gives_the_scores_of_one_device(name, kind):
    check_same(trained(name, kind), kind)


def test_faml_goes_on_from_its_start_as_on_one_device():
    start = trained("paml", "bert")
    assert isinstance(start, PAML)
    refining = FAML(steps=2)
    refining.start = start
    check_same(refining, "bert")

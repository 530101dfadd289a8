"""Consensus and Marker notice the model: random weights and permuted labels change what they say, the words do not."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import tiny
import torch

from explearn import ComputeOptions, Example, TransformerPredictor, get_explainer
from explearn.lens.features import feature_source
from explearn.methods.consensus.explainer import Consensus
from explearn.methods.consensus.model import MarkedText
from explearn.methods.consensus.signals import compute_signals
from explearn.methods.marker.explainer import Marker
from explearn.methods.marker.network import TrainingWords, train_network
from explearn.metrics.params import SanityParams
from explearn.metrics.sanity import check_methods
from explearn.predictors.predictor import read_labelled

WORDS = ("fox", "dog", "sea", "castle", "tide", "morning", "the", "old")
TELLING = "fox"
"""The word that makes a text a `yes`."""


def texts(count, seed=0):
    generator = np.random.default_rng(seed)
    rows = [tuple(generator.choice(WORDS, size=7).tolist()) for _ in range(count)]
    return [
        Example(str(number), words, "yes" if TELLING in words else "no", "test", "t")
        for number, words in enumerate(rows)
    ]


@cache
def trained_on(permuted):
    """A tiny BERT that has learned true labels, or the same dealt out at random."""
    examples = texts(48, seed=1)
    if permuted:
        order = np.random.default_rng(2).permutation(len(examples))
        examples = [replace(e, label=examples[i].label) for e, i in zip(examples, order, strict=True)]
    made = tiny.make_classifier()
    encodings, labels = read_labelled(made, examples)
    batch = made.batch(encodings)
    wanted = torch.tensor(labels)
    made.model.requires_grad_(True)
    steps = torch.optim.AdamW(made.model.parameters(), lr=3e-3)
    with torch.enable_grad():
        for _ in range(40):
            steps.zero_grad()
            made.loss(made.logits(batch), wanted).backward()
            steps.step()
    made.model.requires_grad_(False)
    return TransformerPredictor(made.model, made.tokenizer, ComputeOptions(device="cpu"), "bert")


@cache
def checked():
    """The checks of the stage judge; `embeddings` is the part with which all weights are new."""
    methods = {
        "consensus": get_explainer("consensus"),
        "signals alone": get_explainer("consensus", word_features=False),
        "words alone": words_alone(),
        "marker": marker(),
    }
    for name, method in methods.items():
        method.name = name
    params = SanityParams(noise_samples=0)
    return check_methods(
        list(methods.values()), trained_on(False), texts(12), params, 1, 20, lambda _: trained_on(True)
    )


def words_alone():
    """A consensus without a signal, which has learned that long words are marked."""
    examples = texts(12, seed=3)
    signals = compute_signals(trained_on(False), examples)
    return Consensus(signals=[]).fit_tasks(
        {"t": [MarkedText(text, np.char.str_len(text.words) > 4) for text in signals]}, {"t": 1.0}
    )


def marker():
    """A network whose weights come from noise: what it scores, it reads from the attention."""
    made = Marker(epochs=3)
    source = feature_source(trained_on(False))
    width = 2 * source["layers"] * source["heads"]
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(64, width)).astype(np.float32))
    words = TrainingWords(x, torch.zeros(64), (x[:, 0] > 0).float(), torch.ones(64))
    made.network, _ = train_network(words, made.options, made.regime, torch.device("cpu"))
    made.layers = source["attended"]
    made.trained_classifier = source["classifier"]
    return made


def kept(name, check):
    """Mean rank correlation of a method's scores before and after."""
    result = checked()[name]
    assert not result.skipped
    similarity = result.random_labels if check == "permuted labels" else result.random_model["embeddings"]
    assert similarity is not None and similarity.spearman is not None
    return similarity.spearman


def test_the_classifiers_have_learned_what_they_were_taught():
    examples = texts(48, seed=1)
    labels = np.array([example.label for example in examples])
    right, permuted = (np.mean(trained_on(permuted).predict(examples) == labels) for permuted in (False, True))
    assert right > 0.9 > permuted


@pytest.mark.parametrize("check", ["random weights", "permuted labels"])
class TestAnotherModel:
    @pytest.mark.parametrize("name", ["consensus", "signals alone", "marker"])
    def test_the_scores_change(self, name, check):
        assert kept(name, check) < 0.8

    def test_words_alone_stay_as_they_are(self, check):
        assert kept("words alone", check) == pytest.approx(1)

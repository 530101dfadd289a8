"""A classifier, explainers trained for it, and bundles of them."""

import json
from itertools import product

import numpy as np
import pytest
import tiny
from listed import listed

from explearn.methods.aml.paml import PAML
from explearn.methods.ivra.explainer import IvRA
from explearn.methods.marker.explainer import Marker
from explearn.methods.reader.explainer import Reader

TEXTS = ["the quick brown fox", "unbelievably slow delivery and no refund"]
QUICK = {"epochs": 1, "batch_size": 4, "validation_texts": 4}
LEARNED = {
    "marker_in_domain": Marker(epochs=2, protocol="in_domain"),
    "reader": Reader(samples=4, width=16, epochs=2),
    "ivra": IvRA(schedule=QUICK),
    "paml": PAML(epochs=1, batch_size=4),
}
FIGURES = {"f1": 0.25, "f1_low": 0.2, "f1_high": 0.3, "auroc": None, "sufficiency": 0.5, "texts": 60, "odd": [1]}


def scores(actual):
    return [attribution.scores.tolist() for attribution in actual]


def same(actual, expected):
    """The same scores but for the last digits, which where in memory a tensor lies may change."""
    for a, b in zip(scores(actual), scores(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """The classifier that the explainers are trained for."""
    return tiny.save(tmp_path_factory.mktemp("model") / "my-classifier")


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Folders of trained explainers, by method."""
    of = tiny.classifier()
    place = tmp_path_factory.mktemp("explainers")
    texts = [f"{one} the {other} sleeps" for one, other in product(("fox", "dog", "sea"), ("tide", "castle"))]
    pairs = [(text, of.predict([text])[0]) for text in texts]
    encoder = str(tiny.save(place / "encoder"))
    task = listed(of, pairs, pairs, gold=[(True, False, False, False)] * len(pairs), encoder=encoder)
    for name, explainer in LEARNED.items():
        explainer.learn(task).save_pretrained(place / name)
    return {name: place / name for name in LEARNED}


@pytest.fixture
def metrics(tmp_path):
    """A run's metrics of two tasks."""
    path = tmp_path / "metrics.json"
    path.write_text(json.dumps({"headline": {}, "tasks": {"reviews": {"reader": FIGURES}, "topics": {"rollout": {}}}}))
    return path

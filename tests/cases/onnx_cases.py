"""Tiny classifiers with explainers trained for them, to be exported to ONNX."""

from itertools import product

import tiny
from listed import fit

import explearn
from explearn import ComputeOptions, LearnedExplainer, TransformerPredictor

LIMIT = 24
"""Most sub-tokens of a text."""

MORE = 4
"""Times that Reader is given the texts, of which it holds some out."""

TEXTS = [
    f"{one} the {other} sleeps" for one, other in product(("fox", "unbelievably"), ("tide", "castle", "beautiful"))
]

OPTIONS = {
    "marker_in_domain": {"epochs": 2},
    "expnet": {"epochs": 2, "protocol": "in_domain"},
    "reader": {"samples": 4, "width": 16, "epochs": 2},
}


def classifier(kind, classes=2, **config):
    """Of two layers, named by its architecture."""
    made = tiny.model(kind, classes, **{"num_hidden_layers": 2, **config})
    return TransformerPredictor(made, tiny.tokenizer(kind, LIMIT), ComputeOptions(device="cpu", precision="fp32"), kind)


def explainer(name, of, **options):
    """Trained, for seconds, on texts of which the first word is marked."""
    pairs = [(text, of.labels[number % len(of.labels)]) for number, text in enumerate(TEXTS)]
    if of.problem.value != "multi_label":
        pairs = [(text, of.predict([text])[0]) for text in TEXTS]
    method = explearn.get_explainer(name, **{**OPTIONS[name], **options})
    assert isinstance(method, LearnedExplainer)
    return fit(method, of, pairs, [(True, False, False, False)] * len(TEXTS), pairs * MORE)

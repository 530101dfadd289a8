"""Tiny classifiers with explainers trained for them, to be exported to ONNX."""

from __future__ import annotations

from typing import Any

import tiny

import explearn
from explearn.core.compute import ComputeOptions
from explearn.methods.base.learned import LearnedExplainer
from explearn.methods.l2e.explainer import L2E
from explearn.methods.listed_task import ListedTask
from explearn.model.classifier import Classifier

LIMIT = 24
"""Most sub-tokens of a text."""

TEXTS = [f"{one} the {other} sleeps" for one in ("fox", "unbelievably") for other in ("tide", "castle", "beautiful")]

OPTIONS: dict[str, dict[str, Any]] = {
    "expnet_in_domain": {"epochs": 2},
    "expnet_paper": {"epochs": 2, "protocol": "in_domain"},
    "l2e": {"teacher": "occlusion", "layers": 1, "width": 16, "epochs": 2},
}


def classifier(kind: str, classes: int = 2, **config: Any) -> Classifier:
    """Of two layers, named by its architecture."""
    layers = {"distilbert": "n_layers"}.get(kind, "num_hidden_layers")
    made = tiny.model(kind, classes, **{layers: 2, **config})
    return Classifier(made, tiny.tokenizer(kind, LIMIT), ComputeOptions(device="cpu", precision="fp32"), kind)


def explainer(name: str, of: Classifier, **options: Any) -> LearnedExplainer:
    """Trained, for seconds, on texts of which the first word is marked."""
    pairs = [(text, of.labels[number % len(of.labels)]) for number, text in enumerate(TEXTS)]
    if of.problem.value != "multi_label":
        pairs = [(text, of.predict([text])[0]) for text in TEXTS]
    gold = {f"train-{number}": (True, False, False, False) for number in range(1, len(TEXTS) + 1)}
    found = explearn.get_explainer(name, **{**OPTIONS[name], **options})
    assert isinstance(found, LearnedExplainer)
    found.fit(ListedTask(of, pairs, pairs, gold=gold))
    if isinstance(found, L2E) and found.student is not None:
        # Training for seconds leaves weights so small that neither the class nor the words around count.
        for weights in found.student.blocks.parameters():
            weights.mul_(6)
    return found

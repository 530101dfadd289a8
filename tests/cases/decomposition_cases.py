"""What tests of DecompX share."""

from __future__ import annotations

import functools
from typing import Any

import tiny
import torch

from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch

METHODS = ("alti", "globenc", "decompx")


VARIANTS: dict[str, dict[str, Any]] = {
    "decompx": {},
    "decompx__no_biases": {"bias": "none"},
    "decompx__bias_norm": {"bias": "norm"},
    "decompx__bias_equal": {"bias": "equal"},
    "decompx__gelu_la": {"activation": "linear"},
    "decompx__tanh_la": {"head_activation": "linear"},
}
"""Name in the reference -> options here."""


OPTIONS: list[dict[str, Any]] = [
    *VARIANTS.values(),
    {"first_layer_bias": "shared"},
    {"first_layer_bias": "shared", "bias": "none"},
    {"first_layer_bias": "shared", "bias": "norm", "activation": "linear", "head_activation": "linear"},
]


def make_classifier(kind: str, **options: Any) -> Classifier:
    """A tiny classifier whose biases are not 0 and whose layer norms' weights are not 1."""
    of = tiny.make_classifier(kind, 3, **options)
    generator = torch.Generator().manual_seed(1)
    for parameter in of.model.parameters():
        if parameter.dim() == 1:
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.25)
    return of


@functools.cache
def double_classifier(kind: str) -> Classifier:
    of = make_classifier(kind)
    of.model.double()
    return of


def batch_of(of: Classifier, *texts: Any) -> Batch:
    return of.batch(of.encode(texts))

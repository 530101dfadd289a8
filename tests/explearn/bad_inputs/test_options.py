"""Options of methods and of computing that are not what was expected: a sentence each."""

from __future__ import annotations

from typing import Any

import pytest
from saying import complaint

import explearn
from explearn.core.compute import ComputeOptions

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("nobody", {}),
    ("", {}),
    ("rolout", {}),
    ("rollout", {"nonsense": 1}),
    ("lime", {"samples": 10**12}),
    ("lime", {"samples": 1e12}),
    ("lime", {"samples": "1e12"}),
    ("lime", {"samples": 1}),
    ("lime", {"samples": True}),
    ("lime", {"samples": None}),
    ("lime", {"seed": -1}),
    ("lime", {"seed": 2**32}),
    ("lime", {"seed": 10**40}),
    ("lime", {"seed": "\u00b2"}),
    ("lime", {"kernel_width": 0}),
    ("lime", {"kernel_width": float("nan")}),
    ("lime", {"kernel_width": float("inf")}),
    ("lime", {"kernel_width": "wide"}),
    ("lime", {"removal": "burn"}),
    ("lime", {"removal": ["mask"]}),
    ("lime", {"output": "logits"}),
    ("random", {"seed": -1}),
    ("random", {"seed": "x"}),
    ("random", {"seed": 2**32}),
    ("partition_shap", {"max_evals": 10**12}),
    ("partition_shap", {"max_evals": 3}),
    ("partition_shap", {"batch_size": 0}),
    ("partition_shap", {"level": "letter"}),
    ("kernel_shap", {"samples": 10**12}),
    ("kernel_shap", {"features": 0}),
    ("kernel_shap", {"seed": 1.5}),
    ("integrated_gradients", {"steps": 10**12}),
    ("integrated_gradients", {"steps": 0}),
    ("integrated_gradients", {"baseline": "nothing"}),
    ("integrated_gradients", {"quadrature": "simpson"}),
    ("gradient_shap", {"samples": 10**12}),
    ("gradient_shap", {"stdevs": -1}),
    ("gradient_shap", {"stdevs": float("inf")}),
    ("gradient_shap", {"seed": 2**32}),
    ("deep_shap", {"references": 10**12}),
    ("deep_shap", {"seed": 2**40}),
    ("sequential_ig", {"steps": 10**12}),
    ("solvex", {"beam": 10**12}),
    ("solvex", {"max_words": 0}),
    ("solvex", {"metric": "accuracy"}),
    ("raw_attention", {"layer": "last"}),
    ("expnet", {"hidden": 1e10}),
    ("expnet", {"hidden": "16x"}),
    ("expnet", {"epochs": -1}),
    ("expnet", {"nonsense": 3}),
    ("expnet", {"seed": -1}),
    ("expnet", {"seed": 2**32}),
    ("l2e", {"width": 30}),
    ("l2e", {"teacher": 3}),
    ("ivra", {"criteria": ["comp", "comp"]}),
    ("ivra", {"schedule": {"epochs": 10**12}}),
    ("consensus", {"bootstrap": 10**12}),
    ("consensus", {"aim": 2}),
    ("consensus", {"signals": ["gae", "gae"]}),
    ("consensus", {"signals": None}),
    ("consensus", {"signals": ["nobody"]}),
    ("paml", {"percents": [0]}),
    ("paml", {"trials": -1}),
    ("faml", {"rank": 10**12}),
    ("gradient_shap", {"references": "a text"}),
]


@pytest.mark.parametrize(("method", "options"), OPTIONS, ids=lambda value: ascii(value)[:40])
def test_options_of_methods(method: str, options: dict[str, Any]) -> None:
    name = {"partition_shap": "shap"}.get(method, method)
    complaint(lambda: explearn.get_explainer(name, **options))


COMPUTE: list[dict[str, Any]] = [
    {"device": "tpu"},
    {"device": "cuda:\u00b2"},
    {"device": "cuda:x"},
    {"device": "cuda:999999999999999999999999"},
    {"device": "cpu:1"},
    {"device": "cuda:"},
    {"device": "cpu\n"},
    {"device": None},
    {"device": 3},
    {"device": ["cpu"]},
    {"device": ""},
    {"precision": "fp8"},
    {"precision": None},
    {"device": "cpu", "precision": "fp16"},
    {"max_tokens": 0},
    {"max_tokens": "many"},
    {"max_tokens": True},
    {"max_tokens": 10**20},
    {"max_tokens": 1.5},
]


@pytest.mark.parametrize("options", COMPUTE, ids=ascii)
def test_compute_options(options: dict[str, Any]) -> None:
    def resolve() -> None:
        compute = ComputeOptions(**options)
        compute.resolve_dtype(compute.resolve_device())

    complaint(resolve)

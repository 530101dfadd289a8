"""Explanations by onnxruntime: a classifier and its trained explainer in one ONNX graph.

from explearn_apps.onnx import OnnxExplainer

explainer = OnnxExplainer("marker.onnx")
for attribution in explainer.explain(["A warm and funny film."]):
    attribution.print()

`explearn export-onnx` and `export_onnx` write such a file. Reading one needs neither PyTorch nor transformers.
`OnnxPredictor` makes its classifier one that other methods explain, and needs PyTorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from explearn_apps.onnx.runtime import OnnxExplainer

if TYPE_CHECKING:
    from explearn_apps.onnx.predictor import OnnxPredictor
    from explearn_apps.onnx.writing import export_onnx

__all__ = ["OnnxExplainer", "OnnxPredictor", "export_onnx"]

_MODULES = {"OnnxPredictor": "predictor", "export_onnx": "writing"}
"""Names whose modules load torch, which reading does without."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"explearn_apps.onnx.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

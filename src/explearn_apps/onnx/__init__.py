"""Explanations by onnxruntime: a classifier and its trained explainer in one ONNX graph.

from explearn_apps.onnx import OnnxExplainer

explainer = OnnxExplainer("marker.onnx")
for attribution in explainer.explain(["A warm and funny film."]):
    attribution.print()

`explearn export-onnx` and `export_onnx` write such a file. Reading one needs neither PyTorch nor transformers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from explearn_apps.onnx.runtime import OnnxExplainer

if TYPE_CHECKING:
    from explearn_apps.onnx.writing import export_onnx

__all__ = ["OnnxExplainer", "export_onnx"]


def __getattr__(name: str) -> Any:
    # Writing loads torch, which reading does without.
    if name == "export_onnx":
        return importlib.import_module("explearn_apps.onnx.writing").export_onnx
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

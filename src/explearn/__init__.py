"""Explearn: explainers that learn to explain text classifiers, judged against the established attribution methods.

A predictor is what is explained, an explainer makes attributions of its predictions, and metrics say how good they are:

    import explearn

    classifier = explearn.load_classifier("FOLDER_OR_HUB_NAME")
    attribution = explearn.explain(classifier, "A warm, funny and wholly unnecessary sequel.")
    attribution.print()
    print(explearn.evaluate(classifier, [attribution], metrics=["comprehensiveness"]))
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from explearn.core.compute import ComputeOptions
from explearn.core.errors import (
    DataError,
    DeviceError,
    ExplearnError,
    ModelError,
    ParamsError,
    UnknownNameError,
    UnsupportedError,
)
from explearn.core.extras import MissingExtraError
from explearn.methods.info import About, MethodInfo
from explearn.methods.registry import get_explainer, get_info, list_explainers, register

if TYPE_CHECKING:
    from explearn.api import explain, load
    from explearn.auditing.diff import diff
    from explearn.auditing.findings import Audit, Diff
    from explearn.auditing.reading import AuditOptions
    from explearn.auditing.run import audit
    from explearn.bundle.export import export
    from explearn.bundle.loading import Bundle
    from explearn.comparison.run import CompareOptions, Comparison, compare
    from explearn.comparison.texts import TextColumns
    from explearn.core.attribution import Attribution, Interaction
    from explearn.core.examples import Example, Rationale
    from explearn.core.record import Certificate
    from explearn.core.word_tables import to_arrow, to_frame
    from explearn.decision.document import DecisionRecord
    from explearn.decision.record import record
    from explearn.evaluation.result import Evaluation
    from explearn.evaluation.run import EvaluateOptions, evaluate
    from explearn.methods.base.explainer import BatchExplainer, BatchScores, Explainer
    from explearn.methods.base.learned import LearnedExplainer
    from explearn.methods.interactions import interactions
    from explearn.metrics.base import Metric
    from explearn.metrics.registry import get_metric, list_metrics, register_metric
    from explearn.predictors.function import FunctionPredictor
    from explearn.predictors.llm.classifier import LLMClassifier
    from explearn.predictors.predictor import Predictor
    from explearn.predictors.pretrained import load_classifier
    from explearn.predictors.transformer import TransformerPredictor
    from explearn.show.attributions import Attributions
    from explearn.training import finetune, train

__all__ = [
    "About",
    "Attribution",
    "Attributions",
    "Audit",
    "AuditOptions",
    "BatchExplainer",
    "BatchScores",
    "Bundle",
    "Certificate",
    "CompareOptions",
    "Comparison",
    "ComputeOptions",
    "DataError",
    "DecisionRecord",
    "DeviceError",
    "Diff",
    "EvaluateOptions",
    "Evaluation",
    "Example",
    "Explainer",
    "ExplearnError",
    "FunctionPredictor",
    "Interaction",
    "LLMClassifier",
    "LearnedExplainer",
    "MethodInfo",
    "Metric",
    "MissingExtraError",
    "ModelError",
    "ParamsError",
    "Predictor",
    "Rationale",
    "TextColumns",
    "TransformerPredictor",
    "UnknownNameError",
    "UnsupportedError",
    "audit",
    "compare",
    "diff",
    "evaluate",
    "explain",
    "export",
    "finetune",
    "get_explainer",
    "get_info",
    "get_metric",
    "interactions",
    "list_explainers",
    "list_metrics",
    "load",
    "load_classifier",
    "record",
    "register",
    "register_metric",
    "to_arrow",
    "to_frame",
    "train",
]

_LAZY = {
    "explearn.api": ("explain", "load"),
    "explearn.auditing.diff": ("diff",),
    "explearn.auditing.findings": ("Audit", "Diff"),
    "explearn.auditing.reading": ("AuditOptions",),
    "explearn.auditing.run": ("audit",),
    "explearn.bundle.export": ("export",),
    "explearn.bundle.loading": ("Bundle",),
    "explearn.comparison.run": ("CompareOptions", "Comparison", "compare"),
    "explearn.comparison.texts": ("TextColumns",),
    "explearn.core.attribution": ("Attribution", "Interaction"),
    "explearn.core.examples": ("Example", "Rationale"),
    "explearn.core.record": ("Certificate",),
    "explearn.core.word_tables": ("to_arrow", "to_frame"),
    "explearn.decision.document": ("DecisionRecord",),
    "explearn.decision.record": ("record",),
    "explearn.evaluation.result": ("Evaluation",),
    "explearn.evaluation.run": ("EvaluateOptions", "evaluate"),
    "explearn.metrics.base": ("Metric",),
    "explearn.metrics.registry": ("get_metric", "list_metrics", "register_metric"),
    "explearn.methods.base.explainer": ("BatchExplainer", "BatchScores", "Explainer"),
    "explearn.methods.base.learned": ("LearnedExplainer",),
    "explearn.methods.interactions": ("interactions",),
    "explearn.predictors.function": ("FunctionPredictor",),
    "explearn.predictors.llm.classifier": ("LLMClassifier",),
    "explearn.predictors.predictor": ("Predictor",),
    "explearn.predictors.pretrained": ("load_classifier",),
    "explearn.predictors.transformer": ("TransformerPredictor",),
    "explearn.show.attributions": ("Attributions",),
    "explearn.training": ("finetune", "train"),
}
"""Module -> names exported from it, loaded lazily: importing torch takes seconds, `import explearn` must not."""


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    for module, names in _LAZY.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    if name == "metrics":
        return importlib.import_module("explearn.metrics")
    if name == "__version__":
        from importlib import metadata

        return metadata.version("explearn")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Explearn: explainers that learn to explain text classifiers, judged against the established attribution methods.

import explearn

classifier = explearn.load_classifier("data/classifiers/reviews")
method = explearn.get_explainer("rollout")
for attribution in method.explain(classifier, ["A warm, funny and wholly unnecessary sequel."]):
    attribution.print()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from explearn.core.errors import ExplearnError
from explearn.methods.info import About, MethodInfo
from explearn.methods.registry import get_explainer, get_info, list_explainers, register

if TYPE_CHECKING:
    from explearn.bundle.export import export
    from explearn.bundle.loading import Bundle, load
    from explearn.comparison.result import Comparison
    from explearn.comparison.run import compare
    from explearn.comparison.texts import TextColumns
    from explearn.core.attribution import Attribution
    from explearn.core.examples import Example, Rationale
    from explearn.core.word_tables import to_arrow, to_frame
    from explearn.methods.base.explainer import BatchExplainer, BatchScores, Explainer
    from explearn.methods.base.learned import LearnedExplainer
    from explearn.methods.explaining import explain
    from explearn.methods.interactions import interactions
    from explearn.methods.listed_task import ListedTask
    from explearn.predictors.function import FunctionPredictor
    from explearn.predictors.transformer import TransformerPredictor
    from explearn.show.side_by_side import SideBySide, side_by_side
    from explearn.training import finetune, train

__all__ = [
    "About",
    "Attribution",
    "BatchExplainer",
    "BatchScores",
    "Bundle",
    "Classifier",
    "Comparison",
    "Example",
    "Explainer",
    "ExplearnError",
    "FunctionPredictor",
    "LearnedExplainer",
    "ListedTask",
    "MethodInfo",
    "Rationale",
    "SideBySide",
    "TextColumns",
    "compare",
    "explain",
    "export",
    "finetune",
    "get_explainer",
    "get_info",
    "interactions",
    "list_explainers",
    "load",
    "register",
    "side_by_side",
    "to_arrow",
    "to_frame",
    "train",
]

_LAZY = {
    "explearn.bundle.export": ("export",),
    "explearn.bundle.loading": ("Bundle", "load"),
    "explearn.comparison.result": ("Comparison",),
    "explearn.comparison.run": ("compare",),
    "explearn.comparison.texts": ("TextColumns",),
    "explearn.core.attribution": ("Attribution",),
    "explearn.core.examples": ("Example", "Rationale"),
    "explearn.show.side_by_side": ("SideBySide", "side_by_side"),
    "explearn.core.word_tables": ("to_arrow", "to_frame"),
    "explearn.methods.base.explainer": ("BatchExplainer", "BatchScores", "Explainer"),
    "explearn.methods.base.learned": ("LearnedExplainer",),
    "explearn.methods.explaining": ("explain",),
    "explearn.methods.interactions": ("interactions",),
    "explearn.methods.listed_task": ("ListedTask",),
    "explearn.predictors.function": ("FunctionPredictor",),
    "explearn.predictors.classifier": ("Classifier",),
    "explearn.training": ("finetune", "train"),
}
"""Module -> names exported from it, loaded lazily: importing torch takes seconds, `import explearn` must not."""


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    for module, names in _LAZY.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    if name == "__version__":
        from importlib import metadata

        return metadata.version("explearn")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

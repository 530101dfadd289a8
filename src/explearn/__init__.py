"""Explearn: explainers that learn to explain text classifiers, judged against the established attribution methods.

import explearn

explearn.explain("FOLDER_OR_HUB_NAME", "A warm, funny and wholly unnecessary sequel.").print()
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
    from explearn.bundle.export import export
    from explearn.bundle.loading import Bundle
    from explearn.comparison.result import Comparison
    from explearn.comparison.run import compare
    from explearn.comparison.texts import TextColumns
    from explearn.core.attribution import Attribution, Interaction
    from explearn.core.certificate import Certificate
    from explearn.core.examples import Example, Rationale
    from explearn.core.word_tables import to_arrow, to_frame
    from explearn.methods.base.explainer import BatchExplainer, BatchScores, Explainer
    from explearn.methods.base.learned import LearnedExplainer
    from explearn.methods.interactions import interactions
    from explearn.methods.listed_task import ListedTask
    from explearn.predictors.function import FunctionPredictor
    from explearn.predictors.transformer import TransformerPredictor
    from explearn.show.attributions import Attributions
    from explearn.training import finetune, train

__all__ = [
    "About",
    "Attribution",
    "Attributions",
    "BatchExplainer",
    "BatchScores",
    "Bundle",
    "Certificate",
    "Classifier",
    "Comparison",
    "ComputeOptions",
    "DataError",
    "DeviceError",
    "Example",
    "Explainer",
    "ExplearnError",
    "FunctionPredictor",
    "Interaction",
    "LearnedExplainer",
    "ListedTask",
    "MethodInfo",
    "MissingExtraError",
    "ModelError",
    "ParamsError",
    "Rationale",
    "TextColumns",
    "UnknownNameError",
    "UnsupportedError",
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
    "to_arrow",
    "to_frame",
    "train",
]

_LAZY = {
    "explearn.api": ("explain", "load"),
    "explearn.bundle.export": ("export",),
    "explearn.bundle.loading": ("Bundle",),
    "explearn.comparison.result": ("Comparison",),
    "explearn.comparison.run": ("compare",),
    "explearn.comparison.texts": ("TextColumns",),
    "explearn.core.attribution": ("Attribution", "Interaction"),
    "explearn.core.certificate": ("Certificate",),
    "explearn.core.examples": ("Example", "Rationale"),
    "explearn.core.word_tables": ("to_arrow", "to_frame"),
    "explearn.methods.base.explainer": ("BatchExplainer", "BatchScores", "Explainer"),
    "explearn.methods.base.learned": ("LearnedExplainer",),
    "explearn.methods.interactions": ("interactions",),
    "explearn.methods.listed_task": ("ListedTask",),
    "explearn.predictors.function": ("FunctionPredictor",),
    "explearn.predictors.classifier": ("Classifier",),
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
    if name == "__version__":
        from importlib import metadata

        return metadata.version("explearn")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

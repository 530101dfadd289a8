"""Explearn: explainers that learn to explain text classifiers, judged against the established attribution methods.

import explearn

classifier = explearn.Classifier.from_pretrained("data/classifiers/reviews")
method = explearn.get_explainer("rollout")
for attribution in method.explain(classifier, ["A warm, funny and wholly unnecessary sequel."]):
    print(attribution)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from explearn.core.errors import ExplearnError
from explearn.core.records import Attribution, Example, Rationale
from explearn.methods.base.registry import MethodInfo, get_explainer, get_info, list_explainers

if TYPE_CHECKING:
    from explearn.models.classifier import Classifier

__all__ = [
    "Attribution",
    "Classifier",
    "Example",
    "ExplearnError",
    "MethodInfo",
    "Rationale",
    "get_explainer",
    "get_info",
    "list_explainers",
]


def __getattr__(name: str) -> Any:
    # Importing torch takes seconds; `import explearn` and the command line's help must not.
    if name == "Classifier":
        from explearn.models.classifier import Classifier

        return Classifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

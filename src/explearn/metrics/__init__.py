"""Metrics of explanations: find one by name, call it alone, or add one.

Example:
    >>> import explearn
    >>> explearn.metrics.get_metric("sufficiency").direction
    'lower'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from explearn.metrics.base import Metric
    from explearn.metrics.registry import get_metric, list_metrics, register_metric

__all__ = ["Metric", "get_metric", "list_metrics", "register_metric"]


def __getattr__(name: str) -> Any:
    # Results are read without what the metrics import.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("explearn.metrics.registry"), name)

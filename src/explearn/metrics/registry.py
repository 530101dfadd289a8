"""Metrics by name: Explearn's own, those registered in this process, and those of installed packages.

A new metric is one file: a function, and its `Metric` (CONTRIBUTING.md). Evaluation, paired tests,
tables and the glossary follow from it.
"""

from __future__ import annotations

import functools
import warnings
from importlib.metadata import EntryPoint, entry_points

from explearn.core.errors import ParamsError, UnknownNameError, blaming, kind_of
from explearn.metrics import (
    consistency,
    costs,
    faithfulness,
    importance,
    infidelity,
    mosaics,
    plausibility,
    reasons,
    simulatability,
    stability,
)
from explearn.metrics.base import Metric

ENTRY_POINTS = "explearn.metrics"
"""The entry-point group in which a package names its metrics: `name = "module:METRIC"`."""

ACCURACY = Metric("accuracy", "Accuracy", "share of texts that a classifier labels correctly", "higher")

OWN = (
    *plausibility.METRICS,
    *importance.METRICS,
    *faithfulness.METRICS,
    *infidelity.METRICS,
    mosaics.MOSAICS,
    *stability.METRICS,
    *consistency.METRICS,
    *simulatability.METRICS,
    *reasons.METRICS,
    *faithfulness.CONFIDENCE,
    *costs.METRICS,
    *faithfulness.OPTIMISED,
    ACCURACY,
)

CATALOGUE: dict[str, Metric] = {metric.name: metric for metric in OWN}
"""Every metric by name; tables show them, and methods are measured, in this order."""


def register_metric(metric: Metric) -> Metric:
    """Register a metric by its name in this process.

    A package names its metrics in the entry-point group `explearn.metrics` instead, so that every process finds them.
    A later metric with the same name, as in a notebook, replaces the earlier one.

    Args:
        metric: name, heading, meaning, direction and the function.

    Returns:
        The metric.

    Raises:
        ParamsError: it is not a Metric, has no function, or has the name of one of Explearn's own.

    Example:
        >>> import explearn
        >>> def longest_word(explanations):
        ...     return [max(map(len, text.words)) for text in explanations.attributions]
        >>> longest = explearn.Metric("longest", "Longest word", "letters of the longest word", "lower", longest_word)
        >>> explearn.register_metric(longest)
        Metric('longest', lower is better)
        >>> _ = explearn.metrics.registry.CATALOGUE.pop("longest")
    """
    if not isinstance(metric, Metric):
        raise ParamsError(f"metric: got {kind_of(metric)}; expected an explearn.Metric")
    if metric.function is None:
        raise ParamsError(f"metric {metric.name!r}: `function` is missing")
    if any(metric.name == own.name for own in OWN):
        raise ParamsError(f"metric {metric.name!r}: the name is taken by a metric of Explearn")
    CATALOGUE[metric.name] = metric
    return metric


def list_metrics() -> list[str]:
    """Return the names of all metrics that can be computed from attributions.

    Returns:
        Explearn's own in the order of tables, then registered ones and those of installed packages.

    Example:
        >>> import explearn
        >>> explearn.list_metrics()[:4]
        ['f1', 'precision', 'recall', 'f1_topk']
    """
    _load_plug_ins()
    return [name for name, metric in CATALOGUE.items() if metric.function is not None]


def get_metric(name: str) -> Metric:
    """Return a metric by name.

    Args:
        name: one of `list_metrics()`, or a figure that is measured elsewhere, such as `throughput`.

    Raises:
        UnknownNameError: there is no such metric; the message has similar names.

    Example:
        >>> import explearn
        >>> explearn.get_metric("sufficiency")
        Metric('sufficiency', lower is better)
    """
    if name not in CATALOGUE:
        _load_plug_ins()
    if not isinstance(name, str) or name not in CATALOGUE:
        raise UnknownNameError("metric", name, CATALOGUE)
    return CATALOGUE[name]


@functools.cache
def _load_plug_ins() -> None:
    """Register the metrics of installed packages; warn about those that cannot be used."""
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            register_metric(_load(entry))
        except ParamsError as error:
            warnings.warn(f"{error}; fix the package or remove it", stacklevel=3)


def _load(entry: EntryPoint) -> Metric:
    what = f"metric {entry.name!r} ({entry.value})"
    with blaming(entry.value, f"{what} cannot be loaded", ParamsError):
        metric: Metric = entry.load()
    if getattr(metric, "name", None) != entry.name:
        raise ParamsError(f"{what}: expected a Metric of that name")
    return metric

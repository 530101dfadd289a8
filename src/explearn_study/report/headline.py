"""A few numbers for the explainer under study."""

from __future__ import annotations

from collections.abc import Mapping

from explearn.judge.arrays import mean_of_known
from explearn.methods.results import Number

HEADLINE_METRICS = ("f1", "f1_topk", "auroc", "aopc_comprehensiveness", "aopc_sufficiency")


def headline(explainer: str, tasks_metrics: Mapping[str, Mapping[str, Mapping[str, Number]]]) -> dict[str, Number]:
    """Return HEADLINE_METRICS of an explainer, means over the tasks where they are defined, for `dvc metrics show`.

    Args:
        tasks_metrics: task -> method -> metric -> value.
    """
    own = [methods.get(explainer, {}) for methods in tasks_metrics.values()]
    return {name: mean_of_known([metrics.get(name) for metrics in own]) for name in HEADLINE_METRICS}

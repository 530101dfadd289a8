"""A few numbers for the explainer under study, and the best of its rivals."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from statistics import fmean

from explearn.judge.arrays import mean_of_known
from explearn.methods.results import Number

HEADLINE_METRICS = ("f1", "f1_topk", "auroc", "aopc_comprehensiveness", "aopc_sufficiency", "relative_throughput")


def headline(
    explainer: str, baselines: Collection[str], tasks_metrics: Mapping[str, Mapping[str, Mapping[str, Number]]]
) -> dict[str, Number | str]:
    """Return a few numbers for the explainer under study, for `dvc metrics show` and `dvc exp show`.

    Each of HEADLINE_METRICS is the mean over the tasks where it is defined, and so are random_f1 and random_f1_topk,
    which every method should exceed. Its rivals are compared on the tasks where its own F1 is defined, and only
    those rivals that have an F1 on all of them: `best_other` among all other methods, `best_baseline` among the
    baselines alone (no learned ones). `tasks_won_f1` and `tasks_won_f1_baselines` count the tasks on which its F1 is at
    least that of every such rival.

    Args:
        explainer: the one under study. baselines: names of the methods that are not learned.
        tasks_metrics: task -> method -> metric -> value.
    """
    own = {task: methods[explainer] for task, methods in tasks_metrics.items() if explainer in methods}
    result: dict[str, Number | str] = {"explainer": explainer, "tasks": len(tasks_metrics)}
    for name in HEADLINE_METRICS:
        result[name] = mean_of_known([metrics.get(name) for metrics in own.values()])
    for name in ("f1", "f1_topk"):
        by_chance = [methods.get("random", {}).get(name) for methods in tasks_metrics.values()]
        result[f"random_{name}"] = mean_of_known(by_chance)
    f1s = {task: f1 for task, metrics in own.items() if (f1 := metrics.get("f1")) is not None}
    result["tasks_with_f1"] = len(f1s)
    rivals: dict[str, list[float]] = {}
    for method in sorted({m for task in f1s for m in tasks_metrics[task]} - {explainer}):
        values = [tasks_metrics[task].get(method, {}).get("f1") for task in f1s]
        known = [value for value in values if value is not None]
        if len(known) == len(f1s):
            rivals[method] = known
    for suffix, label, names in (
        ("", "best_other", list(rivals)),
        ("_baselines", "best_baseline", [name for name in rivals if name in baselines]),
    ):
        best = max(names, key=lambda name: (fmean(rivals[name]), name), default=None)
        won = [f1 >= max(rivals[name][place] for name in names) for place, f1 in enumerate(f1s.values()) if names]
        result[label] = best
        result[f"{label}_f1"] = None if best is None else fmean(rivals[best])
        result[f"tasks_won_f1{suffix}"] = None if best is None else sum(won)
    return result

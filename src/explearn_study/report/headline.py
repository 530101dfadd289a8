"""A few numbers for the explainer under study, and the best of its rivals."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from explearn.judge.arrays import mean_of_known

Number = int | float | None

HEADLINE_METRICS = ("f1", "f1_topk", "auroc", "aopc_comprehensiveness", "aopc_sufficiency", "relative_throughput")


def headline(
    explainer: str, baselines: Collection[str], tasks_metrics: Mapping[str, Mapping[str, Mapping[str, Number]]]
) -> dict[str, Number | str]:
    """A few numbers for the explainer under study, for `dvc metrics show` and `dvc exp show`.

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
        result[f"random_{name}"] = mean_of_known(
            [methods.get("random", {}).get(name) for methods in tasks_metrics.values()]
        )
    f1s = {task: f1 for task, metrics in own.items() if (f1 := metrics.get("f1")) is not None}
    result["tasks_with_f1"] = len(f1s)
    others = sorted({m for task in f1s for m in tasks_metrics[task]} - {explainer})
    for suffix, label, rivals in (
        ("", "best_other", others),
        ("_baselines", "best_baseline", [name for name in others if name in baselines]),
    ):
        rival = best_rival(tasks_metrics, explainer, rivals, "f1")
        result[label] = None if rival is None else rival.method
        result[f"{label}_f1"] = None if rival is None else rival.value
        result[f"tasks_won_f1{suffix}"] = None if rival is None else rival.tasks_won
    return result


@dataclass(frozen=True, slots=True)
class Rival:
    """The best of a method's rivals in a metric where larger is better.

    method, value: the rival with the best mean. tasks_won: on how many tasks no rival is ahead of the method.
    """

    method: str
    value: float
    tasks_won: int


def best_rival(
    tasks_metrics: Mapping[str, Mapping[str, Mapping[str, Number]]], method: str, rivals: Sequence[str], metric: str
) -> Rival | None:
    """The best rival over the tasks on which the method has the metric; None without one that has it on all of them."""
    own = {task: value for task, of in tasks_metrics.items() if (value := of.get(method, {}).get(metric)) is not None}
    table: dict[str, dict[str, float]] = {}
    for rival in rivals:
        found = {task: value for task in own if (value := tasks_metrics[task].get(rival, {}).get(metric)) is not None}
        if own and len(found) == len(own):
            table[rival] = found
    if not table:
        return None
    best = max(table, key=lambda name: (fmean(table[name].values()), name))
    won = sum(all(value >= found[task] for found in table.values()) for task, value in own.items())
    return Rival(best, fmean(table[best].values()), won)

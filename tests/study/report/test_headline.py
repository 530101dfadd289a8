"""The headline over tasks: figures of the method under study."""

from __future__ import annotations

from explearn_study.report.headline import headline


def test_figures_are_means_over_the_tasks_that_have_them() -> None:
    tasks = {
        "one": {"expnet": {"f1": 0.5, "auroc": 0.75}, "rollout": {"f1": 0.9}},
        "two": {"expnet": {"f1": 0.25, "auroc": None}},
        "three": {"rollout": {"f1": 0.1}},
    }
    figures = headline("expnet", tasks)
    assert (figures["f1"], figures["auroc"], figures["aopc_sufficiency"]) == (0.375, 0.75, None)

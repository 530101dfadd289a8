"""What marked texts of a task bring to ExpNet: sentences, and a table of the figures."""

from __future__ import annotations

from collections.abc import Sequence

from explearn.methods.registry import get_info
from explearn.show.blocks import Block
from explearn.show.markdown import Markdown, escape_markdown
from explearn.show.task_report import TaskReport
from explearn_study.curve_figures import FIGURES, next_marks

FIGURE = "marks.svg"

ALWAYS_BESIDE = ("gae", "attn_lrp")
"""Baselines of the run that are drawn even where they are not among the best."""

BEST = 3
"""Best baselines that are drawn."""

CURVES_INTRODUCTION = Markdown(
    "ExpNet learns here from none of a task's marked texts (universal: the consensus of the other tasks marks the "
    "task's own texts for it), from some (few_shot), and from all that the classifier gets right (in_domain). Points "
    "are means over draws of the texts; the dashed lines are baselines on the same test texts."
)


def with_curve(tasks: Sequence[TaskReport]) -> list[TaskReport]:
    """The tasks that the stage marks-curve ran on."""
    return [task for task in tasks if task.curve]


def baselines_beside(task: TaskReport, metric: str) -> dict[str, float]:
    """The best baselines in a metric, best first, and those of ALWAYS_BESIDE: method -> its figure."""
    found = {
        name: float(value)
        for name, figures in task.methods.items()
        if get_info(name).family != "learned" and (value := figures.get(metric)) is not None
    }
    best = sorted(found, key=lambda name: -found[name])
    chosen = [*best[:BEST], *(name for name in ALWAYS_BESIDE if name in best[BEST:])]
    return {name: found[name] for name in chosen}


def curve_sentences(tasks: Sequence[TaskReport]) -> list[Markdown]:
    """For each task with a curve, what the next marks would bring to one that has none and to one that has fifty."""
    found = []
    for task in with_curve(tasks):
        last = int(task.curve["points"][-1]["marks"])
        starts = [0, *(start for start in (50,) if start < last)]
        told = " ".join(next_marks(task.curve, start, more) for start, more in zip(starts, (10, 50), strict=False))
        found.append(Markdown(f"**{escape_markdown(task.task)}**: {escape_markdown(told)}"))
    return found


def curve_block(tasks: Sequence[TaskReport]) -> Block:
    """The figures of all points, and the name of the drawing."""
    rows = [
        [task.task, str(point["marks"]), *(_cell(point[name]) for name in FIGURES)]
        for task in with_curve(tasks)
        for point in task.curve["points"]
    ]
    return Block(
        "F1 and AUROC with more and more marked texts",
        headings=["Task", "Marked texts", "F1 top-K", "AUROC", "F1"],
        rows=rows,
        figure=FIGURE,
        alt="F1 top-K and AUROC against the number of marked texts, one row of panels a task",
    )


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"

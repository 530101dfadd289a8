"""reports/machine/costs.md: times and memory, which differ from machine to machine and from run to run."""

from __future__ import annotations

from collections.abc import Sequence

from explearn.show.columns import COST_COLUMNS, COST_NOTE, leaderboard
from explearn.show.machine_figures import MACHINE_FIGURES
from explearn.show.markdown import table
from explearn.show.markdown_page import board, markdown_environment, papers_table, tidy
from explearn.show.task_report import TaskReport
from explearn.show.verdict import (
    LEADER_HEADINGS,
    TIME,
    TIME_EXPLANATION,
    counted_tasks,
    counting_sentence,
    leader_rows,
    leaders,
    only_times,
    overview,
    time_sentences,
)
from explearn.show.versions import python_version
from explearn_study.params import Params
from explearn_study.report.l2e_students import Document, student_times
from explearn_study.report.papers import side_by_side


def render_costs(params: Params, tasks: Sequence[TaskReport], students: Sequence[Document] = ()) -> str:
    """The page as Markdown; it links pareto.svg, beside it, and report.md, a folder above.

    Args:
        students: what the stage distil wrote.
    """
    counted = counted_tasks(params, tasks)
    papers = [side for side in side_by_side(params, tasks) if side.table.column.metric in MACHINE_FIGURES]
    text = (
        markdown_environment()
        .get_template("costs.md.j2")
        .render(
            params=params,
            table=table,
            python=python_version(),
            counting=counting_sentence(params, tasks),
            leader_headings=only_times(LEADER_HEADINGS),
            leaders=[only_times(row) for row in leader_rows(leaders(counted, params.evaluate.significance))],
            time_explanation=TIME_EXPLANATION,
            headline=time_sentences(params, counted),
            overview=board(*overview(counted, [TIME])),
            papers=[(side, papers_table(side)) for side in papers],
            cost_note=COST_NOTE,
            tasks=[(task.task, board(COST_COLUMNS, leaderboard(task.methods, COST_COLUMNS))) for task in tasks],
            students=student_times(students),
        )
    )
    return tidy(text)

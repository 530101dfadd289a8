"""All files of the report.

Files under reports/machine, report.html and costs.json hold times and memory. All others depend on the results alone:
the same results give the same bytes under the same package versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from explearn.core.storage import write_json, write_text
from explearn.judge.arrays import mean_of_known
from explearn.judge.costs import split_costs
from explearn.show.figures.consensus_weights import write_consensus_weights
from explearn.show.figures.heatmaps import write_coefficients, write_gain_maps
from explearn.show.figures.interval_plots import AUROC_PLOT, F1_PLOT, write_plot
from explearn.show.figures.pareto import write_glance, write_pareto
from explearn.show.figures.search_plots import write_study_plots
from explearn.show.glance import glance
from explearn.show.machine_figures import MACHINE_FIGURES
from explearn.show.report_html import write_html
from explearn.show.report_markdown import render_report
from explearn.show.task_report import Number, TaskReport
from explearn.show.verdict import counted_tasks, leaders
from explearn_study.params import Params
from explearn_study.report.costs_markdown import render_costs
from explearn_study.report.headline import headline
from explearn_study.report.l2e_students import Document
from explearn_study.report.marks_curves_figure import write_marks_curves
from explearn_study.report.transfer_tables import transfer_maps

HEADLINE_COSTS = ("relative_throughput",)
"""Costs of the explainer under study in costs.json's headline."""


def write_report(
    folder: Path,
    params: Params,
    tasks: Sequence[TaskReport],
    students: Sequence[Document] = (),
    transfers: Sequence[Document] = (),
) -> None:
    """Write report.md, report.html, figures/ and machine/ into `folder`; every file is whole or not there.

    figures/: f1.svg, auroc.svg, study-TASK-METHOD.svg for every search for loss weights, coefficients.svg for
    explainers with a classifier of their own, marks.svg for the curves of marks, consensus.svg for the weights of the
    consensus, and transfer-NAME.svg for those tried on other tasks. machine/: costs.md, pareto.svg and glance.svg.

    Args:
        students, transfers: what the stages distil and transfer wrote.

    Raises UnknownNameError for a method that is not registered.
    """
    figures, machine = folder / "figures", folder / "machine"
    for spec in (F1_PLOT, AUROC_PLOT):
        write_plot(figures / f"{spec.name}.svg", spec, tasks, params.evaluate.confidence)
    counted = counted_tasks(params, tasks)
    write_pareto(machine / "pareto.svg", counted)
    leading = glance(params, tasks, leaders(counted, params.evaluate.significance))
    write_glance(machine / "glance.svg", counted, leading.methods)
    write_study_plots(figures, tasks)
    write_marks_curves(figures, tasks, params.evaluate.confidence)
    write_consensus_weights(figures, tasks)
    if any(task.own_models for task in tasks):
        write_coefficients(figures / "coefficients.svg", tasks)
    write_gain_maps(figures, transfer_maps(transfers))
    write_html(folder / "report.html", params, tasks, students, transfers)
    write_text(machine / "costs.md", render_costs(params, tasks, students))
    write_text(folder / "report.md", render_report(params, tasks, students, transfers))


def write_metrics(folder: Path, params: Params, tasks: Sequence[TaskReport]) -> None:
    """Write metrics.json, headline.json and costs.json into `folder`.

    metrics.json: headline, and tasks (task -> method -> metric -> value), without the figures that depend on the
    machine. headline.json: the same headline, with f1_by_task. costs.json: headline and tasks of those figures.
    Without an explainer under study, the headlines hold no figures.
    """
    parts = {task.task: split_costs(task.methods) for task in tasks}
    metrics = {task: figures for task, (figures, _) in parts.items()}
    costs = {task: of_machine for task, (_, of_machine) in parts.items()}
    found: dict[str, Number | str | None] = {"explainer": params.explainer, "tasks": len(metrics)}
    f1_by_task: dict[str, Number] = {}
    means: dict[str, float | None] = {}
    if params.explainer is not None:
        of_study = headline(params.explainer, params.baseline_names, metrics)
        found |= {name: value for name, value in of_study.items() if name not in MACHINE_FIGURES}
        f1_by_task = {task: methods[params.explainer]["f1"] for task, methods in metrics.items()}
        own = [methods.get(params.explainer, {}) for methods in costs.values()]
        means = {name: mean_of_known([of.get(name) for of in own]) for name in HEADLINE_COSTS}
    write_json(folder / "metrics.json", {"headline": found, "tasks": metrics})
    write_json(folder / "headline.json", {**found, "f1_by_task": f1_by_task})
    write_json(folder / "costs.json", {"headline": {"explainer": params.explainer, **means}, "tasks": costs})

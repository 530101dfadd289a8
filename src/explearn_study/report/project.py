"""The report of a project, from the files that its stages wrote.

Files under reports/machine, report.html, its manifest and costs.json hold times and memory. All others depend only on
the results: the same results give the same bytes under the same package versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from explearn.core.documents import read_json
from explearn.core.writing import put_files, scratch_folder, write_json
from explearn.evaluation.result import Evaluation, Figures
from explearn.metrics.arrays import mean_of_known
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.runs import COST_FIGURES, Cost
from explearn.report.conclusions import answer
from explearn.report.run import MARKS, MODEL, RunFacts
from explearn.subject.manifest import CODE, part, versions, write_manifest
from explearn_study.params import Params
from explearn_study.report.chapter import chapter_blocks
from explearn_study.report.curves import curve_blocks
from explearn_study.report.pages import write_report
from explearn_study.report.papers import paper_blocks
from explearn_study.report.students import read_students, student_blocks
from explearn_study.report.twin import twin_blocks
from explearn_study.workspace import Workspace, read_costs


def manifest_of(workspace: Workspace, params: Params, run: RunFacts) -> dict[str, Any]:
    """Return the manifest of a run: hashes of its texts, models, results and code, and the versions of packages.

    Paths are relative to the workspace.

    Args:
        workspace: the files of the stages.
        params: the run's parameters.
        run: its evaluations.
    """
    root = workspace.root
    names = {task: workspace.classifier(task).relative_to(root).as_posix() for task in params.tasks}
    classifiers = {}
    for evaluation in (*run.tasks, *run.planted):
        if evaluation.classifier:
            name = names[evaluation.task]
            classifiers[evaluation.task] = {"name": name, "fingerprint": evaluation.classifier}
    results = ("data/attributions", "data/explainers", "reports/metrics", "reports/metrics.json")
    return {
        "root": "..",
        "profile": params.profile,
        "seed": params.seed,
        "parameters": params.model_dump(mode="json"),
        "classifiers": classifiers,
        "parts": {
            "data": part(root, ("data/examples", "data/rationales")),
            "models": part(root, names.values()),
            "results": part(root, results),
            "code": part(CODE, ("explearn", "explearn_study")),
        },
        "versions": dict(versions()),
    }


HEADLINE_METRICS = (
    "f1",
    "f1_topk",
    "auroc",
    "aopc_comprehensiveness",
    "aopc_sufficiency",
    "consistency",
    "simulatability",
)
"""Metrics of trained methods that `dvc metrics` and `dvc exp show` print."""

DECIMALS = 3
"""Decimals of the figures kept in git; further digits vary between processors and library versions."""


def report_project(workspace: Workspace, params: Params) -> None:
    """Write the files of `explearn_study.report.pages.write_report` and `write_metrics` into the workspace's reports/.

    Everything is read and drawn before the first file of an earlier report is replaced. The last file is report.json,
    the manifest of report.html.

    Raises:
        DataError: a file of an earlier stage is missing, damaged or from another run.
    """
    run = read_run_of(workspace, params)
    curves = {task: read_json(workspace.marks_curve(task)) for task in params.curve_tasks}
    twins = {}
    if params.evaluate.twin:
        twins = {task: Evaluation.load(workspace.twin(task)) for task in params.plain_tasks}
    own = []
    if params.on_own_classifier:
        own = [Evaluation.load(workspace.own_classifier / task) for task in params.plain_tasks]
    more = [
        *chapter_blocks(params, run, own),
        *twin_blocks(run, twins),
        *curve_blocks(run, curves),
        *paper_blocks(params, run.tasks, own),
        *student_blocks(params, read_students(workspace, params)),
    ]
    with scratch_folder(workspace.reports / "report") as drawn:
        write_report(drawn, run, more)
        write_metrics(drawn, run)
        put_files(drawn, workspace.reports)
    write_manifest(workspace.reports / "report.html", manifest_of(workspace, params, run))


def read_run_of(workspace: Workspace, params: Params) -> RunFacts:
    """Return a run's evaluations with what they cost here, and the facts that the report needs.

    Raises:
        DataError: a file is missing or damaged.
    """
    evaluations = {task: with_costs(workspace, task) for task in params.tasks}
    subtitle = f"Profile {params.profile}."
    if params.explainer is not None:
        subtitle = f"Profile {params.profile}, explainer under study: {params.explainer}."
    return RunFacts(
        title="Which explanations to use",
        subtitle=f"{params.report.about} {subtitle}".strip(),
        tasks=[evaluations[task] for task in params.plain_tasks],
        planted=[evaluations[task] for task in params.planted_tasks],
        study=params.explainer,
        trained=[name for name in params.methods if name not in params.baseline_names],
        chance_margin=params.report.chance_margin,
        folder="reports",
        examples=params.report.examples,
        parameters=parameters_text(params),
    )


def with_costs(workspace: Workspace, task: str) -> Evaluation:
    """Return a task's evaluation with the costs of the methods that were run and trained here.

    A method that was run or trained elsewhere, whose files came from DVC's cache, has no costs.
    """
    evaluation = Evaluation.load(workspace.metrics(task))
    costs = read_costs(workspace.costs(task))
    for name, figures in evaluation.figures.items():
        figures |= Cost(**costs[name]).figures() if name in costs else dict.fromkeys(COST_FIGURES)
        figures |= {"training_seconds": None} | read_costs(workspace.training_cost(task, name))
    return evaluation


def parameters_text(params: Params) -> str:
    """Return the run's parameters as YAML, without those that are not set."""
    values = params.model_dump(mode="json", exclude_none=True, exclude={"roster", "report"})
    values["sources"] = {
        task: params.sources[task].model_dump(mode="json", exclude_defaults=True) for task in params.tasks
    }
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)


def write_metrics(folder: Path, run: RunFacts) -> None:
    """Write metrics.json, headline.json and costs.json into `folder`.

    metrics.json: headline, verdict (metric -> methods not clearly worse than the best), classifiers (task -> split ->
    figures), overall (method -> metric -> mean, as in the report), tasks (task -> method -> metric -> value) and
    planted (the same for tasks of planted words), without the figures that depend on the machine. headline.json: the
    headline's figures of every method that the run trained, by name, so that `dvc exp show` never puts two methods into
    one column. Both are rounded. costs.json: the same tasks with the figures that depend on the machine. Without an
    explainer under study, the headline has no figures.
    """
    metrics = {task.task: _figures(task, of_machine=False) for task in run.tasks}
    means: dict[str, Figures] = {}
    for method in dict.fromkeys([*run.trained, run.study]):
        if method is not None:
            means[method] = {}
            for name in HEADLINE_METRICS:
                means[method][name] = mean_of_known([methods[method].get(name) for methods in metrics.values()])
    document: dict[str, Any] = {
        "headline": {"explainer": run.study, "tasks": len(metrics), **means.get(str(run.study), {})},
        "verdict": best_methods(run),
        "classifiers": {task.task: task.performance for task in run.tasks},
        "overall": _figures(run.overall, of_machine=False),
        "tasks": metrics,
    }
    if run.planted:
        document["planted"] = {task.task: _figures(task, of_machine=False) for task in run.planted}
    write_json(folder / "metrics.json", rounded(document))
    write_json(folder / "headline.json", rounded(means))
    costs = {task.task: _figures(task, of_machine=True) for task in run.tasks}
    write_json(folder / "costs.json", {"tasks": costs})


def best_methods(run: RunFacts) -> dict[str, Sequence[str]]:
    """Return metric -> the best method and those not clearly worse, none if random scores are not either."""
    best: dict[str, Sequence[str]] = {}
    if all(run.near_chance(task) for task in run.tasks):
        return best
    for metric in (MARKS, MODEL):
        found = answer(run, metric)
        if found is not None:
            best[metric] = found.values["named"]
    return best


def _figures(task: Evaluation, of_machine: bool) -> dict[str, Figures]:
    """Return method -> metric -> figure: those that depend on the machine, or those that are the same on any."""
    dependent = {name for name, metric in CATALOGUE.items() if metric.of_machine}
    figures = {}
    for method, row in task.figures.items():
        figures[method] = {name: value for name, value in row.items() if (name in dependent) == of_machine}
    return figures


def rounded(document: Any) -> Any:
    """Round a document's figures to DECIMALS."""
    if isinstance(document, Mapping):
        return {key: rounded(value) for key, value in document.items()}
    if isinstance(document, float):
        # Adding 0 makes 0 of -0.
        return round(document, DECIMALS) + 0.0
    return document

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
from explearn.core.examples import SPLITS
from explearn.core.writing import put_files, scratch_folder, write_json
from explearn.evaluation import Figures, compare_methods
from explearn.methods.results import Number, RunFacts, TaskReport, Tasks, in_table_order
from explearn.metrics.arrays import mean_of_known
from explearn.metrics.plausibility import rationale_k
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.runs import COST_FIGURES, Cost, read_run
from explearn.report.examples import draw_examples
from explearn.report.verdict import find_verdict
from explearn.subject.manifest import CODE, part, versions, write_manifest
from explearn_study.metric_files import read_by_text
from explearn_study.params import Params
from explearn_study.report.curves import curve_blocks
from explearn_study.report.pages import write_report
from explearn_study.report.papers import paper_blocks, student_blocks
from explearn_study.report.twin import twin_blocks
from explearn_study.workspace import Workspace


def manifest_of(workspace: Workspace, params: Params) -> dict[str, Any]:
    """Return the manifest of a run: hashes of its texts, models, results and code, and the versions of packages.

    Paths are relative to the workspace.

    Raises:
        DataError: a file of the run is missing.
    """
    root = workspace.root
    own = {method.name for method in params.with_own_model}
    names = {task: workspace.classifier(task).relative_to(root).as_posix() for task in params.tasks}
    classifiers = {}
    for task, name in names.items():
        files = workspace.attribution_files(params, task)
        shared = [path for method, path in files.items() if method not in own]
        if shared:
            fingerprint = read_run(shared[0], attributions=False).classifier
            classifiers[task] = {"name": name, "fingerprint": fingerprint}
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
"""Metrics of the explainer under study that `dvc metrics show` prints."""

DECIMALS = 3
"""Decimals of the figures kept in git; further digits vary between processors and library versions."""


def report_project(workspace: Workspace, params: Params, seed: int) -> None:
    """Write the files of `explearn_study.report.pages.write_report` and `write_metrics` into the workspace's reports/.

    Everything is read and drawn before the first file of an earlier report is replaced. The last file is report.json,
    the manifest of report.html.

    Raises:
        DataError: a file of an earlier stage is missing, damaged or from another run.
    """
    tasks = [collect_task(workspace, params, task, seed) for task in params.plain_tasks]
    planted = [collect_task(workspace, params, task, seed) for task in params.planted_tasks]
    students = []
    for task in params.plain_tasks:
        for name in params.compared_teachers:
            document = read_json(workspace.study("students", task, name))
            # If it ran on this machine.
            students.append(document | _read_if_any(workspace.student_costs(task, name)))
    curves = {task: read_json(workspace.study("marks_curve", task)) for task in params.curve_tasks}
    twins = {}
    if params.evaluate.twin:
        twins = {task: read_json(workspace.metrics("twin", task)) for task in params.plain_tasks}
    run = run_facts(params, tasks)
    more = [
        *twin_blocks(run, tasks, twins),
        *curve_blocks(run, tasks, curves),
        *paper_blocks(params, tasks),
        *student_blocks(params, students),
    ]
    with scratch_folder(workspace.reports / "report") as drawn:
        write_report(drawn, run, tasks, more, planted)
        write_metrics(drawn, params, tasks, planted, find_verdict(run, tasks).best)
        put_files(drawn, workspace.reports)
    write_manifest(workspace.reports / "report.html", manifest_of(workspace, params))


def _read_if_any(path: Path) -> dict[str, Any]:
    """Return a JSON document, empty if there is none."""
    return dict(read_json(path)) if path.exists() else {}


def collect_task(workspace: Workspace, params: Params, task: str, seed: int) -> TaskReport:
    """Collect a task's metrics, comparisons of its methods, and the example texts to show.

    Raises:
        DataError: a file is missing or damaged.
    """
    agreement = read_json(workspace.agreement(task))
    classifier = read_json(workspace.classifier_figures(task))
    by_split = {split: workspace.read_examples(task, split) for split in SPLITS}
    files = workspace.attribution_files(params, task)
    runs = {method: read_run(path) for method, path in files.items()}
    thresholds = {method: run.threshold for method, run in runs.items() if run.threshold is not None}
    k = rationale_k(agreement["mean_length"])
    rate = agreement["positive_rate"] or 0.0
    own = [method.name for method in params.with_own_model]
    methods: dict[str, Figures] = read_json(workspace.metrics("explanations", task))
    # A method that was run or trained elsewhere, whose files came from DVC's cache, has no costs.
    costs = _read_if_any(workspace.costs(task))
    for name, figures in methods.items():
        figures |= Cost(**costs[name]).figures() if name in costs else dict.fromkeys(COST_FIGURES)
        figures |= {"training_seconds": None} | _read_if_any(workspace.training_cost(task, name))
    by_text = read_by_text(workspace.metrics_table("texts", task))
    by_text |= read_by_text(workspace.metrics_table("mosaics", task))
    return TaskReport(
        task=task,
        labels=workspace.read_labels(task),
        split_counts={split: len(examples) for split, examples in by_split.items()},
        agreement=agreement,
        classifier={split: classifier[split] for split in ("validation", "test") if classifier[split]},
        methods=methods,
        k=k,
        positive_rate=rate,
        thresholds=thresholds,
        comparisons=compare_methods(methods, by_text, own, params.evaluate.significance),
        by_text=by_text,
        sanity=read_json(workspace.metrics("sanity", task)),
        texts=draw_examples(
            by_split["test"],
            workspace.read_rationales(task),
            workspace.read_gold(task, params),
            runs,
            {name: method.info for name, method in params.methods.items()},
            count=params.report.examples,
            seed=seed,
            k=k,
            positive_rate=rate,
        ),
        notes={method: run.notes for method, run in runs.items() if run.notes},
    )


def run_facts(params: Params, tasks: Tasks) -> RunFacts:
    """Return the facts about a run as a whole that the report needs."""
    subtitle = f"Profile {params.profile}."
    if params.explainer is not None:
        subtitle = f"Profile {params.profile}, explainer under study: {params.explainer}."
    methods = dict.fromkeys(name for task in tasks for name in task.methods)
    return RunFacts(
        title="Which explanations to use",
        subtitle=subtitle,
        methods=in_table_order(params.method(name).info for name in methods),
        study=params.explainer,
        trained=[name for name in params.methods if name not in params.baseline_names],
        options={name: method.all_options for name, method in params.methods.items() if method.info.learned},
        evaluate=params.evaluate,
        chance_margin=params.report.chance_margin,
        seed=params.seed,
        parameters=parameters_text(params),
    )


def parameters_text(params: Params) -> str:
    """Return the run's parameters as YAML, without those that are not set."""
    values = params.model_dump(mode="json", exclude_none=True, exclude={"roster", "report"})
    values["sources"] = {
        task: params.sources[task].model_dump(mode="json", exclude_defaults=True) for task in params.tasks
    }
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)


def write_metrics(
    folder: Path,
    params: Params,
    tasks: Tasks,
    planted: Tasks,
    verdict: Mapping[str, Sequence[str]],
) -> None:
    """Write metrics.json, headline.json and costs.json into `folder`.

    metrics.json: headline, verdict (metric -> methods not clearly worse than the best), classifiers (task -> split ->
    figures), tasks (task -> method -> metric -> value) and planted (the same for tasks of planted words), without the
    figures that depend on the machine. headline.json: the same headline, with f1_by_task. Both are rounded. costs.json:
    the same tasks with the figures that depend on the machine. Without an explainer under study, the headline has no
    figures.
    """
    metrics = {}
    costs = {}
    for task in tasks:
        metrics[task.task] = _figures(task, of_machine=False)
        costs[task.task] = _figures(task, of_machine=True)
    results: dict[str, Number | str | None] = {"explainer": params.explainer, "tasks": len(metrics)}
    f1_by_task: dict[str, Number] = {}
    if params.explainer is not None:
        rows = {task: methods[params.explainer] for task, methods in metrics.items()}
        for name in HEADLINE_METRICS:
            results[name] = mean_of_known([row.get(name) for row in rows.values()])
        f1_by_task = {task: row["f1"] for task, row in rows.items()}
    classifiers = {task.task: task.classifier for task in tasks}
    document: dict[str, Any] = {
        "headline": results,
        "verdict": verdict,
        "classifiers": classifiers,
        "tasks": metrics,
    }
    if planted:
        document["planted"] = {task.task: _figures(task, of_machine=False) for task in planted}
    write_json(folder / "metrics.json", rounded(document))
    write_json(folder / "headline.json", rounded({**results, "f1_by_task": f1_by_task}))
    write_json(folder / "costs.json", {"tasks": costs})


def _figures(task: TaskReport, of_machine: bool) -> dict[str, dict[str, Number]]:
    """Return method -> metric -> figure: those that depend on the machine, or those that are the same on any."""
    dependent = {name for name, metric in CATALOGUE.items() if metric.of_machine}
    figures = {}
    for method, row in task.methods.items():
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

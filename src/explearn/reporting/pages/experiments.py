"""DVC experiments side by side: their parameters, headlines and methods, as Markdown and as an HTML page."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from explearn.core.errors import DataError, UnknownNameError, first_line
from explearn.core.extras import check_installed
from explearn.core.method_names import get_info, leaderboard_order
from explearn.core.storage import put_files, scratch_folder, write_text
from explearn.reporting.content.blocks import Block
from explearn.reporting.content.columns import COST_NOISE, Cell, Column, Row
from explearn.reporting.content.criterion_tables import OwnModelRun, criterion_blocks
from explearn.reporting.content.markdown import Markdown, escape_markdown, table
from explearn.reporting.content.seed_tables import SEED, seed_blocks
from explearn.reporting.figures.heatmaps import write_gain_maps
from explearn.reporting.gate import WORKSPACE, figures, from_revision
from explearn.reporting.pages.html_page import asset, data_uri, page_environment, source_hash

HEADLINE_FILE, METRICS_FILE, COSTS_FILE = "reports/headline.json", "reports/metrics.json", "reports/costs.json"

HEADLINE_COLUMNS = (
    Column("f1", "F1", True),
    Column("f1_topk", "F1 top-K", True),
    Column("auroc", "AUROC", True),
    Column("aopc_comprehensiveness", "AOPC compr.", True),
    Column("aopc_sufficiency", "AOPC suff.", False),
    Column("relative_throughput", "Speed", True, "×", 2, noise=COST_NOISE, limit=1.0),
    Column("best_other_f1", "Best other’s F1", None),
)

METHOD_COLUMNS = (
    Column("f1", "F1", True),
    Column("auroc", "AUROC", True),
    Column("aopc_comprehensiveness", "AOPC comprehensiveness", True),
    Column("aopc_sufficiency", "AOPC sufficiency", False),
)
"""The figures by which the methods of experiments are compared, as means over the tasks."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A run.

    Attributes:
        name: that of the experiment; of a commit, its branch or tag, or the start of its hash. revision: for git.
        params: flat, path -> value. headline: from reports/headline.json, and the headline of reports/costs.json.
        tasks: task -> method -> metric -> value, from reports/metrics.json; empty where the run has none.
        own_models: the runs of explainers that train their own classifier.
    """

    name: str
    revision: str
    params: Mapping[str, Any]
    headline: Mapping[str, Any]
    tasks: Mapping[str, Mapping[str, Mapping[str, float | None]]] = field(default_factory=dict)
    own_models: Sequence[OwnModelRun] = ()


def read_experiments(names: Sequence[str] = ()) -> list[Experiment]:
    """Read the current commit and its experiments; or the named experiments, of any commit, with their base commits.

    Runs `dvc exp show`. Experiments that have not finished have no figures and are left out.
    Raises UnknownNameError for a name that no experiment has, DataError where DVC fails or no experiment has finished.
    """
    check_installed("dvc", extra="pipeline", what="reading experiments")
    command = [sys.executable, "-m", "dvc", "exp", "show", "--json"]
    for revision in _starts(names) if names else ():
        command += ["--rev", revision]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["failed without a message"]
        raise DataError(f"dvc exp show: {said[-1].removeprefix('ERROR: ')}")
    found = parse_experiments(json.loads(done.stdout), names)
    return [_with_methods(experiment) for experiment in found]


def _starts(names: Sequence[str]) -> list[str]:
    """The commits that the named experiments start from. (DVC takes seconds for each commit that it shows.)"""
    # DVC takes a second to load.
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo() as repo:
            listed = repo.experiments.ls(all_commits=True)
    except DvcException as error:
        raise DataError(f"dvc exp list: {first_line(error)}") from error
    starts = {name: commit for commit, found in listed.items() for name, _ in found}
    for name in names:
        if name not in starts:
            raise UnknownNameError("experiment", name, starts)
    return list(dict.fromkeys(starts[name] for name in names))


def parse_experiments(commits: Sequence[Mapping[str, Any]], names: Sequence[str] = ()) -> list[Experiment]:
    """The wanted experiments from the output of `dvc exp show --json`; raises the errors of `read_experiments`."""
    known: dict[str, Mapping[str, Any]] = {}
    origin: dict[str, Mapping[str, Any]] = {}
    commits = [commit for commit in commits if commit["rev"] != WORKSPACE]
    for commit in commits:
        for group in commit.get("experiments") or ():
            for state in group["revs"] or ():
                # Checkpoints and failed attempts share a name: the first is the newest.
                known.setdefault(state["name"] or state["rev"][:7], state)
                origin.setdefault(state["name"] or state["rev"][:7], commit)
    for name in names:
        if name not in known:
            raise UnknownNameError("experiment", name, known)
    wanted = {name: known[name] for name in names or known}
    starts = {commit["rev"]: commit for commit in commits if any(origin[name] is commit for name in wanted)}
    if not wanted:
        raise DataError(
            "the current commit has no experiments; make some with dvc exp run, or name those of other commits"
        )
    read = [
        *((commit.get("name") or commit["rev"][:7], commit) for commit in starts.values()),
        *wanted.items(),
    ]
    found = [experiment for name, state in read if (experiment := _experiment(name, state)) is not None]
    if not any(experiment.name in wanted for experiment in found):
        raise DataError(f"no experiment of {', '.join(wanted)} has {HEADLINE_FILE}; have they finished?")
    return found


def _experiment(name: str, state: Mapping[str, Any]) -> Experiment | None:
    data = state.get("data") or {}
    headline = ((data.get("metrics") or {}).get(HEADLINE_FILE) or {}).get("data")
    if not headline:
        return None
    params = ((data.get("params") or {}).get("params.yaml") or {}).get("data") or {}
    return Experiment(name, state["rev"], dict(_leaves(params)), headline)


def _leaves(value: object, prefix: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        return [leaf for key, child in value.items() for leaf in _leaves(child, f"{prefix}.{key}" if prefix else key)]
    return [(prefix, value)]


def _with_methods(experiment: Experiment) -> Experiment:
    tasks = experiment.params.get("tasks") or []
    own = {task: f"reports/metrics/own_model/{task}.json" for task in tasks}
    before = {task: f"reports/metrics/classifier/{task}.json" for task in tasks}
    found = from_revision([METRICS_FILE, COSTS_FILE, *own.values(), *before.values()], experiment.revision)
    costs = found.get(COSTS_FILE, {}).get("headline", {})
    return replace(
        experiment,
        headline={**costs, **experiment.headline},
        tasks=found.get(METRICS_FILE, {}).get("tasks", {}),
        own_models=own_model_runs(
            experiment,
            {task: found.get(file, {}) for task, file in own.items()},
            {task: found.get(file, {}) for task, file in before.items()},
        ),
    )


def own_model_runs(
    experiment: Experiment, own: Mapping[str, Mapping[str, Any]], classifiers: Mapping[str, Mapping[str, Any]]
) -> list[OwnModelRun]:
    """Runs of explainers with their own classifier. own, classifiers: by task, what evaluate and finetune wrote."""

    def others(explainer: str) -> dict[str, Any]:
        return {key: value for key, value in experiment.params.items() if key not in (SEED, f"{explainer}.criteria")}

    return [
        OwnModelRun(
            name=experiment.name,
            explainer=explainer,
            others=others(explainer),
            criteria=tuple(experiment.params[f"{explainer}.criteria"]),
            norm=experiment.params[f"{explainer}.norm"],
            tasks={task: found[explainer] for task, found in own.items() if explainer in found},
            before={task: (found.get("test") or {}).get("accuracy") for task, found in classifiers.items()},
        )
        for explainer in dict.fromkeys(explainer for found in own.values() for explainer in found)
    ]


def changed_params(experiments: Sequence[Experiment]) -> list[tuple[str, list[str]]]:
    """Parameters in which the experiments differ, each with its value in every experiment; a dash where it has none."""
    paths = dict.fromkeys(path for experiment in experiments for path in experiment.params)
    rows = []
    for path in paths:
        values = [
            json.dumps(experiment.params[path], ensure_ascii=False) if path in experiment.params else "–"
            for experiment in experiments
        ]
        if len(set(values)) > 1:
            rows.append((path, values))
    return rows


def headline_rows(experiments: Sequence[Experiment]) -> list[Row]:
    """HEADLINE_COLUMNS of each experiment, the best of each marked. A row's family is the explainer under study."""
    cells = [
        _marked(column, [_number(experiment.headline.get(column.metric)) for experiment in experiments])
        for column in HEADLINE_COLUMNS
    ]
    return [
        Row(str(experiment.headline.get("explainer", "–")), experiment.name, tuple(column[i] for column in cells))
        for i, experiment in enumerate(experiments)
    ]


def task_rows(experiments: Sequence[Experiment]) -> list[tuple[str, list[Cell]]]:
    """F1 of the explainer under study: a row for each task, a cell for each experiment."""
    tables = [dict(figures(experiment.headline.get("f1_by_task") or {})) for experiment in experiments]
    tasks = dict.fromkeys(task for found in tables for task in found)
    return [(task, _marked(Column("f1", "F1", True), [found.get(task) for found in tables])) for task in tasks]


def method_rows(experiments: Sequence[Experiment], column: Column) -> list[Row]:
    """A figure of every method, mean over an experiment's tasks: a cell for each experiment, the best one marked.

    A method that lacks the figure on a task where others have it has none in that experiment.
    """
    tables = [_means(experiment, column.metric) for experiment in experiments]
    methods = leaderboard_order(list(dict.fromkeys(method for found in tables for method in found)))
    return [
        Row(get_info(method).family, method, tuple(_marked(column, [found.get(method) for found in tables])))
        for method in methods
    ]


def _means(experiment: Experiment, metric: str) -> dict[str, float]:
    judged = [
        methods
        for methods in experiment.tasks.values()
        if any(found.get(metric) is not None for found in methods.values())
    ]
    values = {
        method: [value for methods in judged if (value := methods.get(method, {}).get(metric)) is not None]
        for method in dict.fromkeys(method for methods in judged for method in methods)
    }
    return {method: sum(found) / len(found) for method, found in values.items() if found and len(found) == len(judged)}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _marked(column: Column, values: Sequence[float | None]) -> list[Cell]:
    """Cells with the best one marked, unless all show the same figure."""
    texts = [column.text(value) for value in values]
    best = column.best(values) if len(set(texts) - {column.text(None)}) > 1 else None
    return [Cell(value, text, best=column.is_best(value, best)) for value, text in zip(values, texts, strict=True)]


def write_experiments(folder: Path, experiments: Sequence[Experiment]) -> tuple[Path, Path]:
    """Write experiments.md, experiments.html and their figures into `folder`; returns the paths of the two pages."""
    names = "experiments.md", "experiments.html"
    blocks, maps = criterion_blocks([run for experiment in experiments for run in experiment.own_models])
    seeds = seed_blocks(experiments, METHOD_COLUMNS)
    # All is drawn before the first page is replaced.
    with scratch_folder(folder / "experiments") as made:
        write_gain_maps(made / "figures", maps)
        drawn = {found.file: data_uri(made / "figures" / found.file) for found in maps}
        write_text(made / names[0], render_markdown(experiments, blocks, seeds))
        write_text(made / names[1], render_html(experiments, blocks, drawn, seeds))
        put_files(made, folder)
    return folder / names[0], folder / names[1]


OWN_MODELS_TITLE = "Explainers that trained their own classifier"
OWN_MODELS_SENTENCE = Markdown(
    "Points: how training for the criteria changed the test accuracy of the task's classifier. All figures are those "
    "of the explainer on its own classifier."
)

SEEDS_TITLE = "Over seeds"
SEEDS_SENTENCE = Markdown(
    "Experiments that differ only in the seed: mean over the tasks, then mean and standard error over the seeds."
)

NOTHING_DIFFERS = Markdown("None: these experiments have the same parameters.")


def render_markdown(
    experiments: Sequence[Experiment], blocks: Sequence[Block] = (), seeds: Sequence[Block] = ()
) -> str:
    """The comparison as Markdown. blocks: of `criterion_blocks`; seeds: of `seed_blocks`."""
    names = [experiment.name for experiment in experiments]
    parts = [
        "# Experiments side by side",
        "The best value of each figure is bold; a difference may still be noise.",
        "## Headline",
    ]
    parts.append(
        table(
            ["Experiment", "Explainer", *(Markdown(column.title) for column in HEADLINE_COLUMNS)],
            [[row.method, row.family, *(c.markdown(False) for c in row.cells)] for row in headline_rows(experiments)],
            left=2,
        )
    )
    changed = changed_params_rows(experiments)
    parts += ["## Parameters that differ", table(["Parameter", *names], changed) if changed else NOTHING_DIFFERS]
    parts += [
        "## F1 of the explainer under study by task",
        table(
            ["Task", *names], [[task, *(c.markdown(False) for c in cells)] for task, cells in task_rows(experiments)]
        ),
    ]
    for column in METHOD_COLUMNS:
        rows = method_rows(experiments, column)
        if rows:
            parts.append(f"## {escape_markdown(column.heading)} of every method, mean over the tasks")
            cells = [[row.family, row.method, *(c.markdown(False) for c in row.cells)] for row in rows]
            parts.append(table(["Family", "Method", *names], cells, left=2))
    for title, sentence, group in (
        (SEEDS_TITLE, SEEDS_SENTENCE, seeds),
        (OWN_MODELS_TITLE, OWN_MODELS_SENTENCE, blocks),
    ):
        if group:
            parts += [f"## {title}", sentence]
            parts += [part for block in group for part in (f"### {escape_markdown(block.title)}", block.markdown)]
    return "\n\n".join(parts) + "\n"


def changed_params_rows(experiments: Sequence[Experiment]) -> list[list[str]]:
    """`changed_params` as cells."""
    return [[path, *values] for path, values in changed_params(experiments)]


def render_html(
    experiments: Sequence[Experiment],
    blocks: Sequence[Block] = (),
    drawn: Mapping[str, str] | None = None,
    seeds: Sequence[Block] = (),
) -> str:
    """The comparison as a page that needs no other file. drawn: name of a figure -> data: address that holds it."""
    script = Markup(asset("page.js"))
    names = [experiment.name for experiment in experiments]
    return (
        page_environment()
        .get_template("experiments.html.j2")
        .render(
            css=Markup(asset("report.css")),
            script=script,
            script_hash=source_hash(script),
            names=names,
            headline_columns=HEADLINE_COLUMNS,
            headline=headline_rows(experiments),
            changed=changed_params_rows(experiments),
            nothing_differs=NOTHING_DIFFERS,
            tasks=[Row("", task, tuple(cells)) for task, cells in task_rows(experiments)],
            methods=[
                (
                    column,
                    [Column(column.metric, name, column.larger_is_better) for name in names],
                    rows,
                )
                for column in METHOD_COLUMNS
                if (rows := method_rows(experiments, column))
            ],
            task_columns=[Column("f1", name, True) for name in names],
            groups=[
                (name, title, sentence, group)
                for name, title, sentence, group in (
                    ("seeds", SEEDS_TITLE, SEEDS_SENTENCE, seeds),
                    ("own", OWN_MODELS_TITLE, OWN_MODELS_SENTENCE, blocks),
                )
                if group
            ],
            drawn=drawn or {},
            better="",
            worse="",
        )
    )

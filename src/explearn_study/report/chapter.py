"""The chapter on the explainer under study: what it learned from, its training, its options, and how it compares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, zip_longest
from math import ceil
from typing import Any

from explearn.evaluation.result import Evaluation, Figures
from explearn.methods.base.teachers import members
from explearn.metrics.base import Metric
from explearn.report.conclusions import QUESTIONS
from explearn.report.examples import example_text
from explearn.report.run import RunFacts, pooled
from explearn.show.blocks import (
    Block,
    Cell,
    Column,
    ExampleText,
    Fold,
    Heading,
    Mark,
    Paragraph,
    Picture,
    Table,
    bold,
    columns,
    figure,
)
from explearn_study.params import Params, RunMethod
from explearn_study.report.papers import published

TEXTS = 5
"""Number of texts that are shown."""

SMALL = 0.001
"""p below which only this bound is shown."""

ACROSS = 3
"""Most panels of training curves beside each other."""

# In inches.
_WIDTH = 7.5
_PANEL_HEIGHT = 1.9

LEARNED_FROM = {
    "from_texts": "It learned from each task's texts and its classifier.",
    "from_features": "It learned from marked words, attention and word scores of the tasks; from the marks of the task "
    "that it explains only where an option says so.",
    "from_teachers": "It learned from what its teacher says of each task's texts.",
}
"""Part of `learned` -> what its methods learned from."""

COMPARED = (
    "{bold}: significantly better than {name}. {underlined}: not told apart from it. Beside them: p of Wilcoxon's test "
    "over the texts, corrected after Holm over all pairs of methods in the column. {whose}"
)


def chapter_blocks(params: Params, run: RunFacts, own: Sequence[Evaluation]) -> list[Block]:
    """Return the chapter; nothing without an explainer under study.

    Args:
        params: the run's parameters.
        run: the run.
        own: the evaluations on the classifiers that the explainer trained; empty if it explains the tasks' own.
    """
    if params.explainer is None:
        return []
    entry = params.methods[params.explainer]
    counted = {task.task for task in run.counted}
    own = [task for task in own if task.task in counted]
    judged = pooled(own) if own else run.overall
    rows = compared(params, entry, judged)
    whose = "All rows explain the tasks' classifiers."
    if own:
        whose = f"All rows explain the classifiers that {entry.name} trained."
    legend = COMPARED.format(bold=bold("Bold"), underlined="Underlined", name=entry.name, whose=whose)
    blocks: list[Block] = [
        Heading(f"The explainer under study: {entry.name}"),
        Paragraph(" ".join(about(params, run, entry))),
        beside(judged, entry.name, rows),
        Paragraph(legend, style="note"),
    ]
    variants = {}
    for method in params.methods.values():
        if method.base == entry.base and method is not entry:
            variants[method.name] = ", ".join(differing(method, entry))
    if variants:
        table = beside(run.overall, entry.name, {entry.name: "under study", **variants})
        blocks.append(Fold("Its variants: what other options bring", [table]))
    blocks += training(run, entry)
    if entry.info.learned:
        blocks.append(Fold("Its options", [options_table(entry)]))
    texts = list(islice(example_texts(own or run.counted, [*rows]), TEXTS))
    if texts:
        blocks.append(Fold(f"{len(texts)} texts, explained by these methods", texts))
    return blocks


def about(params: Params, run: RunFacts, entry: RunMethod) -> Iterator[str]:
    """Yield sentences: what the explainer is, what it learned from, under which seed, and what its paper measured."""
    yield entry.info.summary
    source = params.method(entry.info.base or entry.name)
    if source is not entry:
        yield f"It starts from {source.name}."
    if source not in params.trained:
        return
    yield LEARNED_FROM[source.learned_part]
    if entry.info.own_model:
        yield "It trained a copy of each classifier, too, and explains only that."
    yield f"It was trained once, with seed {params.seed}."
    tables = []
    for table in published().tables:
        if any(row == entry.base or row.startswith(f"{entry.base}_") for row in table.figures):
            tables.append(table)
    if tables:
        data = dict.fromkeys(chain.from_iterable(table.data.values() for table in tables))
        adapters = {params.sources[task.task].adapter for task in run.tasks}
        where = "which this run does not have."
        if any(adapters & table.data.keys() for table in tables):
            where = "next to ours below."
        yield f"Its paper's figures ({tables[0].paper}) are on {', '.join(data)}, {where}"


def compared(params: Params, entry: RunMethod, judged: Evaluation) -> dict[str, str]:
    """Return the methods to show beside the explainer: name -> what it is there."""
    rows = {entry.name: "under study"}
    if entry.teacher:
        for teacher in members(entry.teacher):
            if teacher in judged.figures:
                rows[teacher] = "its teacher"
    for name in QUESTIONS:
        baselines = {}
        for method, value in judged.values(name).items():
            if method in params.baseline_names and method not in judged.chance:
                baselines[method] = value
        if baselines:
            metric = judged.metrics[name]
            rows.setdefault(metric.best(baselines), f"best baseline, {metric.heading}")
    for method in judged.figures:
        if judged.infos[method].at_random:
            rows.setdefault(method, "random scores")
    return rows


def beside(judged: Evaluation, study: str, rows: Mapping[str, str]) -> Table:
    """Return a table of methods, each compared with the one under study by paired tests.

    Args:
        judged: the figures.
        study: the explainer under study.
        rows: method -> what it is.
    """
    metrics = [judged.metrics[name] for name in QUESTIONS if name in judged.metrics and judged.values(name)]
    heads = [*columns(["Method", "What it is"]), *(Column(metric.title) for metric in metrics)]
    cells: list[list[Cell | str]] = []
    for method, what in rows.items():
        cells.append([judged.marked(method), what, *(_cell(judged, metric, method, study) for metric in metrics)])
    return Table(heads, cells, methods=list(rows))


def _cell(judged: Evaluation, metric: Metric, method: str, study: str) -> Cell:
    value = judged.figures[method].get(metric.name)
    tests = judged.comparisons.get(metric.name)
    mark: Mark = ""
    note = ""
    if tests is not None and method != study and {method, study} <= {*tests.methods}:
        outcome = tests.outcome(method, study, tests.significance)
        mark = {1: "best", 0: "tied", -1: ""}[outcome]  # type: ignore[assignment]
        p_value = tests.p_value(method, study)
        note = f"p = {p_value:.2g}"
        if p_value < SMALL:
            note = f"p < {SMALL}"
    return Cell(metric.shown(value), value, mark, note)


def training(run: RunFacts, entry: RunMethod) -> list[Block]:
    """Return a fold with the explainer's budget and its training curves; nothing if it has no epochs."""
    courses = {}
    rows = []
    for task in run.tasks:
        notes = task.notes.get(entry.name, {})
        if "epochs" not in notes:
            continue
        courses[task.task] = [dict(flat(epoch)) for epoch in notes["epochs"]]
        texts = f"{task.splits.get('train', 0):,}, {task.splits.get('validation', 0):,}"
        epochs = f"{notes['best_epoch']} of {notes['epochs'][-1]['epoch']}"
        seconds = task.figures[entry.name].get("training_seconds")
        shown = "–" if seconds is None else f"{seconds:,.0f}"
        accuracies = [figure(accuracy) for accuracy in notes.get("accuracy", ())]
        rows.append([task.task, texts, epochs, " → ".join(accuracies) or "–", shown])
    if not courses:
        return []
    heads = columns(["Task", "Texts to train on, to validate", "Epoch kept", "Accuracy of its classifier"])
    heads.append(Column("Processor seconds", machine=True))
    panels = dict.fromkeys(chain.from_iterable(chain.from_iterable(courses.values())))
    names = [name for name in panels if name not in ("epoch", "best")]
    picture = Picture(
        "figures/training.svg",
        "A line for each task; the point is the epoch that was kept.",
        f"{', '.join(names)} by epoch, a line for each task",
        (_WIDTH, ceil(len(names) / ACROSS) * _PANEL_HEIGHT + 0.3),
        partial(_draw, courses, names),
    )
    return [Fold("Its training", [picture, Table(heads, rows)])]


def flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the names and values of nested mappings, names joined by a dot."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _draw(courses: Mapping[str, Sequence[Figures]], names: Sequence[str], figure: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    from explearn.report.figures.style import FAINT, STYLES

    grid = figure.subplots(ceil(len(names) / ACROSS), min(len(names), ACROSS), squeeze=False).flat
    for axes, name in zip_longest(grid, names):
        if name is None:
            axes.set_visible(False)
            continue
        axes.set_title(name, fontsize=9, fontweight="bold", loc="left")
        axes.grid(axis="y", color=FAINT, linewidth=0.6)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(4))
        # Colours repeat where there are more tasks than families of methods.
        for number, (task, epochs) in enumerate(courses.items()):
            colour, _ = list(STYLES.values())[number % len(STYLES)]
            points = [epoch for epoch in epochs if epoch.get(name) is not None]
            line = [epoch["epoch"] for epoch in points], [epoch[name] for epoch in points]
            axes.plot(*line, color=colour, linewidth=1.2, label=task)
            for epoch in points:
                if epoch["best"]:
                    axes.plot(epoch["epoch"], epoch[name], color=colour, marker="o", markersize=4)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    figure.supxlabel("epoch", fontsize=9)


def options_table(entry: RunMethod) -> Table:
    """Return a table of a method's options with their defaults, those that differ in bold."""
    defaults = dict(flat(RunMethod(name=entry.base, of=entry.base).all_options))
    rows = []
    for name, value in flat(entry.all_options):
        shown = str(value)
        if value != defaults.get(name):
            shown = bold(shown)
        rows.append([name, shown, str(defaults.get(name))])
    return Table(columns(["Option", "Here", "Default"]), rows)


def differing(method: RunMethod, entry: RunMethod) -> Iterator[str]:
    """Yield the options of a method that differ from another one's."""
    others = dict(flat(entry.all_options))
    for name, value in flat(method.all_options):
        if value != others.get(name):
            yield f"{name} {value}"


def example_texts(tasks: Sequence[Evaluation], methods: Sequence[str]) -> Iterator[ExampleText]:
    """Yield example texts, the tasks taking turns, explained by the methods but those by chance."""
    for turn in zip_longest(*(task.examples for task in tasks)):
        for task, example in zip(tasks, turn, strict=True):
            if example is not None:
                shown = [method for method in methods if method not in task.chance]
                yield example_text(task, example, f"{task.task}, {example.id}", shown)

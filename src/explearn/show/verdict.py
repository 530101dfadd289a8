"""The report's first page: which method is best at what, and at what cost, from the numbers alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from explearn.judge.catalogue import METRICS
from explearn.judge.significance import PairedTests, paired_tests
from explearn.methods.registry import get_info, leaderboard_order
from explearn.show.columns import Cell, Column, Row, comparable
from explearn.show.columns import column as of_catalogue
from explearn.show.markdown import Markdown, escape_markdown
from explearn.show.task_report import Number, TaskReport
from explearn_study.params import Params
from explearn_study.report.headline import best_rival, headline

QUESTIONS: tuple[tuple[str, Column], ...] = (
    ("Chooses the words that people marked", of_catalogue("f1_topk")),
    ("Puts marked words first", of_catalogue("auroc")),
    ("Finds the words the classifier depends on", of_catalogue("aopc_comprehensiveness")),
    ("Finds words that are enough on their own", of_catalogue("aopc_sufficiency")),
    ("Predicts what masking words does", of_catalogue("infidelity")),
    ("Explains texts of similar meaning alike", of_catalogue("stability_semantic", heading="Stability")),
    ("Explains alike where the classifier's states are close", of_catalogue("consistency")),
    ("Teaches others to predict the classifier", of_catalogue("simulatability")),
)
"""What the first page asks of the methods, each question with the figure that answers it. All methods choose their
words by the same rule, so that none gains from its own."""

TIME = of_catalogue("time")


@dataclass(frozen=True, slots=True)
class Leader:
    """The answer to one question.

    Attributes:
        question, column: what is asked, and the figure.
        method, value: the method with the best mean over the tasks, and that mean. Only methods count that have the
            figure on every task where any has it.
        chance: the mean of random scores; None where they were not compared.
        unbeaten, tasks: on how many tasks no method is significantly better, and how many tasks were tested.
        time: its time to classify and explain, relative to classifying alone.
        rivals: how many other methods are not significantly worse over the texts of all tasks together, without random
            scores; None where this was not tested.
        random_too: whether random scores are not significantly worse either.
        fastest, fastest_time: the fastest of the best method and its rivals; None where this was not tested.
    """

    question: str
    column: Column
    method: str
    value: float
    chance: float | None
    unbeaten: int
    tasks: int
    time: float | None
    rivals: int | None
    random_too: bool
    fastest: str | None
    fastest_time: float | None


def near_chance(classifier: Mapping[str, Mapping[str, Number]], margin: float) -> tuple[float, float] | None:
    """Test accuracy and share of the most frequent class, where accuracy is less than `margin` higher; else None."""
    test = classifier.get("test", {})
    accuracy, majority = test.get("accuracy"), test.get("majority_rate")
    if accuracy is None or majority is None or accuracy - majority >= margin:
        return None
    return accuracy, majority


def counted_tasks(params: Params, tasks: Sequence[TaskReport]) -> list[TaskReport]:
    """The tasks that means and counts are over: those whose classifier is not `near_chance`; all where each one is."""
    margin = params.report.chance_margin
    return [task for task in tasks if near_chance(task.classifier, margin) is None] or list(tasks)


def counting_sentence(params: Params, tasks: Sequence[TaskReport]) -> Markdown:
    """Which tasks the means are over, and why the others are left out."""
    counted = {task.task for task in counted_tasks(params, tasks)}
    weak = [
        f"{escape_markdown(task.task)} (accuracy {found[0]:.3f}, most frequent class {found[1]:.3f})"
        for task in tasks
        if (found := near_chance(task.classifier, params.report.chance_margin)) is not None
    ]
    if not weak:
        return Markdown("Means are over all tasks.")
    hardly = f"the classifier is hardly better than always choosing the most frequent class: {', '.join(weak)}"
    if len(weak) == len(tasks):
        return Markdown(f"**No evidence about the methods:** on every task {hardly}. Means are over all of them.")
    return Markdown(
        f"Means are over {len(counted)} of {len(tasks)} tasks. Left out are those where {hardly}. "
        "Their figures are in their own sections. The means in headline.json are over all tasks."
    )


def means(metric: str, tasks: Sequence[TaskReport]) -> dict[str, float]:
    """Method -> mean over the tasks where any method has the metric; methods that lack it on one of these are left out.

    The metric `time` is the time to classify and explain, relative to classifying alone.
    """

    def value(task: TaskReport, method: str) -> Number:
        figures = task.methods.get(method, {})
        if metric != TIME.metric:
            return figures.get(metric)
        speed = figures.get("relative_throughput")
        return 1 / speed if speed else None

    judged = [task for task in tasks if any(value(task, method) is not None for method in task.methods)]
    found = {}
    for method in leaderboard_order(list(dict.fromkeys(m for task in judged for m in task.methods))):
        values = [number for task in judged if (number := value(task, method)) is not None]
        if len(values) == len(judged):
            found[method] = fmean(values)
    return found


def leaders(tasks: Sequence[TaskReport], significance: float) -> list[Leader]:
    """The answers to those QUESTIONS for which the tasks have figures."""
    times = means(TIME.metric, tasks)
    found = []
    for question, column in QUESTIONS:
        table = {m: value for m, value in means(column.metric, tasks).items() if comparable(m, column.metric)}
        if not table:
            continue
        best = (max if column.larger_is_better else min)(table, key=table.__getitem__)
        compared = [c for task in tasks if (c := task.comparisons.get(column.metric)) is not None and c.methods]
        together = compare_together(column.metric, table, tasks, column.larger_is_better is True, significance)
        level = [] if together is None else [m for m in (*together.best, *together.tied) if m != best]
        rivals = [method for method in level if get_info(method).family != "chance"]
        tested = [] if together is None else [best, *rivals]
        fastest = min((m for m in tested if m in times), key=times.__getitem__, default=None)
        found.append(
            Leader(
                question,
                column,
                best,
                table[best],
                table.get("random"),
                sum(best in c.best or best in c.tied for c in compared),
                len(compared),
                times.get(best),
                None if together is None else len(rivals),
                "random" in level,
                fastest,
                times[fastest] if fastest else None,
            )
        )
    return found


def compare_together(
    metric: str, values: Mapping[str, float], tasks: Sequence[TaskReport], larger_is_better: bool, significance: float
) -> PairedTests | None:
    """Paired tests over the texts of all tasks together, between the methods in `values` (method -> mean over tasks);
    None where a task has such figures, but not text by text."""
    rows: dict[str, list[NDArray[np.float64]]] = {method: [] for method in values}
    for task in tasks:
        if all(of.get(metric) is None for of in task.methods.values()):
            continue
        by_text = task.by_text.get(METRICS[metric].by_text, {})
        if any(method not in by_text for method in values):
            return None
        for method, of_tasks in rows.items():
            of_tasks.append(by_text[method])
    joined = {method: np.concatenate(of_tasks) for method, of_tasks in rows.items()}
    return paired_tests(metric, values, joined, larger_is_better, significance)


LEADER_HEADINGS = [
    "Question",
    "Best method",
    "Its figure",
    "Not beaten on",
    "Time",
    "Others not significantly worse",
    "Fastest of these and the best",
]
_TIME_COLUMNS = (4, 6)

LEADER_EXPLANATION = Markdown(
    "Not beaten: no method is significantly better on the task. Not significantly worse: tested over the texts of all "
    "these tasks together. Neither means equal: with few texts, large differences can go unnoticed. None clearly: "
    "random scores are not significantly worse than the first, or are themselves the first."
)
TIME_EXPLANATION = Markdown("Time: to classify and explain, relative to classifying alone.")


def without_times(cells: Sequence[str]) -> list[str]:
    """LEADER_HEADINGS, or a row of `leader_rows`, without the columns that depend on the machine."""
    return [cell for index, cell in enumerate(cells) if index not in _TIME_COLUMNS]


def only_times(cells: Sequence[str]) -> list[str]:
    """LEADER_HEADINGS, or a row of `leader_rows`: question, method, and the columns that depend on the machine."""
    return [*cells[:2], *(cells[index] for index in _TIME_COLUMNS)]


def leader_rows(found: Sequence[Leader]) -> list[list[Markdown]]:
    """Cells of the table of the best methods, under LEADER_HEADINGS."""
    rows = []
    for leader in found:
        figure = f"{leader.column.title} {leader.column.text(leader.value)}"
        if leader.chance is not None:
            figure += f" (random: {leader.column.text(leader.chance)})"
        fastest = "not tested"
        name = f"{escape_markdown(leader.method)}{aside(leader.method)}"
        best = f"**{escape_markdown(leader.method)}**{aside(leader.method)}"
        if leader.random_too or get_info(leader.method).family == "chance":
            # No method is to be chosen by a figure in which random scores do as well.
            best, fastest = f"none clearly (first: {name})", "–"
        elif leader.fastest is not None:
            fastest = f"{escape_markdown(leader.fastest)}, {TIME.text(leader.fastest_time)}{aside(leader.fastest)}"
        rivals = "not tested" if leader.rivals is None else str(leader.rivals)
        rows.append(
            [
                Markdown(leader.question),
                Markdown(best),
                Markdown(figure),
                Markdown(f"{leader.unbeaten} of {_tasks(leader.tasks)}" if leader.tasks else "not tested"),
                Markdown(TIME.text(leader.time)),
                Markdown(f"{rivals}, and random" if leader.random_too else rivals),
                Markdown(fastest),
            ]
        )
    return rows


def aside(method: str) -> str:
    """Why a method's figures do not compare with the others', in brackets; `caveats` says more."""
    if get_info(method).own_model:
        return " (on its own classifier)"
    return " (looks at a metric)" if get_info(method).watches_metric else ""


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"


QUESTION_COLUMNS = tuple(column for _, column in QUESTIONS)


def overview(tasks: Sequence[TaskReport], chosen: Sequence[Column]) -> tuple[list[Column], list[Row]]:
    """Every method's means over the tasks in the chosen columns; the best of those that compare is marked.

    Returns the columns for which there are figures, and the rows.
    """
    columns = list(chosen)
    tables = {column.metric: means(column.metric, tasks) for column in columns}
    columns = [column for column in columns if tables[column.metric]]
    best = {}
    for column in columns:
        values = [value for m, value in tables[column.metric].items() if comparable(m, column.metric)]
        best[column.metric] = column.text((max if column.larger_is_better else min)(values)) if values else None
    rows = []
    for method in leaderboard_order(list(dict.fromkeys(m for task in tasks for m in task.methods))):
        cells = []
        for column in columns:
            value = tables[column.metric].get(method)
            text = column.text(value)
            cells.append(Cell(value, text, best=text == best[column.metric] and comparable(method, column.metric)))
        rows.append(Row(get_info(method).family, method, tuple(cells)))
    return columns, rows


def headline_sentences(params: Params, tasks: Sequence[TaskReport]) -> list[Markdown]:
    """What the numbers say about the explainer under study, if there is one, times apart; nothing not measured."""
    if params.explainer is None:
        return []
    methods = {task.task: task.methods for task in tasks}
    numbers = headline(params.explainer, params.baseline_names, methods)
    name = Markdown(f"**{escape_markdown(params.explainer)}**")
    topk = numbers["f1_topk"]
    if not isinstance(topk, float):
        return [Markdown(f"No text of these tasks has marked words to compare {name} with.")]
    count = sum(of.get(params.explainer, {}).get("f1_topk") is not None for of in methods.values())
    over = _tasks(count)
    sentences = [
        f"When every method chooses its K highest-scoring words, {name} agrees with the marked words with an F1 of "
        f"**{topk:.3f}** (mean over {over})."
    ]
    chance = numbers["random_f1_topk"]
    compared = params.explainer != "random"
    if compared and isinstance(chance, float):
        sentences.append(f"K words drawn at random reach {chance:.3f}: {name} is {_compared(topk, chance)}.")
    others = sorted({m for of in methods.values() for m in of} - {params.explainer})
    baselines = [m for m in others if m in params.baselines.quick or m in params.baselines.costly]
    best_baseline = best_rival(methods, params.explainer, baselines, "f1_topk")
    best_other = best_rival(methods, params.explainer, others, "f1_topk")
    for rival, what in ((best_baseline, "baseline"), (best_other, "other method")):
        if rival is None or (what != "baseline" and best_baseline and rival.method == best_baseline.method):
            continue
        lost = count - rival.tasks_won
        ahead = f"At least one {what} is ahead of {name} on {lost} of {over}"
        sentences.append(
            f"The best {what} by that mean, {escape_markdown(rival.method)}, reaches {rival.value:.3f}: {name} is "
            f"{_compared(topk, rival.value)}. {ahead if lost else f'No {what} is ahead of {name} on any task'}."
        )
    f1, chance_f1 = numbers["f1"], numbers["random_f1"]
    if isinstance(f1, float):
        by_rule = f"When it chooses words by its own rule, its F1 is {f1:.3f}"
        if compared and isinstance(chance_f1, float):
            by_rule += f"; words drawn at random, as often as people mark them, reach {chance_f1:.3f}"
        sentences.append(f"{by_rule}.")
    auroc = numbers["auroc"]
    if isinstance(auroc, float):
        sentences.append(f"Its mean AUROC is {auroc:.3f}; ordering words at random gives 0.5.")
    return [Markdown(sentence) for sentence in sentences]


def time_sentences(params: Params, tasks: Sequence[TaskReport]) -> list[Markdown]:
    """How long the explainer under study takes, in one sentence; none where it was not measured."""
    time = means(TIME.metric, tasks).get(params.explainer or "")
    if time is None or params.explainer is None:
        return []
    name = escape_markdown(params.explainer)
    return [Markdown(f"Classifying and explaining with {name} takes {TIME.text(time)} as long as classifying alone.")]


def _compared(own: float, other: float) -> str:
    difference = round(own - other, 3)
    if difference == 0:
        return "level with it"
    return f"{abs(difference):.3f} {'above' if difference > 0 else 'below'} it"

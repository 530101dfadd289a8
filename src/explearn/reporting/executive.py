"""The report's first page: who wins on what, at what cost, and what not to trust, from the numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from explearn.metrics.evaluate import headline
from explearn.metrics.significance import Comparison
from explearn.params import Params
from explearn.registry import get_info
from explearn.reporting.columns import Cell, Column, Row
from explearn.reporting.markdown import Markdown, escape_markdown
from explearn.reporting.tables import Number, TaskReport, leaderboard_order

QUESTIONS: tuple[tuple[str, Column], ...] = (
    ("Chooses the words that people marked", Column("f1", "F1", True)),
    ("Puts marked words first", Column("auroc", "AUROC", True)),
    ("Finds the words the classifier depends on", Column("aopc_comprehensiveness", "AOPC compr.", True)),
    ("Finds words that alone are enough", Column("aopc_sufficiency", "AOPC suff.", False)),
    ("Foretells what masking words does", Column("infidelity", "Infidelity", False, decimals=4)),
    ("Explains like texts alike, by meaning", Column("stability_semantic", "Stability", True)),
    ("Stays near where the classifier's states are near", Column("consistency", "Consistency", True)),
    ("Teaches others to foretell the classifier", Column("simulatability", "Simulatability", True)),
)
"""What the first page asks of the methods, each with the figure that answers it."""

TIME = Column("time", "Time", False, "×", 1, limit=1.0)


@dataclass(frozen=True, slots=True)
class Leader:
    """The answer to one question.

    Attributes:
        question, column: what is asked, and the figure.
        method, value: the best mean over the tasks, among methods that have the figure on every task that has it.
        chance: the mean of random scores, None where they were not compared.
        kept_up, tasks: on how many tasks the method is best or ties with the best.
        time: its time to classify and explain, relative to classifying alone.
        rivals: how many other methods are best or tie with the best on every task.
        cheapest, cheapest_time: the fastest method that is best or ties with the best on every task, if any.
    """

    question: str
    column: Column
    method: str
    value: float
    chance: float | None
    kept_up: int
    tasks: int
    time: float | None
    rivals: int
    cheapest: str | None
    cheapest_time: float | None


def means(metric: str, tasks: Sequence[TaskReport]) -> dict[str, float]:
    """Method -> mean over the tasks where any method has the metric; methods that lack it on one of them are left out.

    The metric `time` is that of classifying and explaining, relative to classifying alone.
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


def leaders(tasks: Sequence[TaskReport]) -> list[Leader]:
    """The answers to QUESTIONS that the tasks have figures for."""
    times = means(TIME.metric, tasks)
    found = []
    for question, column in QUESTIONS:
        table = means(column.metric, tasks)
        if not table:
            continue
        best = (max if column.larger_is_better else min)(table, key=table.__getitem__)
        compared = [c for task in tasks if (c := task.comparisons.get(column.metric)) is not None and c.methods]
        everywhere = [m for m in table if compared and all(_keeps_up(m, c) for c in compared)]
        cheapest = min((m for m in everywhere if m in times), key=times.__getitem__, default=None)
        found.append(
            Leader(
                question,
                column,
                best,
                table[best],
                table.get("random"),
                sum(_keeps_up(best, c) for c in compared),
                len(compared),
                times.get(best),
                len(set(everywhere) - {best}),
                cheapest,
                times[cheapest] if cheapest else None,
            )
        )
    return found


LEADER_HEADINGS = [
    "What is asked",
    "Ahead",
    "Its figure",
    "Keeps up",
    "Time",
    "Others that keep up everywhere",
    "Cheapest that keeps up everywhere",
]


def leader_rows(found: Sequence[Leader]) -> list[list[Markdown]]:
    """Cells of the table of leaders, under LEADER_HEADINGS."""
    rows = []
    for leader in found:
        figure = f"{leader.column.title} {leader.column.text(leader.value)}"
        if leader.chance is not None:
            figure += f" (random: {leader.column.text(leader.chance)})"
        cheapest = "no method"
        if leader.cheapest is not None:
            cheapest = f"{escape_markdown(leader.cheapest)}, {TIME.text(leader.cheapest_time)}"
        rows.append(
            [
                Markdown(leader.question),
                Markdown(f"**{escape_markdown(leader.method)}**{_aside(leader.method)}"),
                Markdown(figure),
                Markdown(f"{leader.kept_up} of {leader.tasks}" if leader.tasks else "not tested"),
                Markdown(TIME.text(leader.time)),
                Markdown(str(leader.rivals)),
                Markdown(cheapest),
            ]
        )
    return rows


def _aside(method: str) -> str:
    """What makes a method's figures another thing than the others', as `explearn.reporting.caveats` says at length."""
    if get_info(method).own_model:
        return " (on its own classifier)"
    return " (looks at a metric)" if get_info(method).watches_metric else ""


def _keeps_up(method: str, comparison: Comparison) -> bool:
    return method in comparison.best or method in comparison.tied


def overview(tasks: Sequence[TaskReport]) -> tuple[list[Column], list[Row]]:
    """Every method's means over the tasks in the figures of QUESTIONS, and its time; the best of a column marked."""
    columns = [column for _, column in QUESTIONS] + [TIME]
    tables = {column.metric: means(column.metric, tasks) for column in columns}
    columns = [column for column in columns if tables[column.metric]]
    best = {
        column.metric: column.text((max if column.larger_is_better else min)(tables[column.metric].values()))
        for column in columns
    }
    rows = []
    for method in leaderboard_order(list(dict.fromkeys(m for task in tasks for m in task.methods))):
        values = [tables[column.metric].get(method) for column in columns]
        texts = [column.text(value) for column, value in zip(columns, values, strict=True)]
        cells = tuple(
            Cell(value, text, best=text == best[column.metric])
            for column, value, text in zip(columns, values, texts, strict=True)
        )
        rows.append(Row(get_info(method).family, method, cells))
    return columns, rows


def headline_sentences(params: Params, tasks: Sequence[TaskReport]) -> list[Markdown]:
    """What the numbers say of the explainer under study, in plain sentences; nothing that was not measured."""
    numbers = headline(params, {task.task: task.methods for task in tasks})
    name = Markdown(f"**{escape_markdown(params.explainer)}**")
    f1 = numbers["f1"]
    if not isinstance(f1, float):
        return [Markdown(f"No text of these tasks has marked words that {name} could be compared with.")]
    count = numbers["tasks_with_f1"]
    over = "1 task" if count == 1 else f"{count} tasks"
    sentences = [f"{name} agrees with the marked words at an F1 of **{f1:.3f}**, the mean over {over}."]
    chance, topk, chance_topk = numbers["random_f1"], numbers["f1_topk"], numbers["random_f1_topk"]
    if params.explainer != "random" and isinstance(chance, float):
        sentences.append(
            f"Words drawn at random, as often as people mark them, have {chance:.3f}: {name} is "
            f"{_compared(f1, chance)}."
        )
        if isinstance(topk, float) and isinstance(chance_topk, float):
            sentences.append(
                f"Where every method chooses its K best words, {name} has {topk:.3f} and random words have "
                f"{chance_topk:.3f}."
            )
    for key, won, what in (
        ("best_baseline", "tasks_won_f1_baselines", "baseline"),
        ("best_other", "tasks_won_f1", "other method"),
    ):
        rival, value = numbers[key], numbers[f"{key}_f1"]
        if not isinstance(rival, str) or not isinstance(value, float):
            continue
        if key == "best_other" and rival == numbers["best_baseline"]:
            continue
        sentences.append(
            f"The best {what} by that mean, {escape_markdown(rival)}, has {value:.3f}: {name} is "
            f"{_compared(f1, value)}, and leads every {what}, or ties with the best, on {numbers[won]} of {over}."
        )
    auroc, time = numbers["auroc"], means(TIME.metric, tasks).get(params.explainer)
    if isinstance(auroc, float):
        sentences.append(f"Its mean AUROC is {auroc:.3f}, where ordering words by chance gives 0.5.")
    if time is not None:
        sentences.append(f"Classifying and explaining takes {TIME.text(time)} as long as classifying alone.")
    return [Markdown(sentence) for sentence in sentences]


def _compared(own: float, other: float) -> str:
    difference = round(own - other, 3)
    if difference == 0:
        return "level with it"
    return f"{abs(difference):.3f} {'above' if difference > 0 else 'below'} it"

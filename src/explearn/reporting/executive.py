"""The report's first page: who wins on what, at what cost, and what not to trust, from the numbers alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy.stats import spearmanr

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

TIME = Column("time", "Time", False, "×", 1)

NOTICED = 0.5
"""Rank correlation between a method's scores before and after new random weights, from which the report says that the
method hardly notices. A bound of our own: random scores of the same text correlate at 1, unrelated ones at 0."""

TENTATIVE_ALPHA = 0.667
"""Krippendorff's alpha below which he advises against conclusions (Krippendorff 2004, Content Analysis, 11.4.2)."""

SHIFT = 0.1
"""Fall of the classifier's mean confidence on shortened texts from which the report speaks of it."""


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
                Markdown(f"**{escape_markdown(leader.method)}**"),
                Markdown(figure),
                Markdown(f"{leader.kept_up} of {leader.tasks}" if leader.tasks else "not tested"),
                Markdown(TIME.text(leader.time)),
                Markdown(str(leader.rivals)),
                Markdown(cheapest),
            ]
        )
    return rows


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
    auroc, speed = numbers["auroc"], numbers["relative_throughput"]
    if isinstance(auroc, float):
        sentences.append(f"Its mean AUROC is {auroc:.3f}, where ordering words by chance gives 0.5.")
    if isinstance(speed, float):
        sentences.append(f"It classifies and explains at {speed:.3f} times the speed of classifying alone.")
    return [Markdown(sentence) for sentence in sentences]


def _compared(own: float, other: float) -> str:
    difference = round(own - other, 3)
    if difference == 0:
        return "level with it"
    return f"{abs(difference):.3f} {'above' if difference > 0 else 'below'} it"


def chance_warning(classifier: Mapping[str, Mapping[str, Number]], margin: float) -> Markdown | None:
    """A warning where test accuracy is less than `margin` above always answering the most frequent class, else None."""
    test = classifier.get("test", {})
    accuracy, majority = test.get("accuracy"), test.get("majority_rate")
    if accuracy is None or majority is None or accuracy - majority >= margin:
        return None
    return Markdown(
        f"The classifier answers {accuracy:.3f} of the test texts rightly; always answering the most frequent class "
        f"would give {majority:.3f}. A model that has learned this little gives little to explain: read this task's "
        "numbers as a check of the machinery, not as evidence about the methods."
    )


def caveats(params: Params, tasks: Sequence[TaskReport]) -> list[Markdown]:
    """What not to trust, each as a sentence or two that the numbers of this run bear out."""
    found: list[str] = []
    weak = [task.task for task in tasks if chance_warning(task.classifier, params.report.chance_margin)]
    if weak:
        found.append(
            f"**Weak classifiers:** {_names(weak)}. There the classifier itself is hardly better than always answering "
            "the most frequent class, so that explaining it means little."
        )
    level = params.evaluate.significance
    found += [*_disagreeing_annotators(tasks), *_noise(tasks, level), *_chance(tasks, level), *_unmoved(tasks)]
    found += [*_uninformative(tasks, level), *_out_of_distribution(tasks), *_rankings(tasks)]
    return [Markdown(sentence) for sentence in found]


def _names(names: Sequence[str]) -> str:
    return ", ".join(escape_markdown(name) for name in names)


def _disagreeing_annotators(tasks: Sequence[TaskReport]) -> list[str]:
    alphas = {task.task: alpha for task in tasks if (alpha := task.agreement.get("alpha")) is not None}
    low = {task: alpha for task, alpha in alphas.items() if alpha < TENTATIVE_ALPHA}
    found = []
    if low:
        listed = ", ".join(f"{escape_markdown(task)} ({alpha:.2f})" for task, alpha in low.items())
        found.append(
            f"**People disagree on the words:** {listed}. Krippendorff's alpha is below {TENTATIVE_ALPHA}; agreement "
            "with marked words can be no surer than the marks."
        )
    single = [task.task for task in tasks if task.agreement.get("kinds") and task.task not in alphas]
    if single:
        found.append(f"**One opinion only:** in {_names(single)} no text is marked by two; how sure are the marks?")
    return found


def _noise(tasks: Sequence[TaskReport], level: float) -> list[str]:
    """How wide intervals are, and how many differences are told apart."""
    found = []
    halves = [
        (high - low) / 2
        for task in tasks
        for figures in task.methods.values()
        if (low := figures.get("f1_low")) is not None and (high := figures.get("f1_high")) is not None
    ]
    if halves:
        texts = [int(t) for task in tasks for m in task.methods.values() if (t := m.get("plausibility_texts"))]
        counted = f"{min(texts):,} to {max(texts):,}" if len(set(texts)) > 1 else f"{texts[0]:,}" if texts else "no"
        found.append(
            f"**Small differences:** over {counted} texts an F1 is known to about ±{np.median(halves):.2f}. "
            "Compare methods by the tests below, not by the third decimal."
        )
    for metric, name in (("f1", "F1"), ("aopc_comprehensiveness", "AOPC comprehensiveness")):
        told = total = 0
        for task in tasks:
            comparison = task.comparisons.get(metric)
            if comparison is not None and len(comparison.methods) > 1:
                upper = comparison.adjusted[np.triu_indices(len(comparison.methods), 1)]
                told, total = told + int((upper < level).sum()), total + len(upper)
        if total:
            found.append(f"Of all pairs of methods, {told:,} of {total:,} differ significantly in {name}.")
    return [" ".join(found)] if found else []


def _chance(tasks: Sequence[TaskReport], level: float) -> list[str]:
    """Methods that on no task beat random scores significantly in ranking the marked words."""
    found: dict[str, bool] = {}
    for task in tasks:
        comparison = task.comparisons.get("auroc")
        if comparison is None or "random" not in comparison.methods:
            continue
        floor = comparison.values[comparison.methods.index("random")]
        for method, value in zip(comparison.methods, comparison.values, strict=True):
            if method != "random":
                above = bool(value > floor and comparison.p_value(method, "random") < level)
                found[method] = found.get(method, False) or above
    never = [method for method, above in found.items() if not above]
    if not never:
        return []
    return [
        f"**No better than chance at finding marked words:** {_names(never)}. On no task is their AUROC significantly "
        "above that of random scores."
    ]


def _uninformative(tasks: Sequence[TaskReport], level: float) -> list[str]:
    """Figures in which most methods are not told apart from random scores."""
    found = []
    for _, column in QUESTIONS:
        better = total = 0
        for task in tasks:
            comparison = task.comparisons.get(column.metric)
            if comparison is None or "random" not in comparison.methods:
                continue
            sign = 1 if column.larger_is_better else -1
            floor = sign * comparison.values[comparison.methods.index("random")]
            for method, value in zip(comparison.methods, comparison.values, strict=True):
                if get_info(method).family != "chance":
                    total += 1
                    better += bool(sign * value > floor and comparison.p_value(method, "random") < level)
        if total and better < total / 4:
            found.append(f"{column.heading} ({better} of {total})")
    if not found:
        return []
    return [
        f"**Figures that hardly tell a method from random scores:** {', '.join(found)}. In brackets: how often, over "
        "methods and tasks, one is significantly better than random. Do not choose a method by them."
    ]


def _unmoved(tasks: Sequence[TaskReport]) -> list[str]:
    """Methods whose scores stay when the model's weights are drawn anew."""
    rhos: dict[str, list[float]] = {}
    for task in tasks:
        for method, result in task.sanity.get("methods", {}).items():
            drawn = list(result["random_model"].values())
            # The last part drawn anew is the embeddings: all weights.
            if drawn and drawn[-1]["spearman"] is not None and get_info(method).family != "chance":
                rhos.setdefault(method, []).append(drawn[-1]["spearman"])
    unmoved = {method: fmean(values) for method, values in rhos.items() if fmean(values) >= NOTICED}
    if not unmoved:
        return []
    listed = ", ".join(f"{escape_markdown(m)} ({rho:.2f})" for m, rho in sorted(unmoved.items(), key=lambda i: -i[1]))
    return [
        f"**Hardly notice the model:** {listed}. With all of the classifier's weights drawn anew their order of words "
        "stays much the same (mean rank correlation in brackets): they show the text, not what the classifier learned."
    ]


def _out_of_distribution(tasks: Sequence[TaskReport]) -> list[str]:
    shifted = []
    for task in tasks:
        full, *others = (
            [v for m in task.methods.values() if (v := m.get(f"confidence_{inputs}")) is not None]
            for inputs in ("full", "without", "only", "masked")
        )
        if full and all(others):
            lowest = min(fmean(values) for values in others)
            if fmean(full) - lowest >= SHIFT:
                shifted.append(f"{escape_markdown(task.task)} ({fmean(full):.2f} to {lowest:.2f})")
    if not shifted:
        return []
    return [
        f"**Out of distribution:** {', '.join(shifted)}. The classifier's mean confidence falls this far on shortened "
        "texts, such as it never learned to read; part of each faithfulness figure is that surprise, not the words."
    ]


def _rankings(tasks: Sequence[TaskReport]) -> list[str]:
    """Whether the methods that agree with people are those that agree with the model."""
    first, second = means("f1_topk", tasks), means("aopc_comprehensiveness", tasks)
    common = [method for method in first if method in second]
    if len(common) < 4:
        return []
    pairs = np.array([(first[m], second[m]) for m in common])
    # Where all methods have one figure alike there is no order to compare.
    if (np.ptp(pairs, axis=0) == 0).any():
        return []
    rho = float(spearmanr(pairs).statistic)
    how = "much the same" if rho >= 0.7 else "partly the same" if rho >= 0.3 else "not the same"
    return [
        f"**Two questions:** the methods that agree with people and those that agree with the model are {how} (rank "
        f"correlation of F1 top-K and AOPC comprehensiveness over {len(common)} methods: {rho:.2f}). "
        "Choose by the question you have."
    ]

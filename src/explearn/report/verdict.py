"""The report's first page: which method is best at what, and at what cost, derived from the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from explearn.methods.reasons.report import trust_sentence
from explearn.methods.results import RunFacts, TaskReport, Tasks
from explearn.metrics.base import Metric
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.significance import paired_tests
from explearn.show.blocks import Cell, Column, Table, bold, columns
from explearn.text.custom import INLINE_ANNOTATOR

MARKS = "f1_topk"
"""The figure that says whether the chosen words are the marked ones."""

MODEL = "aopc_comprehensiveness"
"""The figure that says whether they agree with the model."""

QUESTIONS = {
    MARKS: "Chooses the marked {unit}s",
    "auroc": "Ranks marked {unit}s first",
    MODEL: "Finds the {unit}s the classifier depends on",
    "aopc_sufficiency": "Finds {unit}s that are sufficient alone",
    "infidelity": "Predicts the effect of masking {unit}s",
}
"""Questions that the first page answers, by metric; {unit} stands for `RunFacts.unit`. All methods choose words by the
same rule, so that none gains from its own. Stability, consistency and simulatability are left out: random scores are
seldom significantly worse in these."""

TIME = CATALOGUE["time"]

_FIGURES = {MARKS: "F1 ", MODEL: "without them its probability falls by "}

ANNOTATORS = {"human": "people", "llm": "a language model"}
"""Kinds of annotators -> what the report calls them."""

MARGIN = 2
"""Factor around the level of significance within which a p-value decides nothing: another processor's last digits may
move it to the other side."""

MOST_NAMED = 4
"""Most methods that the verdict names as best at one thing."""

FEW_BETTER = 0.25
"""Share of methods significantly better than random scores below which a metric ranks none. Our own threshold."""

ON_MARKS = ("in_domain", "few_shot")
"""The protocols in which a learned method needs marked words of the task that it explains."""


def if_several(items: Sized, text: str, otherwise: str = "") -> str:
    """Return `text` if there is more than one item, such as tasks of a run."""
    return text if len(items) > 1 else otherwise


def near_chance(run: RunFacts, task: TaskReport) -> tuple[float, float] | None:
    """Return test accuracy, and that of always choosing the most frequent class, if it is hardly higher; else None.

    Hardly: by less than `RunFacts.chance_margin`, and with more than half of that choice's errors. None, too, if all
    texts are of one class, so that no classifier could be better.
    """
    test = task.classifier.get("test", {})
    accuracy = test.get("accuracy")
    majority = test.get("majority_rate")
    if accuracy is None or majority is None or majority == 1:
        return None
    if accuracy - majority >= min(run.chance_margin, (1 - majority) / 2):
        return None
    return accuracy, majority


def counted_tasks(run: RunFacts, tasks: Tasks) -> list[TaskReport]:
    """Return the tasks that count in means: those whose classifier is not `near_chance`, or all if every one is."""
    return [task for task in tasks if near_chance(run, task) is None] or list(tasks)


def counting_sentence(run: RunFacts, tasks: Tasks) -> str:
    """Say which tasks count in the figures, and why others are left out."""
    weak = []
    for task in tasks:
        rates = near_chance(run, task)
        if rates is not None:
            weak.append(f"{task.task} (accuracy {rates[0]:.3f}, most frequent class {rates[1]:.3f})")
    names = [task.task for task in counted_tasks(run, tasks)]
    over = ""
    if len(tasks) > 1:
        over = f"Figures are means over {', '.join(names)}."
        if len(names) == 1:
            over = f"Figures are for the task {names[0]}."
    if not weak:
        return over
    hardly = f"the classifier is hardly better than always choosing the most frequent class: {', '.join(weak)}"
    if len(weak) == len(tasks):
        return f"{bold('No evidence about the methods:')} {hardly}. {over}".strip()
    return f"{over} Other tasks have their own sections, but do not count in these figures: {hardly}."


def means(run: RunFacts, metric: str, tasks: Tasks) -> dict[str, float]:
    """Return each method's mean over the tasks on which any method has the metric.

    Methods without it on one of these are left out. The metric `time` is the time to classify and explain, relative
    to classifying alone.
    """
    measured = []
    for task in tasks:
        values = {}
        for method, figures in task.methods.items():
            value = figures.get(metric)
            speed = figures.get("relative_throughput")
            if metric == TIME.name and speed:
                value = 1 / speed
            if value is not None:
                values[method] = value
        if values:
            measured.append(values)
    result = {}
    for method in run.methods:
        if measured and all(method in values for values in measured):
            result[method] = fmean(values[method] for values in measured)
    return result


def better_than_random(run: RunFacts, tasks: Tasks, metric: str) -> dict[str, list[bool]]:
    """Return for each method whether it is significantly better than random scores, on each task that tells."""
    better: dict[str, list[bool]] = {}
    for task in counted_tasks(run, tasks):
        test = task.comparisons.get(metric)
        if test is None or "random" not in test.methods:
            continue
        for method in test.methods:
            if method not in run.chance:
                outcome = test.outcome(method, "random", run.evaluate.significance)
                better.setdefault(method, []).append(outcome > 0)
    return better


def unranked_metrics(run: RunFacts, tasks: Tasks) -> dict[str, tuple[int, int]]:
    """Return the metrics of QUESTIONS by which no method should be chosen, because few are better than random scores.

    Returns:
        Metric -> number of pairs of method and task that are significantly better than random, and of all pairs.
    """
    unranked = {}
    for metric in QUESTIONS:
        outcomes = list(chain(*better_than_random(run, tasks, metric).values()))
        if sum(outcomes) < FEW_BETTER * len(outcomes):
            unranked[metric] = sum(outcomes), len(outcomes)
    return unranked


def over_all_texts(tasks: Tasks, metric: str) -> dict[str, NDArray[np.float64]]:
    """Return the values on the texts of all tasks, (texts,), of the methods that have them on every judged task."""
    by_task = [task.by_text[metric] for task in tasks if metric in task.by_text]
    joined = {}
    for method in next(iter(by_task), {}):
        if all(method in of_task for of_task in by_task):
            joined[method] = np.concatenate([of_task[method] for of_task in by_task])
    return joined


@dataclass(frozen=True, slots=True)
class Leader:
    """The best method by a metric, and those that cannot be told apart from it.

    Attributes:
        metric: the metric.
        values: method -> mean over the tasks, for methods whose figures can be compared.
        method: the method with the best mean, among those with a figure on every task on which any method has one.
        tied: other methods, without random scores, whose p-value over the texts of all tasks together is MARGIN times
            the level or more.
        undecided: those whose p-value is less, but not less than the level divided by MARGIN.
        chance_too: whether random scores are the best, tied or undecided.
    """

    metric: Metric
    values: Mapping[str, float]
    method: str
    tied: tuple[str, ...]
    undecided: tuple[str, ...]
    chance_too: bool

    @property
    def methods(self) -> list[str]:
        """The method and those tied with it."""
        return [self.method, *self.tied]

    @property
    def alone(self) -> bool:
        """Whether the method is told apart from all others."""
        return not self.tied and not self.undecided

    @property
    def chance(self) -> str:
        """The formatted mean of random scores, empty if there are none."""
        return self.metric.shown(self.values["random"]) if "random" in self.values else ""

    def shown(self, method: str) -> str:
        """Return the formatted mean of a method."""
        return self.metric.shown(self.values[method])

    def least(self, costs: Mapping[str, float]) -> str | None:
        """Return the cheapest of `methods`; None if no cost is known."""
        measured = [method for method in self.methods if method in costs]
        return min(measured, key=lambda method: (costs[method], -self.values[method]), default=None)


def find_leader(run: RunFacts, tasks: Tasks, metric: str, leave_out: Sequence[str] = ()) -> Leader | None:
    """Return the best method by a metric, or None if no method has it.

    Methods are tested in pairs over the texts of all tasks together; without figures for each text none can be told
    apart.
    """
    found = CATALOGUE[metric]
    values = {}
    for method, value in means(run, metric, tasks).items():
        if run.comparable(method, metric) and method not in leave_out:
            values[method] = value
    if not values:
        return None
    best = found.best(values)
    by_text = over_all_texts(tasks, found.by_text)
    if not values.keys() <= by_text.keys():
        by_text = dict.fromkeys(values, np.zeros(0))
    level = run.evaluate.significance
    tests = paired_tests(metric, values, by_text, found.larger_is_better, level)
    others = [method for method in values if method != best]
    others.sort(key=values.__getitem__, reverse=found.larger_is_better)
    level_with = [method for method in others if not tests.outcome(best, method, level * MARGIN)]
    unclear = [method for method in others if not tests.outcome(best, method, level / MARGIN)]
    tied = tuple(method for method in level_with if method not in run.chance)
    undecided = tuple(method for method in unclear if method not in {*level_with, *run.chance})
    return Leader(found, values, best, tied, undecided, not run.chance.isdisjoint([best, *unclear]))


def leader_explanation(tasks: Tasks) -> str:
    """Explain the terms used in `leader_table`."""
    together = if_several(tasks, " of all these tasks together")
    return (
        f"Tested over the texts{together}. Not told apart does not mean equal: with few texts, large differences can "
        'go unnoticed. Bold: told apart from all others. "none": few methods, if any, are better than random scores.'
    )


def leader_table(run: RunFacts, tasks: Tasks) -> Table | None:
    """Return a table with one row for each of QUESTIONS for which the tasks have figures."""
    unranked = unranked_metrics(run, tasks)
    heads = [
        *(Column(title, numeric=False, key=True) for title in ("Question", "Best figure")),
        *columns(["Figure", "Not told apart"]),
    ]
    rows: list[list[Cell | str]] = []
    for metric, question in QUESTIONS.items():
        leader = find_leader(run, tasks, metric)
        if leader is None:
            continue
        aside = _aside(run, leader.method)
        method = f"{bold(leader.method) if leader.alone else leader.method}{aside}"
        if metric in unranked or leader.chance_too:
            # A figure in which random scores do as well should choose no method.
            method = f"none (best figure: {leader.method}{aside})"
        figure = f"{leader.metric.title} {leader.shown(leader.method)}"
        if leader.chance:
            figure += f" (random: {leader.chance})"
        others = str(len(leader.tied))
        if leader.undecided:
            others += f", {len(leader.undecided)} undecided"
        rows.append([question.format(unit=run.unit), method, figure, others])
    if not rows:
        return None
    return Table(heads, rows, "The best methods")


def _aside(run: RunFacts, method: str) -> str:
    """Return, in brackets, why a method's figures cannot be compared with others; `caveats` says more."""
    if run.methods[method].own_model:
        return " (on its own classifier)"
    if run.methods[method].watches_metric:
        return " (optimises a metric)"
    return ""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The methods recommended for each purpose.

    Attributes:
        sentence: the recommendation.
        methods: the methods that it names -> why.
        best: figure -> the best method and those not clearly worse; none if random scores are not either.
    """

    sentence: str
    methods: Mapping[str, str]
    best: Mapping[str, Sequence[str]]


def find_verdict(run: RunFacts, tasks: Tasks) -> Recommendation:
    """Return the best methods by MARKS and by MODEL.

    A method is named alone only if it is told apart from all others; else those that are not are named with it, the
    cheapest is pointed out, and undecided ones are listed. If the best method learned from marked words of the task,
    which users may not have, the best methods without them are named as well.
    """
    if all(near_chance(run, task) for task in tasks):
        return Recommendation(counting_sentence(run, tasks), {}, {})
    counted = counted_tasks(run, tasks)
    passes = means(run, "forward_passes", counted)
    for method, count in means(run, "backward_passes", counted).items():
        if method in passes:
            passes[method] += count
    sought = {MARKS: marked_words(run, counted), MODEL: f"the {run.unit}s that the classifier depends on"}
    roles: dict[str, list[str]] = {}
    best = {}
    sentences = []
    for metric, words in sought.items():
        leader = find_leader(run, counted, metric)
        if leader is None:
            continue
        best[metric] = [] if leader.chance_too else [*leader.methods, *leader.undecided]
        advice, named = _advice(run, counted, leader, passes)
        sentences.append(f"For {words}, {advice}.")
        for method in dict.fromkeys(named):
            roles.setdefault(method, []).append(words)
    if not sentences:
        sentences.append("No method has figures on all tasks, so none is best.")
    elif "random" not in run.methods:
        sentences.append("Without random among the methods, nothing tells how far these figures are from chance.")
    if own_reasons := trust_sentence(run, counted):
        sentences.append(own_reasons)
    if best:
        least = run.evaluate.significance / MARGIN
        most = run.evaluate.significance * MARGIN
        sentences.append(
            f"Methods joined by “or” are not told apart (p of {most:g} or more, Wilcoxon's test over the texts with "
            f"Holm's correction); undecided: p from {least:g} to {most:g}."
        )
    reasons = {method: f"named for {' and '.join(words)}" for method, words in roles.items()}
    return Recommendation(" ".join(sentences), reasons, best)


def marked_words(run: RunFacts, tasks: Tasks) -> str:
    """Return what to call the marked words: by whom they were marked, or of which task, if there is one answer."""
    kinds: set[str] = set()
    for task in tasks:
        kinds |= set(task.agreement.get("kinds") or ())
    if len(kinds) == 1 and kinds <= ANNOTATORS.keys():
        return f"the {run.unit}s that {ANNOTATORS[kinds.pop()]} marked"
    if len(tasks) > 1:
        return f"the marked {run.unit}s"
    names = tasks[0].agreement.get("marked_by", {}).get("unknown", [])
    if kinds == {"unknown"} and len(names) == 1 and names != [INLINE_ANNOTATOR]:
        return f"the {run.unit}s that {names[0]} marked"
    return f"the marked {run.unit}s of {tasks[0].task}"


def _advice(run: RunFacts, tasks: Tasks, leader: Leader, passes: Mapping[str, float]) -> tuple[str, list[str]]:
    """Recommend the best methods by a metric, unless random scores are as good.

    Args:
        run: facts about the run.
        tasks: the tasks that count.
        leader: the best method.
        passes: method -> passes through the classifier per text.

    Returns:
        The advice, and the methods that it names.
    """
    if leader.values.keys() <= run.chance:
        return bold("only random scores were tried"), []
    if leader.chance_too:
        return bold("no method is clearly better than random scores"), []
    # Learned from marked words of the task that is explained.
    trained = [method for method, info in run.methods.items() if info.trained]
    on_marks = [method for method in trained if run.options.get(method, {}).get("protocol") in ON_MARKS]
    parts = [_best_methods(run, leader, _FIGURES[leader.metric.name])]
    named = leader.methods[:MOST_NAMED]
    learned = [method for method in named if method in on_marks]
    if learned:
        parts.append(f"{', '.join(learned)} learned from marks of the task")
        without = find_leader(run, tasks, leader.metric.name, on_marks)
        if leader.metric.name == MARKS and without is not None and not without.chance_too:
            named += without.methods[:MOST_NAMED]
            parts.append(f"without training on such {run.unit}s {_best_methods(run, without, '')}")
    if leader.chance:
        parts.append(f"random {run.unit}s {leader.chance}")
    cheapest = leader.least(passes)
    if cheapest is not None and passes[cheapest] < passes.get(leader.method, 0.0):
        dearer = f"{leader.method} {passes[leader.method]:.0f}"
        parts.append(f"passes through the classifier: {bold(cheapest)} {passes[cheapest]:.0f}, {dearer}")
        named.append(cheapest)
    return f"use {'; '.join(parts)}", named


def _best_methods(run: RunFacts, leader: Leader, figure: str) -> str:
    """Return the best methods with their figures, and those of which it is undecided whether they are worse."""
    named = leader.methods[:MOST_NAMED]
    names = [f"{bold(method)}{_aside(run, method)}" for method in named]
    more = len(leader.methods) - len(named)
    if more:
        names.append(f"{more} more")
    listed = names[0]
    if len(names) > 1:
        listed = f"{', '.join(names[:-1])} or {names[-1]}"
    sentence = f"{listed}: {figure}{', '.join(map(leader.shown, named))}"
    if leader.undecided:
        sentence += f" (undecided: {', '.join(leader.undecided)})"
    return sentence

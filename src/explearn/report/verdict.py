"""The report's first page: which method is best at what, and at what cost, derived from the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike

from explearn.methods.registry import get_info
from explearn.methods.results import RunFacts, TaskReport
from explearn.metrics.base import Metric
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.significance import paired_tests
from explearn.show.blocks import Cell, Column, Table, bold, columns, several

PEOPLE = "f1_topk"
"""The figure that says whether the chosen words agree with people."""

MODEL = "aopc_comprehensiveness"
"""The figure that says whether they agree with the model."""

QUESTIONS = {
    PEOPLE: "Chooses the {unit}s that people marked",
    "auroc": "Ranks marked {unit}s first",
    MODEL: "Finds the {unit}s the classifier depends on",
    "aopc_sufficiency": "Finds {unit}s that are sufficient alone",
    "infidelity": "Predicts the effect of masking {unit}s",
}
"""Questions that the first page answers, by metric; {unit} stands for `RunFacts.unit`. All methods choose words by the
same rule, so that none gains from its own. Stability, consistency and simulatability are left out: random scores are
seldom significantly worse in these."""

TIME = CATALOGUE["time"]

_FIGURES = {PEOPLE: "F1 ", MODEL: "without them its probability falls by "}

_WORDS = {PEOPLE: "the {unit}s that people would mark", MODEL: "the {unit}s that the classifier depends on"}

BEST_ELSEWHERE = {PEOPLE: ("marker", "consensus"), MODEL: ("reader", "attn_lrp", "lime")}
"""Methods that are among the best in reports/report.md, by figure; a comparison lists those that it did not try."""

LEADING = (*BEST_ELSEWHERE[PEOPLE], *BEST_ELSEWHERE[MODEL])
"""All methods in BEST_ELSEWHERE. The first plot names them."""

CHEAPER = 2
"""Factor by which a method must take fewer passes through the classifier than the best, to be named with it."""

_ON_MARKS = ("in_domain", "few_shot")
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


def counted_tasks(run: RunFacts, tasks: Sequence[TaskReport]) -> list[TaskReport]:
    """Return the tasks that count in means: those whose classifier is not `near_chance`, or all if every one is."""
    return [task for task in tasks if near_chance(run, task) is None] or list(tasks)


def counting_sentence(run: RunFacts, tasks: Sequence[TaskReport]) -> str:
    """Say which tasks count in the figures, and why others are left out."""
    if not tasks:
        return ""
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


def means(run: RunFacts, metric: str, tasks: Sequence[TaskReport]) -> dict[str, float]:
    """Return each method's mean over the tasks on which any method has the metric.

    Methods without it on one of these are left out. The metric `time` is the time to classify and explain, relative
    to classifying alone.
    """
    by_task = [_values(task, metric) for task in tasks]
    measured = list(filter(None, by_task))
    result = {}
    for method in run.methods:
        if measured and all(method in values for values in measured):
            result[method] = fmean(values[method] for values in measured)
    return result


def _values(task: TaskReport, metric: str) -> dict[str, float]:
    """Return each method's figure on a task; without methods that have none."""
    values = {}
    for method, figures in task.methods.items():
        value = figures.get(metric)
        speed = figures.get("relative_throughput")
        if metric == TIME.name and speed:
            value = 1 / speed
        if value is not None:
            values[method] = value
    return values


@dataclass(frozen=True, slots=True)
class Leader:
    """The best method by a metric.

    Attributes:
        metric: the metric.
        values: method -> mean over the tasks, for methods whose figures can be compared.
        method: the method with the best mean, among those with a figure on every task on which any method has one.
        unbeaten: on how many tasks no method is significantly better.
        tasks: how many tasks were tested.
        rivals: other methods that are not significantly worse, tested over the texts of all tasks together, without
            random scores; None if this was not tested.
        chance_too: whether random scores are not significantly worse either, or are the best.
    """

    metric: Metric
    values: Mapping[str, float]
    method: str
    unbeaten: int
    tasks: int
    rivals: tuple[str, ...] | None
    chance_too: bool

    @property
    def figure(self) -> str:
        return self.metric.shown(self.values[self.method])

    @property
    def chance(self) -> str:
        """The formatted mean of random scores, empty if there are none."""
        return self.metric.shown(self.values["random"]) if "random" in self.values else ""

    def least(self, costs: Mapping[str, float]) -> str | None:
        """Return the cheapest of the method and its rivals; None if these were not tested or no cost is known."""
        if self.rivals is None:
            return None
        measured = [method for method in (self.method, *self.rivals) if method in costs]
        return min(measured, key=lambda method: (costs[method], -self.values[method]), default=None)


def find_leader(
    run: RunFacts, tasks: Sequence[TaskReport], metric: str, leave_out: Sequence[str] = ()
) -> Leader | None:
    """Return the best method by a metric, or None if no method has it.

    If all methods have figures for each text, they are tested in pairs over the texts of all tasks together.
    """
    found = CATALOGUE[metric]
    values = {}
    for method, value in means(run, metric, tasks).items():
        if run.comparable(method, metric) and method not in leave_out:
            values[method] = value
    if not values:
        return None
    method = found.best(values)
    tests = [task.comparisons[metric] for task in tasks if metric in task.comparisons]
    tests = [test for test in tests if test.methods]
    unbeaten = sum(method in test.best or method in test.tied for test in tests)
    tied = _tied_over_all_texts(run, tasks, found, values)
    rivals = None
    if tied is not None:
        rivals = tuple(name for name in tied if name not in run.chance and name != method)
    return Leader(
        found, values, method, unbeaten, len(tests), rivals, not run.chance.isdisjoint([method, *(tied or ())])
    )


def _tied_over_all_texts(
    run: RunFacts, tasks: Sequence[TaskReport], metric: Metric, values: Mapping[str, float]
) -> list[str] | None:
    """Return the best methods and those not significantly worse over the texts of all tasks; None if not testable."""
    by_text: list[Mapping[str, ArrayLike]] = []
    for task in tasks:
        if any(figures.get(metric.name) is not None for figures in task.methods.values()):
            by_text.append(task.by_text.get(metric.by_text, {}))
    joined = {}
    for method in values:
        if not all(method in of_task for of_task in by_text):
            return None
        joined[method] = np.concatenate([of_task[method] for of_task in by_text])
    tests = paired_tests(metric.name, values, joined, metric.larger_is_better, run.evaluate.significance)
    return [*tests.best, *tests.tied]


def leader_explanation(tasks: Sequence[TaskReport]) -> str:
    """Explain the terms used in `leader_table`."""
    together = if_several(tasks, " of all these tasks together")
    beaten = if_several(tasks, " Not beaten: no method is significantly better on the task.")
    neither = if_several(tasks, "Neither means", "That does not mean")
    return (
        f"Not significantly worse: tested over the texts{together}.{beaten} {neither} equal: with few texts, large "
        'differences can go unnoticed. A row with "none clearly": random scores are not significantly worse than the '
        "best method, or are the best."
    )


def leader_table(run: RunFacts, tasks: Sequence[TaskReport]) -> Table | None:
    """Return a table with one row for each of QUESTIONS for which the tasks have figures."""
    times = means(run, TIME.name, tasks)
    heads = [
        *(Column(title, numeric=False, key=True) for title in ("Question", "Best method")),
        *columns(["Figure", "Not beaten on", "Others not significantly worse"]),
        Column("Time", machine=True),
        Column("Fastest of these and the best", numeric=False, machine=True),
    ]
    rows: list[list[Cell | str]] = []
    for metric, question in QUESTIONS.items():
        leader = find_leader(run, tasks, metric)
        if leader is not None:
            rows.append([question.format(unit=run.unit), *_leader_cells(run, leader, times)])
    if len(tasks) == 1:
        heads.pop(3)
        for row in rows:
            row.pop(3)
    if not rows:
        return None
    return Table(heads, rows, "The best methods")


def _leader_cells(run: RunFacts, leader: Leader, times: Mapping[str, float]) -> list[str]:
    """Return the cells of `leader_table` on a leader, except for the question."""
    aside = _aside(run, leader.method)
    method = f"{bold(leader.method)}{aside}"
    figure = f"{leader.metric.title} {leader.figure}"
    if leader.chance:
        figure += f" (random: {leader.chance})"
    unbeaten = "not tested"
    if leader.tasks:
        unbeaten = f"{leader.unbeaten} of {several(leader.tasks, 'task')}"
    rivals = "not tested"
    if leader.rivals is not None:
        rivals = str(len(leader.rivals))
    fastest = leader.least(times)
    fastest_shown = "–"
    if leader.chance_too:
        # A figure in which random scores do as well should choose no method.
        method = f"none clearly (best: {leader.method}{aside})"
        if leader.rivals is not None:
            rivals += ", and random"
    elif fastest is not None:
        fastest_shown = f"{fastest}, {TIME.shown(times[fastest])}"
    return [method, figure, unbeaten, rivals, TIME.shown(times.get(leader.method)), fastest_shown]


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
        times: what these methods cost; empty if that was not measured.
        methods: the methods that it names -> why.
    """

    sentence: str
    times: str
    methods: Mapping[str, str]


def find_verdict(run: RunFacts, tasks: Sequence[TaskReport]) -> Recommendation:
    """Return the best method by PEOPLE and the best by MODEL.

    If another method is not significantly worse and takes fewer passes by a factor of CHEAPER, it is named, too. If the
    best method learned from marked words of the task, which users may not have, the best method without them is named
    as well, and with it the method under study if that is not significantly worse. For each of the two figures, methods
    that are among the best elsewhere but were not tried come last.
    """
    if tasks and all(near_chance(run, task) for task in tasks):
        return Recommendation(counting_sentence(run, tasks), "", {})
    counted = counted_tasks(run, tasks)
    passes = means(run, "forward_passes", counted)
    for method, count in means(run, "backward_passes", counted).items():
        if method in passes:
            passes[method] += count
    roles: dict[str, list[str]] = {}
    sentences = []
    for metric, sought in _WORDS.items():
        leader = find_leader(run, counted, metric)
        if leader is None:
            continue
        words = sought.format(unit=run.unit)
        advice = _advice(run, counted, leader, words, passes, roles)
        sentences.append(f"For {words}, {advice}.{_untried_sentence(run, metric)}")
    if not sentences:
        sentences.append("No method has figures on all tasks, so none is best.")
    elif "random" not in run.methods:
        sentences.append("Without random among the methods, nothing tells how far these figures are from chance.")
    times = means(run, TIME.name, counted)
    named = dict.fromkeys([*roles, str(run.study)])
    timed = ", ".join(f"{method} {TIME.shown(times[method])}" for method in named if method in times)
    if timed:
        timed = f"Time to classify and explain, relative to classifying alone: {timed}."
    return Recommendation(" ".join(sentences), timed, {method: "; ".join(reasons) for method, reasons in roles.items()})


def _advice(
    run: RunFacts,
    tasks: Sequence[TaskReport],
    leader: Leader,
    words: str,
    passes: Mapping[str, float],
    roles: dict[str, list[str]],
) -> str:
    """Recommend the best method by a metric, unless random scores are as good; add to `roles` why methods are named.

    Args:
        run: facts about the run.
        tasks: the tasks that count.
        leader: the best method.
        words: what users seek.
        passes: method -> passes through the classifier per text.
        roles: method -> why it is named.
    """
    if leader.values.keys() <= run.chance:
        return bold("only random scores were tried")
    if leader.chance_too:
        return bold("no method is significantly better than random scores")
    people = leader.metric.name == PEOPLE
    on_marks = _trained_on_marks(run)
    roles.setdefault(leader.method, []).append(f"best at {words}")
    figures = [_FIGURES[leader.metric.name] + leader.figure]
    learned = ""
    if leader.method in on_marks:
        learned = ", which was trained on marks of the task"
        without = find_leader(run, tasks, leader.metric.name, on_marks)
        if people and without is not None and without.method not in run.chance:
            roles.setdefault(without.method, []).append(f"best at {words} without training on them")
            figures.append(_without_marks(run, without))
    if leader.chance:
        figures.append(f"random {run.unit}s {leader.chance}")
    cheapest = leader.least(passes)
    if cheapest is not None and passes[cheapest] * CHEAPER <= passes.get(leader.method, 0.0):
        passes_shown = "1 pass"
        if round(passes[cheapest]) != 1:
            passes_shown = f"{passes[cheapest]:.0f} passes"
        figures.append(
            f"{bold(cheapest)}, not significantly worse, takes {passes_shown} through the classifier instead of "
            f"{passes[leader.method]:.0f}"
        )
        roles.setdefault(cheapest, []).append(f"not significantly worse at {words}, and cheaper")
    return f"use {bold(leader.method)}{_aside(run, leader.method)}{learned}: {'; '.join(figures)}"


def _trained_on_marks(run: RunFacts) -> list[str]:
    """Return the methods that learned from marked words of the task that they explain."""
    methods = []
    for method, info in run.methods.items():
        if info.trained and run.options.get(method, {}).get("protocol") in _ON_MARKS:
            methods.append(method)
    return methods


def _without_marks(run: RunFacts, leader: Leader) -> str:
    """Name the best method without training on marks, and the method under study if it is not significantly worse."""
    figure = f"without training on such {run.unit}s {bold(leader.method)} {leader.figure}"
    study = str(run.study)
    if study in (leader.rivals or ()):
        figure += f" or, not significantly worse, {bold(study)} {leader.metric.shown(leader.values[study])}"
    return figure


def _untried_sentence(run: RunFacts, metric: str) -> str:
    """Name the methods that are among the best by a metric elsewhere, but were not tried; empty if there are none."""
    untried = [name for name in BEST_ELSEWHERE[metric] if name in run.untried]
    if not untried:
        return ""
    sentence = f" Not tried here, but among the best at this elsewhere: {', '.join(untried)}"
    untrained = [name for name in untried if get_info(name).untrained]
    if untrained:
        sentence += f" (train {' and '.join(untrained)} with explearn train)"
    return f"{sentence}."


def study_table(run: RunFacts, tasks: Sequence[TaskReport]) -> Table | None:
    """Compare the method under study with random scores, baselines and all other methods.

    Returns:
        A table; None if the run has no method under study, or it was not compared with marked words.
    """
    study = str(run.study)
    judged = [task for task in tasks if task.methods.get(study, {}).get(PEOPLE) is not None]
    topk = means(run, PEOPLE, judged)
    if study not in topk:
        return None
    others = [method for method in topk if method != study]
    groups = {
        "random scores": [method for method in others if method == "random"],
        "best baseline": [method for method in others if method not in run.trained],
        "best of all others": others,
    }
    rows = []
    for group, rivals in groups.items():
        if rivals:
            best = max(rivals, key=topk.__getitem__)
            level = sum(_not_behind(task, study, rivals) for task in judged)
            ahead = f"{level} of {several(len(judged), 'task')}"
            rows.append([group, best, f"{topk[best]:.3f}", f"{topk[study] - topk[best]:+.3f}", ahead])
    own = {"F1 top-K": topk, "F1 by its own rule": means(run, "f1", judged), "AUROC": means(run, "auroc", judged)}
    caption = ", ".join(f"{name} {values[study]:.3f}" for name, values in own.items() if study in values)
    heads = columns(["Compared with", "Method"], ["F1 top-K", f"lead of {study}", "not behind on"])
    if len(judged) == 1:
        heads.pop()
        for row in rows:
            row.pop()
    return Table(heads, rows, f"The method under study, {study}: {caption}")


def _not_behind(task: TaskReport, study: str, rivals: Sequence[str]) -> bool:
    """Return whether no rival has a larger figure on a task."""
    figure = task.methods[study][PEOPLE] or 0
    return all((task.methods[rival][PEOPLE] or 0) <= figure for rival in rivals)

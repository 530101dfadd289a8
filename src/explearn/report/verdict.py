"""The report's first page: which method is best at what, and at what cost, derived from the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from explearn.methods.registry import get_info
from explearn.methods.results import Number, RunFacts, TaskReport
from explearn.metrics.base import Metric
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.significance import paired_tests
from explearn.show.blocks import Cell, Column, Table, bold, columns

PEOPLE, MODEL = "f1_topk", "aopc_comprehensiveness"
"""The figures that answer the report's two main questions: do the words agree with people, and with the model?"""

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

_WORDS = {PEOPLE: "the {unit}s that people would mark", MODEL: "the {unit}s that the classifier depends on"}

BEST_ELSEWHERE = {PEOPLE: ("expnet", "consensus"), MODEL: ("l2e", "attn_lrp", "lime")}
"""Methods that are among the best in reports/report.md, by figure; a comparison lists those that it did not try."""

LEADING = (*BEST_ELSEWHERE[PEOPLE], *BEST_ELSEWHERE[MODEL])
"""All methods in BEST_ELSEWHERE. The first plot names them."""

CHEAPER = 2
"""Factor by which a method must take fewer passes through the classifier than the best, to be named with it."""

_ON_MARKS = ("in_domain", "few_shot")
"""The protocols in which a learned method needs marked words of the task that it explains."""


def several(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 task" or "1,200 texts"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def near_chance(run: RunFacts, task: TaskReport) -> tuple[float, float] | None:
    """Return test accuracy, and that of always choosing the most frequent class, if it is hardly higher; else None.

    Hardly: by less than `RunFacts.chance_margin`, and with more than half of that choice's errors. None, too, if all
    texts are of one class, so that no classifier could be better.
    """
    test = task.classifier.get("test", {})
    accuracy, majority = test.get("accuracy"), test.get("majority_rate")
    if accuracy is None or majority in (None, 1) or accuracy - majority >= min(run.chance_margin, (1 - majority) / 2):
        return None
    return accuracy, majority


def counted_tasks(run: RunFacts, tasks: Sequence[TaskReport]) -> list[TaskReport]:
    """Return the tasks that count in means: those whose classifier is not `near_chance`, or all if every one is."""
    return [task for task in tasks if near_chance(run, task) is None] or list(tasks)


def counting_sentence(run: RunFacts, tasks: Sequence[TaskReport]) -> str:
    """Say which tasks count in the figures, and why others are left out."""
    weak = [
        f"{task.task} (accuracy {rates[0]:.3f}, most frequent class {rates[1]:.3f})"
        for task in tasks
        if (rates := near_chance(run, task)) is not None
    ]
    names = [task.task for task in counted_tasks(run, tasks)]
    over = f"Figures are for the task {names[0]}." if len(names) == 1 else f"Figures are means over {', '.join(names)}."
    over = over if len(tasks) > 1 else ""
    hardly = f"the classifier is hardly better than always choosing the most frequent class: {', '.join(weak)}"
    if weak and len(weak) == len(tasks):
        return f"{bold('No evidence about the methods:')} {hardly}. {over}".strip() if tasks else ""
    return f"{over} Other tasks have their own sections, but do not count in these figures: {hardly}." if weak else over


def means(run: RunFacts, metric: str, tasks: Sequence[TaskReport]) -> dict[str, float]:
    """Return each method's mean over the tasks on which any method has the metric.

    Methods without it on one of these are left out. The metric `time` is the time to classify and explain, relative
    to classifying alone.
    """

    def value(task: TaskReport, method: str) -> Number:
        figures = task.methods.get(method, {})
        if metric != TIME.name:
            return figures.get(metric)
        speed = figures.get("relative_throughput")
        return 1 / speed if speed else None

    judged = [task for task in tasks if any(value(task, method) is not None for method in task.methods)]
    by_method = {method: [value(task, method) for task in judged] for method in run.methods}
    known = {method: [v for v in values if v is not None] for method, values in by_method.items()}
    return {method: fmean(values) for method, values in known.items() if values and len(values) == len(judged)}


@dataclass(frozen=True, slots=True)
class Leader:
    """The best method by a metric.

    Attributes:
        metric: the metric.
        values: method -> mean over the tasks, for methods whose figures can be compared.
        method: the method with the best mean, among those with a figure on every task on which any method has one.
        unbeaten, tasks: on how many tasks no method is significantly better, and how many tasks were tested.
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
        level = [] if self.rivals is None else [self.method, *self.rivals]
        known = [method for method in level if method in costs]
        return min(known, key=lambda method: (costs[method], -self.values[method]), default=None)


def find_leader(
    run: RunFacts, tasks: Sequence[TaskReport], metric: str, leave_out: Sequence[str] = ()
) -> Leader | None:
    """Return the best method by a metric, or None if no method has it.

    If all methods have figures for each text, they are tested in pairs over the texts of all tasks together.
    """
    of, level = CATALOGUE[metric], run.evaluate.significance
    values = {m: v for m, v in means(run, metric, tasks).items() if run.comparable(m, metric) and m not in leave_out}
    if not values:
        return None
    best = (max if of.larger_is_better else min)(values, key=values.__getitem__)
    tests = [test for task in tasks if (test := task.comparisons.get(metric)) is not None and test.methods]
    judged = [task for task in tasks if any(figures.get(metric) is not None for figures in task.methods.values())]
    by_text = [task.by_text.get(of.by_text, {}) for task in judged]
    tied = None
    if all(method in of_task for method in values for of_task in by_text):
        joined = {method: np.concatenate([of_task[method] for of_task in by_text]) for method in values}
        together = paired_tests(metric, values, joined, of.larger_is_better, level)
        tied = [method for method in (*together.best, *together.tied) if method != best]
    chance = {method for method, info in run.methods.items() if info.family == "chance"}
    return Leader(
        of,
        values,
        best,
        sum(best in test.best or best in test.tied for test in tests),
        len(tests),
        None if tied is None else tuple(method for method in tied if method not in chance),
        bool(chance & {best, *(tied or ())}),
    )


def leader_explanation(tasks: Sequence[TaskReport]) -> str:
    """Explain the terms used in `leader_table`."""
    over, beaten, neither = "the texts", "", "That does not mean"
    if len(tasks) > 1:
        over, neither = "the texts of all these tasks together", "Neither means"
        beaten = " Not beaten: no method is significantly better on the task."
    return (
        f"Not significantly worse: tested over {over}.{beaten} {neither} equal: with few texts, large differences can "
        'go unnoticed. A row with "none clearly": random scores are not significantly worse than the best method, or '
        "are the best."
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
        if leader is None:
            continue
        name, fastest = f"{leader.method}{_aside(run, leader.method)}", leader.least(times)
        rivals = "not tested" if leader.rivals is None else str(len(leader.rivals))
        rows.append(
            [
                question.format(unit=run.unit),
                # A figure in which random scores do as well should choose no method.
                f"none clearly (best: {name})"
                if leader.chance_too
                else f"{bold(leader.method)}{name[len(leader.method) :]}",
                f"{leader.metric.title} {leader.figure}" + (f" (random: {leader.chance})" if leader.chance else ""),
                f"{leader.unbeaten} of {several(leader.tasks, 'task')}" if leader.tasks else "not tested",
                f"{rivals}, and random" if leader.chance_too and leader.rivals is not None else rivals,
                TIME.shown(times.get(leader.method)),
                "–" if fastest is None or leader.chance_too else f"{fastest}, {TIME.shown(times[fastest])}",
            ]
        )
    if len(tasks) == 1:
        heads.pop(3)
        rows = [[*row[:3], *row[4:]] for row in rows]
    return Table(heads, rows, "The best methods") if rows else None


def _aside(run: RunFacts, method: str) -> str:
    """Return, in brackets, why a method's figures cannot be compared with others; `caveats` says more."""
    if run.methods[method].own_model:
        return " (on its own classifier)"
    return " (optimises a metric)" if run.methods[method].watches_metric else ""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The methods recommended for each purpose.

    Attributes:
        sentence: the recommendation. times: what these methods cost, empty if that was not measured.
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
    counted, times = counted_tasks(run, tasks), means(run, TIME.name, counted_tasks(run, tasks))
    if tasks and all(near_chance(run, task) for task in tasks):
        return Recommendation(counting_sentence(run, tasks), "", {})
    on_marks = [m for m, i in run.methods.items() if i.trained and run.options.get(m, {}).get("protocol") in _ON_MARKS]
    forward, backward = (means(run, metric, counted) for metric in ("forward_passes", "backward_passes"))
    passes = {method: count + backward.get(method, 0.0) for method, count in forward.items()}
    sentences, roles = [], dict[str, list[str]]()
    for metric, sought in _WORDS.items():
        words = sought.format(unit=run.unit)
        leader = find_leader(run, counted, metric)
        if leader is None:
            continue
        untried = _untried_sentence(run, metric)
        if leader.chance_too:
            alone = all(run.methods[method].family == "chance" for method in leader.values)
            none = "only random scores were tried" if alone else "no method is significantly better than random scores"
            sentences.append(f"For {words}, {bold(none)}.{untried}")
            continue
        roles.setdefault(leader.method, []).append(f"best at {words}")
        figures = [("F1 " if metric == PEOPLE else "without them its probability falls by ") + leader.figure]
        learns = leader.method in on_marks
        without = find_leader(run, counted, metric, on_marks) if learns and metric == PEOPLE else None
        if without is not None and run.methods[without.method].family != "chance":
            roles.setdefault(without.method, []).append(f"best at {words} without training on them")
            figures.append(f"without training on such {run.unit}s {bold(without.method)} {without.figure}")
            if run.study in (without.rivals or ()):
                figures[-1] += f" or, not significantly worse, {bold(str(run.study))} "
                figures[-1] += without.metric.shown(without.values[str(run.study)])
        figures += [f"random {run.unit}s {leader.chance}"] if leader.chance else []
        learned = ", which was trained on marks of the task" if learns else ""
        name = f"{bold(leader.method)}{_aside(run, leader.method)}"
        cheapest = leader.least(passes)
        if cheapest is not None and passes[cheapest] * CHEAPER <= passes.get(leader.method, 0.0):
            figures.append(
                f"{bold(cheapest)}, not significantly worse, takes {passes[cheapest]:.0f} "
                f"pass{'' if round(passes[cheapest]) == 1 else 'es'} through the classifier instead of "
                f"{passes[leader.method]:.0f}"
            )
            roles.setdefault(cheapest, []).append(f"not significantly worse at {words}, and cheaper")
        sentences.append(f"For {words}, use {name}{learned}: {'; '.join(figures)}.{untried}")
    if not sentences:
        sentences.append("No method has figures on all tasks, so none is best.")
    elif "random" not in run.methods:
        sentences.append("Without random among the methods, nothing tells how far these figures are from chance.")
    timed = [m for m in dict.fromkeys([*roles, *([run.study] if run.study else [])]) if m in times]
    costs = ", ".join(f"{method} {TIME.shown(times[method])}" for method in timed)
    return Recommendation(
        " ".join(sentences),
        f"Time to classify and explain, relative to classifying alone: {costs}." if timed else "",
        {method: "; ".join(what) for method, what in roles.items()},
    )


def _untried_sentence(run: RunFacts, metric: str) -> str:
    """Name the methods that are among the best by a metric elsewhere, but were not tried; empty if there are none."""
    untried = [name for name in BEST_ELSEWHERE[metric] if name in run.untried]
    if not untried:
        return ""
    untrained = [name for name in untried if get_info(name).untrained]
    train = f" (train {' and '.join(untrained)} with explearn train)" if untrained else ""
    return f" Not tried here, but among the best at this elsewhere: {', '.join(untried)}{train}."


def study_table(run: RunFacts, tasks: Sequence[TaskReport]) -> Table | None:
    """Compare the method under study with random scores, baselines and all other methods.

    Returns None if the run has no method under study, or it was not compared with marked words.
    """
    study = str(run.study)
    judged = [task for task in tasks if task.methods.get(study, {}).get(PEOPLE) is not None]
    topk = means(run, PEOPLE, judged)
    if study not in topk:
        return None
    others = [method for method in topk if method != study]
    rows = []
    for what, rivals in {
        "random scores": [method for method in others if method == "random"],
        "best baseline": [method for method in others if method not in run.trained],
        "best of all others": others,
    }.items():
        if rivals:
            best = max(rivals, key=topk.__getitem__)
            level = [
                all((t.methods[m][PEOPLE] or 0) <= (t.methods[study][PEOPLE] or 0) for m in rivals) for t in judged
            ]
            ahead = f"{sum(level)} of {several(len(judged), 'task')}"
            rows.append([what, best, f"{topk[best]:.3f}", f"{topk[study] - topk[best]:+.3f}", ahead])
    own = {"F1 top-K": topk, "F1 by its own rule": means(run, "f1", judged), "AUROC": means(run, "auroc", judged)}
    caption = ", ".join(f"{what} {values[study]:.3f}" for what, values in own.items() if study in values)
    heads = columns(["Compared with", "Method"], ["F1 top-K", f"lead of {study}", "not behind on"])
    if len(judged) == 1:
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    return Table(heads, rows, f"The method under study, {study}: {caption}")

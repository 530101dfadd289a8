"""Reasons not to trust a report: caveats derived from the run's numbers, the most serious first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from explearn.methods.base.teachers import ANSWERS
from explearn.methods.results import Number, RunFacts, TaskReport, Tasks
from explearn.metrics.registry import CATALOGUE
from explearn.report.verdict import (
    MARKS,
    MODEL,
    better_than_random,
    counted_tasks,
    if_several,
    means,
    unranked_metrics,
)
from explearn.show.blocks import bold, count_range
from explearn.show.display import INCOMPLETE

NOTICED = 0.5
"""Rank correlation between a method's scores before and after randomising all weights, from which the report says that
the method hardly notices the model. Our own threshold: 1 is the same order of words, 0 an unrelated one."""

TENTATIVE_ALPHA = 0.667
"""Krippendorff's alpha below which Krippendorff advises against conclusions (2004, Content Analysis, 11.4.2)."""

SHIFT = 0.25
"""Fall of the classifier's mean confidence on randomly shortened texts from which the report mentions it, as a share
of the distance between its confidence on whole texts and guessing. Our own threshold."""

UNSURE = 0.2
"""Accuracy minus mean confidence from which the report mentions it; 0 for a calibrated classifier. Our own
threshold."""

OPEN_CAVEATS = 3
"""Most caveats that are shown unfolded."""


Values = Mapping[str, Any]
"""Values for a caveat's sentence; `methods` are the names of the methods concerned."""

Find = Callable[[RunFacts, Tasks], Iterator[Values]]
"""Yields values for the sentence of each caveat of a kind, by the run and its tasks."""


@dataclass(frozen=True, slots=True)
class Caveat:
    """A reason not to trust something.

    Attributes:
        title: what kind of caveat it is, one of RULES; empty for a remark of the run.
        sentence: what a reader should know.
        methods: the methods concerned; empty for all.
        grave: whether it may change a verdict on the methods concerned.
        machine: whether it depends on the machine, as times do.
    """

    title: str
    sentence: str
    methods: Sequence[str] = ()
    grave: bool = True
    machine: bool = False

    @property
    def text(self) -> str:
        """The title, in bold, and the sentence."""
        return f"{bold(f'{self.title}:')} {self.sentence}" if self.title else self.sentence


def find_caveats(run: RunFacts, tasks: Tasks) -> list[Caveat]:
    """Return the caveats of a run, the most serious first."""
    caveats = []
    for rule in RULES:
        for values in rule.find(run, tasks):
            methods = values.get("methods", ())
            joined = {**values, "methods": ", ".join(methods)}
            caveats.append(Caveat(rule.title, rule.sentence.format_map(joined), methods, rule.grave, rule.machine))
    return caveats


def part_caveats(caveats: Sequence[Caveat], methods: Collection[str]) -> tuple[list[Caveat], list[Caveat]]:
    """Split caveats into those that may change a verdict on `methods`, OPEN_CAVEATS at most, and all others."""
    grave: list[Caveat] = []
    others: list[Caveat] = []
    for caveat in caveats:
        concerned = not caveat.methods or not set(methods).isdisjoint(caveat.methods)
        if concerned and caveat.grave and len(grave) < OPEN_CAVEATS:
            grave.append(caveat)
        else:
            others.append(caveat)
    return grave, others


def has_no_marks(task: TaskReport) -> bool:
    """Return whether no text of a task has a marked word."""
    texts = task.agreement.get("texts")
    return texts is not None and not any(texts.values())


# ---- what is found on methods ----------------------------------------------------------------------------------------


def _untrained(run: RunFacts, tasks: Tasks) -> Iterator[Values]:
    """Find methods that no epoch of training improved, or whose base none improved."""
    for name, info in run.methods.items():
        untrained = []
        for task in tasks:
            notes = [task.notes.get(str(method), {}) for method in (name, info.base)]
            if name in task.methods and any(note.get("best_epoch") == 0 for note in notes):
                untrained.append(task.task)
        if untrained:
            base = ","
            if info.base:
                base = f" when training {info.base}, from which it starts,"
            yield {"methods": [name], "tasks": ", ".join(untrained), "base": base}


def _like_chance(run: RunFacts, tasks: Tasks) -> Iterator[Values]:
    """Find methods that are nowhere significantly better than random scores."""
    better = better_than_random(run, tasks, "auroc")
    never = [method for method, outcomes in better.items() if not any(outcomes)]
    if never:
        yield {"methods": never, "where": if_several(counted_tasks(run, tasks), "on no task", "not")}


def _below_chance(run: RunFacts, tasks: Tasks) -> Iterator[Values]:
    """Find methods whose chosen words agree less with the marks than random ones."""
    f1 = means(run, "f1", counted_tasks(run, tasks))
    chance = f1.get("random", 0.0)
    below = {method: value for method, value in f1.items() if value < chance and method not in run.chance}
    if below:
        listed = ", ".join(f"{method} ({value:.3f})" for method, value in below.items())
        yield {"methods": list(below), "figures": listed, "chance": f"{chance:.3f}"}


def _weak_figures(run: RunFacts, tasks: Tasks) -> Iterator[Values]:
    """Find metrics in which few methods are significantly better than random scores."""
    weak = []
    for metric, (better, pairs) in unranked_metrics(run, tasks).items():
        weak.append(f"{CATALOGUE[metric].heading} ({better} of {pairs})")
    if weak:
        pairs_counted = "for how many of all pairs of method and task the method is"
        counted = if_several(counted_tasks(run, tasks), pairs_counted, "how many methods are")
        yield {"metrics": ", ".join(weak), "counted": counted}


def _independent(run: RunFacts) -> set[str]:
    """Return the methods of which it is known that their scores do not depend on the classifier's weights."""
    return run.chance.union(name for name, info in run.methods.items() if "teacher" in info.needs)


def _unmoved(run: RunFacts, tasks: Tasks) -> Iterator[Values]:
    """Find methods whose scores hardly change when all weights are randomised."""
    correlations: dict[str, list[float]] = {}
    for task in tasks:
        for method, checks in task.sanity.get("methods", {}).items():
            # After the last part, the embeddings, all weights are randomised.
            for similar in list(checks["random_model"].values())[-1:]:
                if similar["spearman"] is not None:
                    correlations.setdefault(method, []).append(similar["spearman"])
    unmoved = {}
    for method, values in correlations.items():
        if fmean(values) >= NOTICED and method not in _independent(run):
            unmoved[method] = fmean(values)
    students = [name for name, info in run.methods.items() if "teacher" in info.needs]
    sentences = []
    if unmoved:
        ordered = sorted(unmoved, key=lambda method: -unmoved[method])
        listed = ", ".join(f"{method} ({unmoved[method]:.2f})" for method in ordered)
        sentences.append(
            f"{listed}. When all weights of the classifier are randomised, their rankings hardly change "
            "(mean rank correlation in brackets): they reflect the text, not what the classifier learned."
        )
    if students:
        sentences.append(
            f"{', '.join(students)} sees only the text and the predicted label, and imitates a teacher: changing "
            "the classifier's weights does not change its scores."
        )
    if sentences:
        yield {"methods": [*unmoved, *students], "sentences": " ".join(sentences)}


def _watches_metric(run: RunFacts, tasks: Tasks) -> Iterator[Values]:
    """Find methods that choose the best explanation of a text by a faithfulness metric."""
    notes = _notes(tasks)
    for name, info in run.methods.items():
        metric = notes.get(name, {}).get("optimised_for")
        if metric is None and info.watches_metric:
            metric = "a faithfulness metric"
        if metric is not None:
            yield {"methods": [name], "metric": metric}


def _near_metric(run: RunFacts, tasks: Tasks) -> Iterator[Values]:
    """Find methods that probe, or were trained on, what faithfulness metrics measure."""
    probing = []
    taught = []
    for name, info in run.methods.items():
        # A perturbation method that takes gradients compares texts with reference texts and does not shorten them.
        if info.family == "perturbation" and not info.watches_metric and "gradients" not in info.needs:
            probing.append(name)
        if run.options.get(name, {}).get("teacher") == ANSWERS:
            taught.append(name)
    trained = []
    for name, note in _notes(tasks).items():
        if not note.get("best_epoch"):
            continue
        if "epochs" in note:
            trained.append(name)
        if not {"comp", "suff"}.isdisjoint(note.get("criteria", ())) and not run.methods[name].own_model:
            taught.append(name)
    reasons = {
        "fitted to the classifier's predictions for texts with words left out": probing,
        "trained on its predictions for such texts": taught,
        "trained on the classifier's predictions for masked texts": trained,
    }
    parts = []
    for reason, names in reasons.items():
        if names:
            parts.append(f"{', '.join(names)} {if_several(names, 'are', 'is')} {reason}")
    if parts:
        yield {"methods": [*probing, *taught, *trained], "reasons": "; ".join(parts)}


def _notes(tasks: Tasks) -> dict[str, Mapping[str, Any]]:
    """Return the methods' notes on all tasks; those on later tasks replace earlier ones."""
    notes: dict[str, Mapping[str, Any]] = {}
    for task in tasks:
        notes |= task.notes
    return notes


def _incomplete(run: RunFacts, tasks: Tasks) -> Iterator[Values]:
    """Find methods whose scores should add up to a change of the output, but miss it by INCOMPLETE or more."""
    missed: dict[str, float] = {}
    for task in tasks:
        for method, figures in task.methods.items():
            error = figures.get("completeness_error") or 0.0
            if error >= INCOMPLETE:
                missed[method] = max(error, missed.get(method, 0.0))
    if missed:
        listed = ", ".join(f"{method} ({error:.0%})" for method, error in missed.items())
        yield {"methods": list(missed), "errors": listed, "worst": if_several(tasks, ", on the worst task")}


# ---- what is found on tasks ------------------------------------------------------------------------------------------


def on_tasks(find: Callable[[RunFacts, TaskReport], str | None]) -> Find:
    """Return a function that finds tasks: `find` returns what to add to a task's name, or None for no caveat."""

    def find_tasks(run: RunFacts, tasks: Tasks) -> Iterator[Values]:
        concerned = []
        for task in tasks:
            figures = find(run, task)
            if figures is not None:
                concerned.append(task.task + figures)
        if concerned:
            yield {"tasks": ", ".join(concerned)}

    return find_tasks


@on_tasks
def _unmarked(run: RunFacts, task: TaskReport) -> str | None:
    return "" if has_no_marks(task) else None


@on_tasks
def _unlabelled(run: RunFacts, task: TaskReport) -> str | None:
    return "" if task.methods and not task.classifier else None


@on_tasks
def _low_agreement(run: RunFacts, task: TaskReport) -> str | None:
    alpha = task.agreement.get("alpha")
    return None if alpha is None or alpha >= TENTATIVE_ALPHA else f" ({alpha:.2f})"


@on_tasks
def _single_annotators(run: RunFacts, task: TaskReport) -> str | None:
    return "" if task.agreement.get("kinds") and task.agreement.get("alpha") is None else None


def _full_confidence(run: RunFacts, task: TaskReport) -> Number:
    """Return the mean confidence on whole texts, which is the same for all methods that explain the task's model."""
    for name, figures in task.methods.items():
        if not run.methods[name].own_model and figures.get("confidence_full") is not None:
            return figures["confidence_full"]
    return None


@on_tasks
def _unsure(run: RunFacts, task: TaskReport) -> str | None:
    accuracy = task.classifier.get("test", {}).get("accuracy")
    full = _full_confidence(run, task)
    if accuracy is None or full is None or accuracy - full < UNSURE:
        return None
    return f" (accuracy {accuracy:.2f}, mean confidence {full:.2f})"


@on_tasks
def _shifted(run: RunFacts, task: TaskReport) -> str | None:
    full = _full_confidence(run, task)
    figures = task.methods.get("random", {})
    shortened = [figures.get(f"confidence_{inputs}") for inputs in ("without", "only", "masked")]
    lowest = min((value for value in shortened if value is not None), default=None)
    guess = 1 / max(1, len(task.labels))
    if full is None or lowest is None or full <= guess or (full - lowest) / (full - guess) < SHIFT:
        return None
    return f" ({full:.2f} to {lowest:.2f})"


# ---- what is found on the run ----------------------------------------------------------------------------------------


def _less_trained(run: RunFacts, tasks: Tasks) -> Iterator[Values]:
    """Find methods that had less than half of the processor time for training that another one had."""
    totals: dict[str, float] = defaultdict(float)
    for task in tasks:
        for method, figures in task.methods.items():
            totals[method] += figures.get("training_seconds") or 0.0
    longest = max(totals, key=totals.__getitem__, default="")
    most = totals[longest]
    less = [method for method, seconds in totals.items() if 0 < seconds < most / 2]
    if less:
        times = ", ".join(f"{method} {totals[method]:.0f} s" for method in less)
        yield {"methods": less, "times": times, "longest": longest, "seconds": most}


def _remarks(run: RunFacts, tasks: Tasks) -> Iterator[Values]:
    for remark in run.remarks:
        yield {"remark": remark}


def _one_training(run: RunFacts, tasks: Tasks) -> Iterator[Values]:
    if run.trained:
        yield {"trained": ", ".join(run.ordered(run.trained)), "seed": run.seed}


def _small_differences(run: RunFacts, tasks: Tasks) -> Iterator[Values]:
    """Find how wide the intervals are, and figures in which no difference can be significant."""
    tasks = counted_tasks(run, tasks)
    sentences = []
    figures: list[Mapping[str, Number]] = []
    for task in tasks:
        figures += task.methods.values()
    rows = [row for row in figures if row.get("f1_topk_low") is not None]
    if rows:
        half = np.median([(row["f1_topk_high"] or 0.0) - (row["f1_topk_low"] or 0.0) for row in rows]) / 2
        texts = count_range([int(row.get("plausibility_texts") or 0) for row in rows])
        sentences.append(
            f"with {texts} marked texts, F1 top-K is uncertain by about ±{half:.2f}. Compare methods by the tests "
            "below, not by the third decimal."
        )
    for metric, name in ((MARKS, "F1 top-K"), (MODEL, "AOPC comprehensiveness")):
        tests = [task.comparisons[metric] for task in tasks if metric in task.comparisons]
        tests = [test for test in tests if len(test.methods) > 1]
        if tests and not any(test.can_differ() for test in tests):
            sentences.append(
                f"In {name} no difference can be significant: there are too few texts for so many methods."
            )
    if sentences:
        yield {"sentences": " ".join(sentences)}


def _unchecked(run: RunFacts, tasks: Tasks) -> Iterator[Values]:
    """Find a run without sanity checks, and methods that were not checked on every task."""
    results = [task.sanity for task in tasks if task.sanity.get("methods")]
    if not results:
        yield {"names": "all methods"}
        return
    missing = []
    for method in run.methods:
        checked = [result["methods"].get(method, {}).get("random_model") for result in results]
        if method not in _independent(run) and not all(checked):
            missing.append(method)
    if missing:
        yield {"methods": missing, "names": ", ".join(missing)}


# ---- what is said ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of caveat.

    Attributes:
        title: its title.
        sentence: template of its sentence.
        find: yields the values for the sentence, once for each caveat of this kind.
        grave: whether it may change a verdict; others are always folded.
        machine: whether it depends on the machine.
    """

    title: str
    sentence: str
    find: Find
    grave: bool = True
    machine: bool = False


RULES = (
    Rule(
        "Not trained",
        "{methods} on {tasks}. No epoch was better than the start{base} so its figures there are those of an "
        "untrained model.",
        _untrained,
    ),
    Rule(
        "No better than chance at finding the marked words",
        "{methods}. Their AUROC is {where} significantly above that of random scores.",
        _like_chance,
    ),
    Rule(
        "Below chance by its own rule",
        "{figures}. F1 of the words that these methods choose; words chosen at random have {chance}.",
        _below_chance,
    ),
    Rule("Hardly depend on the model", "{sentences}", _unmoved),
    Rule(
        "Optimises the metric",
        "{methods} tries many explanations of a text and keeps the one that is best by {metric} on that same text. It "
        "may be less faithful by a metric that it does not optimise.",
        _watches_metric,
    ),
    Rule(
        "Close to the metric",
        "{reasons}. Comprehensiveness, sufficiency and AOPC measure nearly the same, which may explain part of a lead "
        "in these figures.",
        _near_metric,
    ),
    Rule(
        "No marks",
        "{tasks}. Agreement with marks is not known: F1, AUROC and similar metrics need marked texts.",
        _unmarked,
    ),
    Rule(
        "No labels",
        "{tasks}. The classifier's accuracy is not known. An explanation can be faithful to a wrong classifier.",
        _unlabelled,
    ),
    Rule(
        "Scores that do not add up",
        "{errors}. In brackets: by how much the sum misses the change of the output that it should equal, as a share "
        "of the absolute scores{worst}. Read the ranking, not the numbers; more steps or another baseline may help.",
        _incomplete,
    ),
    Rule(
        "Less training",
        "{times}. {longest} was trained for {seconds:.0f} s of processor time on all tasks together, these for less "
        "than half of that: some might be better with more.",
        _less_trained,
        machine=True,
    ),
    Rule("", "{remark}", _remarks),
    Rule("Small differences", "{sentences}", _small_differences),
    Rule(
        "Annotators disagree",
        f"{{tasks}}. Krippendorff's alpha is below {TENTATIVE_ALPHA}. Agreement with the marks is only as reliable as "
        "the marks.",
        _low_agreement,
    ),
    Rule(
        "One training run",
        "{trained}, and the classifiers, were trained once, with seed {seed}. Intervals and tests do not cover the "
        "effect of another seed.",
        _one_training,
    ),
    Rule(
        "Not checked",
        "{names}. Whether their scores depend on the classifier's weights is not known.",
        _unchecked,
    ),
    Rule(
        "One opinion only",
        "in {tasks} no text was marked by two annotators, so the reliability of the marks is not known.",
        _single_annotators,
        grave=False,
    ),
    Rule(
        "Figures that hardly distinguish methods from random scores",
        "{metrics}. In brackets: {counted} significantly better than random. By these figures no method is marked as "
        "best.",
        _weak_figures,
        grave=False,
    ),
    Rule(
        "Low confidence",
        "{tasks}. A low probability cannot fall by much: comprehensiveness, sufficiency and AOPC are small there for "
        "every method, and have little weight in means.",
        _unsure,
        grave=False,
    ),
    Rule(
        "Out of distribution",
        "{tasks}. The classifier's mean confidence falls this far on randomly shortened texts, because it was not "
        "trained on such texts. This effect is part of every fall that faithfulness measures, and the figures cannot "
        "separate it from the effect of what is removed.",
        _shifted,
        grave=False,
    ),
)
"""All kinds of caveats, the most serious first."""

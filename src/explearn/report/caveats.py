"""Reasons not to trust a report: caveats derived from the run's numbers, the most serious first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from explearn.methods.base.teachers import ANSWERS
from explearn.methods.results import Number, RunFacts, TaskReport
from explearn.metrics.registry import CATALOGUE
from explearn.report.verdict import MODEL, PEOPLE, QUESTIONS, counted_tasks, means, several
from explearn.show.blocks import bold
from explearn.show.display import INCOMPLETE

NOTICED = 0.5
"""Rank correlation between a method's scores before and after randomising all weights, from which the report says that
the method hardly notices the model. Our own threshold: 1 is the same order of words, 0 an unrelated one."""

TENTATIVE_ALPHA = 0.667
"""Krippendorff's alpha below which Krippendorff advises against conclusions (2004, Content Analysis, 11.4.2)."""

SHIFT = 0.25
"""Fall of the classifier's mean confidence on randomly shortened texts from which the report mentions it, as a share
of the distance between its confidence on whole texts and guessing. Our own threshold."""

ROUGH_TEXTS = 20
"""Number of texts below which intervals are called rough; from this number on they have their stated coverage
(benchmarks/interval_coverage.py)."""

UNSURE = 0.2
"""Accuracy minus mean confidence from which the report mentions it; 0 for a calibrated classifier. Our own
threshold."""

OPEN_CAVEATS = 3
"""Most caveats that are shown unfolded."""


class CaveatKind(Enum):
    """A kind of caveat, by its title; the most serious first."""

    NOT_TRAINED = "Not trained"
    LIKE_CHANCE = "No better than chance at finding what people marked"
    UNMOVED = "Hardly depend on the model"
    WATCHES_METRIC = "Optimises the metric"
    NEAR_METRIC = "Close to the metric"
    OWN_CLASSIFIER = "Another classifier"
    NO_MARKS = "No marks"
    NO_LABELS = "No labels"
    INCOMPLETE = "Scores that do not add up"
    REMARK = ""
    SMALL_DIFFERENCES = "Small differences"
    DISAGREEMENT = "People disagree"
    ONE_TRAINING = "One training run"
    FEW_CHECKS = "Few sanity checks"
    # Caveats from here on do not affect a verdict, and are always folded.
    ONE_OPINION = "One opinion only"
    NO_EVIDENCE = "Figures that hardly distinguish methods from random scores"
    UNSURE = "Low confidence"
    OUT_OF_DISTRIBUTION = "Out of distribution"
    TWO_QUESTIONS = "Two questions"

    @property
    def rank(self) -> int:
        return list(CaveatKind).index(self)


@dataclass(frozen=True, slots=True)
class Caveat:
    """A reason not to trust something.

    Attributes:
        kind: its kind.
        sentence: what a reader should know.
        methods: the methods concerned; empty for all.
    """

    kind: CaveatKind
    sentence: str
    methods: Sequence[str] = ()

    @property
    def text(self) -> str:
        return f"{bold(self.kind.value + ':')} {self.sentence}" if self.kind.value else self.sentence


def find_caveats(run: RunFacts, tasks: Sequence[TaskReport]) -> list[Caveat]:
    """Return the caveats of a run, ordered by rank."""
    counted = counted_tasks(run, tasks)
    caveats = [Caveat(CaveatKind.REMARK, remark) for remark in run.remarks]
    for rule in TASK_RULES:
        concerned = [rule.applies(run, task) for task in tasks]
        listed = ", ".join(task for task in concerned if task)
        if listed:
            caveats.append(Caveat(rule.kind, rule.sentence.format(tasks=listed)))
    caveats += _training(run, tasks)
    caveats += _near_the_metric(run, tasks)
    caveats += _incomplete(tasks)
    caveats += _noise(run, counted)
    caveats += _like_chance(run, counted)
    caveats += _unmoved(run, tasks)
    caveats.append(_checks(run, tasks))
    caveats += _two_questions(run, counted)
    return sorted(caveats, key=lambda caveat: caveat.kind.rank)


def part_caveats(caveats: Sequence[Caveat], methods: Collection[str]) -> tuple[list[Caveat], list[Caveat]]:
    """Split caveats into those that may change a verdict on `methods`, OPEN_CAVEATS at most, and all others."""
    grave: list[Caveat] = []
    others: list[Caveat] = []
    for caveat in caveats:
        concerned = not caveat.methods or bool(set(caveat.methods) & set(methods))
        changes_verdict = concerned and caveat.kind.rank < CaveatKind.ONE_OPINION.rank
        shown = grave if changes_verdict and len(grave) < OPEN_CAVEATS else others
        shown.append(caveat)
    return grave, others


def has_no_marks(task: TaskReport) -> bool:
    """Return whether no text of a task has a marked word."""
    texts = task.agreement.get("texts")
    return texts is not None and not any(texts.values())


def _unmarked(run: RunFacts, task: TaskReport) -> str:
    return task.task if has_no_marks(task) else ""


def _unlabelled(run: RunFacts, task: TaskReport) -> str:
    return task.task if task.methods and not task.classifier else ""


def _low_agreement(run: RunFacts, task: TaskReport) -> str:
    alpha = task.agreement.get("alpha")
    return f"{task.task} ({alpha:.2f})" if alpha is not None and alpha < TENTATIVE_ALPHA else ""


def _single_annotators(run: RunFacts, task: TaskReport) -> str:
    return task.task if task.agreement.get("kinds") and task.agreement.get("alpha") is None else ""


def _full_confidence(run: RunFacts, task: TaskReport) -> Number:
    """Return the mean confidence on whole texts, which is the same for all methods that explain the task's model."""
    for name, figures in task.methods.items():
        if not run.methods[name].own_model and figures.get("confidence_full") is not None:
            return figures["confidence_full"]
    return None


def _unsure(run: RunFacts, task: TaskReport) -> str:
    accuracy = task.classifier.get("test", {}).get("accuracy")
    full = _full_confidence(run, task)
    if accuracy is None or full is None or accuracy - full < UNSURE:
        return ""
    return f"{task.task} (accuracy {accuracy:.2f}, mean confidence {full:.2f})"


def _shifted(run: RunFacts, task: TaskReport) -> str:
    full = _full_confidence(run, task)
    figures = task.methods.get("random", {})
    shortened = [figures.get(f"confidence_{inputs}") for inputs in ("without", "only", "masked")]
    lowest = min((value for value in shortened if value is not None), default=None)
    guess = 1 / max(1, len(task.labels))
    if full is None or lowest is None or full <= guess or (full - lowest) / (full - guess) < SHIFT:
        return ""
    return f"{task.task} ({full:.2f} to {lowest:.2f})"


@dataclass(frozen=True, slots=True)
class TaskRule:
    """A caveat that may concern each task.

    Attributes:
        kind: its kind.
        applies: returns the task's name, with the figures that tell, or nothing if the task is not concerned.
        sentence: template; {tasks} stands for the concerned tasks.
    """

    kind: CaveatKind
    applies: Callable[[RunFacts, TaskReport], str]
    sentence: str


TASK_RULES = (
    TaskRule(
        CaveatKind.NO_MARKS,
        _unmarked,
        "{tasks}. Whether the explanations agree with people is not known: F1, AUROC and similar metrics need marked "
        "texts.",
    ),
    TaskRule(
        CaveatKind.NO_LABELS,
        _unlabelled,
        "{tasks}. The classifier's accuracy is not known. An explanation can be faithful to a wrong classifier.",
    ),
    TaskRule(
        CaveatKind.DISAGREEMENT,
        _low_agreement,
        f"{{tasks}}. Krippendorff's alpha is below {TENTATIVE_ALPHA}. Agreement with the marks is only as reliable as "
        "the marks.",
    ),
    TaskRule(
        CaveatKind.ONE_OPINION,
        _single_annotators,
        "in {tasks} no text was marked by two annotators, so the reliability of the marks is not known.",
    ),
    TaskRule(
        CaveatKind.UNSURE,
        _unsure,
        "{tasks}. A low probability cannot fall by much: comprehensiveness, sufficiency and AOPC are small there for "
        "every method, and have little weight in means.",
    ),
    TaskRule(
        CaveatKind.OUT_OF_DISTRIBUTION,
        _shifted,
        "{tasks}. The classifier's mean confidence falls this far on randomly shortened texts, because it was not "
        "trained on such texts. This effect is part of every fall that faithfulness measures, and the figures cannot "
        "separate it from the effect of what is removed.",
    ),
)
"""Caveats on the data and the classifier of each task."""


def _training(run: RunFacts, tasks: Sequence[TaskReport]) -> Iterator[Caveat]:
    """Yield caveats on methods that training did not improve, on their own classifiers, and on single training runs."""
    for name, info in run.methods.items():
        idle = [task.task for task in tasks if name in task.methods and _stayed_untrained(task, name, info.base)]
        if idle:
            base = f" when training {info.base}, from which it starts," if info.base else ","
            yield Caveat(
                CaveatKind.NOT_TRAINED,
                f"{name} on {', '.join(idle)}. No epoch was better than the start{base} so its figures there are "
                "those of an untrained model.",
                [name],
            )
        if any(name in task.own_models for task in tasks):
            changes = [change for change in (_accuracy_change(task, name) for task in tasks) if change]
            gains = f" Its test accuracy minus the task's, in points: {', '.join(changes)}." if changes else ""
            yield Caveat(
                CaveatKind.OWN_CLASSIFIER,
                f"{name} explains, and is evaluated on, a classifier that it trained itself.{gains} Its figures that "
                "depend on the classifier cannot be compared with other methods and do not count in rankings; the "
                f"tables headed On the classifier of {name} compare like with like.",
                [name],
            )
    if run.trained:
        yield Caveat(
            CaveatKind.ONE_TRAINING,
            f"{', '.join(run.ordered(run.trained))}, and the classifiers, were trained once, with seed {run.seed}. "
            "Intervals and tests do not cover the effect of another seed (docs/study/reports.md: seeds).",
        )


def _stayed_untrained(task: TaskReport, method: str, base: str | None) -> bool:
    """Return whether no epoch improved a method, or the one that it starts from."""
    return any(task.notes.get(str(name), {}).get("best_epoch") == 0 for name in (method, base))


def _accuracy_change(task: TaskReport, method: str) -> str:
    """Return by how much a method's own classifier is better than the task's; empty if that is not known."""
    own = task.own_models.get(method, {}).get("classifier", {}).get("test", {}).get("accuracy")
    accuracy = task.classifier.get("test", {}).get("accuracy")
    if own is None or accuracy is None:
        return ""
    return f"{task.task} {round(100 * (own - accuracy), 1) + 0.0:+.1f}"


def _near_the_metric(run: RunFacts, tasks: Sequence[TaskReport]) -> Iterator[Caveat]:
    """Yield caveats on methods that optimise, probe or were trained on what faithfulness metrics measure."""
    notes: dict[str, Mapping[str, Any]] = {}
    for task in tasks:
        notes |= task.notes
    for name, info in run.methods.items():
        chosen = notes.get(name, {}).get("optimised_for", "a faithfulness metric" if info.watches_metric else None)
        if chosen is not None:
            yield Caveat(
                CaveatKind.WATCHES_METRIC,
                f"{name} tries many explanations of a text and keeps the one that is best by {chosen} on that same "
                "text. It may be less faithful by a metric that it does not optimise.",
                [name],
            )
    probing = []
    taught = []
    for name, info in run.methods.items():
        # A perturbation method that takes gradients compares texts with reference texts and does not shorten them.
        if info.family == "perturbation" and not info.watches_metric and "gradients" not in info.needs:
            probing.append(name)
        if run.options.get(name, {}).get("teacher") == ANSWERS:
            taught.append(name)
    trained = []
    for name, note in notes.items():
        if not note.get("best_epoch"):
            continue
        if "epochs" in note:
            trained.append(name)
        if {"comp", "suff"} & {*note.get("criteria", ())} and not run.methods[name].own_model:
            taught.append(name)
    reasons = {
        "fitted to the classifier's predictions for texts with words left out": probing,
        "trained on its predictions for such texts": taught,
        "trained on the classifier's predictions for masked texts": trained,
    }
    parts = []
    for reason, names in reasons.items():
        if names:
            parts.append(f"{', '.join(names)} {'are' if len(names) > 1 else 'is'} {reason}")
    if parts:
        yield Caveat(
            CaveatKind.NEAR_METRIC,
            f"{'; '.join(parts)}. Comprehensiveness, sufficiency and AOPC measure nearly the same, which may explain "
            "part of a lead in these figures.",
            [*probing, *taught, *trained],
        )


def _incomplete(tasks: Sequence[TaskReport]) -> Iterator[Caveat]:
    """Yield a caveat on methods whose scores should add up to a change of the output, but miss it by INCOMPLETE or
    more."""
    missed: dict[str, float] = {}
    for task in tasks:
        for method, figures in task.methods.items():
            error = figures.get("completeness_error") or 0.0
            if error >= INCOMPLETE:
                missed[method] = max(error, missed.get(method, 0.0))
    if missed:
        listed = ", ".join(f"{method} ({error:.0%})" for method, error in missed.items())
        worst = ", on the worst task" if len(tasks) > 1 else ""
        yield Caveat(
            CaveatKind.INCOMPLETE,
            f"{listed}. In brackets: by how much the sum misses the change of the output that it should equal, as a "
            f"share of the absolute scores{worst}. Read the ranking, not the numbers; more steps or another baseline "
            "may help.",
            list(missed),
        )


def _noise(run: RunFacts, tasks: Sequence[TaskReport]) -> Iterator[Caveat]:
    """Yield a caveat on how wide the intervals are, and how many differences are significant."""
    sentences = []
    figures: list[Mapping[str, Number]] = []
    for task in tasks:
        figures += task.methods.values()
    rows = [row for row in figures if row.get("f1_topk_low") is not None]
    if rows:
        half = np.median([(row["f1_topk_high"] or 0.0) - (row["f1_topk_low"] or 0.0) for row in rows]) / 2
        counts = _range_of_texts([int(row.get("plausibility_texts") or 0) for row in rows])
        sentences.append(
            f"with {counts}, F1 top-K is uncertain by about ±{half:.2f}. Compare methods by the tests below, not by "
            "the third decimal."
        )
    texts = [row.get(name) or 0 for row in figures for name in ("texts", "plausibility_texts")]
    if any(0 < count < ROUGH_TEXTS for count in texts):
        sentences.append(f"With fewer than {ROUGH_TEXTS} texts, intervals are rough.")
    differing = []
    for metric, name in ((PEOPLE, "F1 top-K"), (MODEL, "AOPC comprehensiveness")):
        tests = [task.comparisons[metric] for task in tasks if metric in task.comparisons]
        tests = [test for test in tests if len(test.methods) > 1]
        if tests and not any(test.can_differ() for test in tests):
            sentences.append(
                f"In {name} no difference can be significant: there are too few texts for so many methods."
            )
        elif tests:
            outcomes = [test.outcomes(run.evaluate.significance) for test in tests]
            pairs = np.concatenate([square[np.triu_indices(len(square), 1)] for square in outcomes])
            differing.append(f"{np.count_nonzero(pairs):,} of {pairs.size:,} in {name}")
    if differing:
        where = ", counted on each task," if len(tasks) > 1 else ""
        sentences.append(f"Pairs of methods{where} that differ significantly: {', '.join(differing)}.")
    if sentences:
        yield Caveat(CaveatKind.SMALL_DIFFERENCES, " ".join(sentences))


def _range_of_texts(counts: Collection[int]) -> str:
    """Return numbers of texts in words: "20 texts", or "20 to 40 texts"."""
    least = min(counts)
    most = max(counts)
    return several(most, "text") if least == most else f"{least:,} to {most:,} texts"


def _like_chance(run: RunFacts, tasks: Sequence[TaskReport]) -> Iterator[Caveat]:
    """Yield caveats on methods, and on figures, in which random scores are not significantly worse."""
    weak = []
    for metric in QUESTIONS:
        better = _better_than_random(run, tasks, metric)
        never = [method for method, outcomes in better.items() if not any(outcomes)]
        if metric == "auroc" and never:
            on_no = "on no task" if len(tasks) > 1 else "not"
            yield Caveat(
                CaveatKind.LIKE_CHANCE,
                f"{', '.join(never)}. Their AUROC is {on_no} significantly above that of random scores.",
                never,
            )
        count = sum(map(sum, better.values()))
        pairs = sum(map(len, better.values()))
        if count < pairs / 4:
            weak.append(f"{CATALOGUE[metric].heading} ({count} of {pairs})")
    if weak:
        counted = "how many methods are"
        if len(tasks) > 1:
            counted = "for how many of all pairs of method and task the method is"
        yield Caveat(
            CaveatKind.NO_EVIDENCE,
            f"{', '.join(weak)}. In brackets: {counted} significantly better than random. Do not choose a method by "
            "these figures.",
        )


def _better_than_random(run: RunFacts, tasks: Sequence[TaskReport], metric: str) -> dict[str, list[bool]]:
    """Return for each method whether it is significantly better than random scores, on each task that tells."""
    better: dict[str, list[bool]] = {}
    for task in tasks:
        test = task.comparisons.get(metric)
        if test is None or "random" not in test.methods:
            continue
        for method in test.methods:
            if run.methods[method].family != "chance":
                outcome = test.outcome(method, "random", run.evaluate.significance)
                better.setdefault(method, []).append(outcome > 0)
    return better


def _independent(run: RunFacts) -> set[str]:
    """Return the methods of which it is known that their scores do not depend on the classifier's weights."""
    return {name for name, info in run.methods.items() if info.family == "chance" or "teacher" in info.needs}


def _unmoved(run: RunFacts, tasks: Sequence[TaskReport]) -> Iterator[Caveat]:
    """Yield a caveat on methods whose scores hardly change when all weights are randomised."""
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
        yield Caveat(CaveatKind.UNMOVED, " ".join(sentences), [*unmoved, *students])


def _checks(run: RunFacts, tasks: Sequence[TaskReport]) -> Caveat:
    """Return a caveat on which sanity checks were run, and on which methods they were not."""
    results = [task.sanity for task in tasks if task.sanity.get("methods")]
    if not results:
        sentence = "No sanity check was run, so it is not known whether scores depend on the classifier's weights."
        return Caveat(CaveatKind.FEW_CHECKS, sentence)
    checked: Counter[str] = Counter()
    relabelled = False
    for result in results:
        for method, checks in result["methods"].items():
            checked[method] += bool(checks["random_model"])
            relabelled = relabelled or bool(checks["random_labels"])
    texts = _range_of_texts([result["texts"] for result in results])
    missing = [method for method in run.methods if method not in _independent(run) and checked[method] < len(results)]
    each = " per task" if len(results) > 1 else ""
    but = f", but not for {', '.join(missing)}" if missing else ""
    sentence = f"Whether scores depend on the classifier's weights was checked on {texts}{each}{but}."
    if not relabelled:
        sentence += " Whether they depend on what it learned (permuted labels) was not checked."
    return Caveat(CaveatKind.FEW_CHECKS, sentence)


def _two_questions(run: RunFacts, tasks: Sequence[TaskReport]) -> Iterator[Caveat]:
    """Yield a caveat on whether the methods that agree with people also agree with the model."""
    people = means(run, PEOPLE, tasks)
    model = means(run, MODEL, tasks)
    common = [method for method in people if method in model and run.comparable(method, MODEL)]
    pairs = np.array([(people[method], model[method]) for method in common])
    # If all methods have the same figure, there is no order to compare.
    if len(common) < 4 or (np.ptp(pairs, axis=0) == 0).any():
        return
    rho = float(spearmanr(pairs).statistic)
    how = "not the same"
    if rho >= 0.3:
        how = "partly the same"
    if rho >= 0.7:
        how = "much the same"
    yield Caveat(
        CaveatKind.TWO_QUESTIONS,
        f"the methods that agree with people and those that agree with the model are {how} (rank correlation of F1 "
        f"top-K and AOPC comprehensiveness over {len(common)} methods: {rho:.2f}). Choose by your question.",
    )

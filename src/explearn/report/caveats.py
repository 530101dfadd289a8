"""Reasons not to trust a report: caveats derived from the run's numbers, the most serious first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean

import numpy as np
from scipy.stats import spearmanr

from explearn.methods.base.teachers import ANSWERS
from explearn.methods.results import RunFacts, TaskReport
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
    """A reason not to trust something. methods: the methods concerned; empty for all."""

    kind: CaveatKind
    sentence: str
    methods: Sequence[str] = ()

    @property
    def text(self) -> str:
        return f"{bold(self.kind.value + ':')} {self.sentence}" if self.kind.value else self.sentence


def find_caveats(run: RunFacts, tasks: Sequence[TaskReport]) -> list[Caveat]:
    """Return the caveats of a run, ordered by rank."""
    counted = counted_tasks(run, tasks)
    caveats = [
        *(Caveat(CaveatKind.REMARK, remark) for remark in run.remarks),
        *_marks(tasks),
        *_training(run, tasks),
        *_near_the_metric(run, tasks),
        *_incomplete(tasks),
        *_noise(run, counted),
        *_like_chance(run, counted),
        *_sanity(run, tasks),
        *_confidence(run, tasks),
        *_two_questions(run, counted),
    ]
    return sorted(caveats, key=lambda caveat: caveat.kind.rank)


def part_caveats(caveats: Sequence[Caveat], methods: Collection[str]) -> tuple[list[Caveat], list[Caveat]]:
    """Split caveats into those that may change a verdict on `methods`, OPEN_CAVEATS at most, and all others."""
    grave = [
        caveat
        for caveat in caveats
        if caveat.kind.rank < CaveatKind.ONE_OPINION.rank and (not caveat.methods or set(caveat.methods) & set(methods))
    ][:OPEN_CAVEATS]
    return grave, [caveat for caveat in caveats if caveat not in grave]


def has_no_marks(task: TaskReport) -> bool:
    """Return whether no text of a task has a marked word."""
    texts = task.agreement.get("texts")
    return texts is not None and not any(texts.values())


def _marks(tasks: Sequence[TaskReport]) -> Iterator[Caveat]:
    """Yield caveats on missing marks and labels, and on the annotators' agreement."""
    alphas = {task.task: alpha for task in tasks if (alpha := task.agreement.get("alpha")) is not None}
    if unmarked := ", ".join(task.task for task in tasks if has_no_marks(task)):
        yield Caveat(
            CaveatKind.NO_MARKS,
            f"{unmarked}. Whether the explanations agree with people is not known: F1, AUROC and similar metrics need "
            "marked texts.",
        )
    if unlabelled := ", ".join(task.task for task in tasks if task.methods and not task.classifier):
        yield Caveat(
            CaveatKind.NO_LABELS,
            f"{unlabelled}. The classifier's accuracy is not known. An explanation can be faithful to a wrong "
            "classifier.",
        )
    if low := ", ".join(f"{task} ({alpha:.2f})" for task, alpha in alphas.items() if alpha < TENTATIVE_ALPHA):
        yield Caveat(
            CaveatKind.DISAGREEMENT,
            f"{low}. Krippendorff's alpha is below {TENTATIVE_ALPHA}. Agreement with the marks is only as "
            "reliable as the marks.",
        )
    if single := ", ".join(task.task for task in tasks if task.agreement.get("kinds") and task.task not in alphas):
        yield Caveat(
            CaveatKind.ONE_OPINION,
            f"in {single} no text was marked by two annotators, so the reliability of the marks is not known.",
        )


def _training(run: RunFacts, tasks: Sequence[TaskReport]) -> Iterator[Caveat]:
    """Yield caveats on methods that training did not improve, on their own classifiers, and on single training runs."""
    for name, info in run.methods.items():
        idle, changes = [], []
        for task in tasks:
            own = task.own_models.get(name, {})
            untrained = {method for method, notes in task.notes.items() if notes.get("best_epoch") == 0}
            if name in task.methods and {name, info.base} & untrained:
                idle.append(task.task)
            accuracy, before = (
                of.get("test", {}).get("accuracy") for of in (own.get("classifier", {}), task.classifier)
            )
            if accuracy is not None and before is not None:
                changes.append(f"{task.task} {round(100 * (accuracy - before), 1) + 0.0:+.1f}")
        if idle:
            base = f" when training {info.base}, from which it starts," if info.base else ","
            yield Caveat(
                CaveatKind.NOT_TRAINED,
                f"{name} on {', '.join(idle)}. No epoch was better than the start{base} so its figures there are "
                "those of an untrained model.",
                [name],
            )
        if any(name in task.own_models for task in tasks):
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


def _near_the_metric(run: RunFacts, tasks: Sequence[TaskReport]) -> Iterator[Caveat]:
    """Yield caveats on methods that optimise, probe or were trained on what faithfulness metrics measure."""
    notes = {name: of for task in tasks for name, of in task.notes.items()}
    for name, info in run.methods.items():
        chosen = notes.get(name, {}).get("optimised_for", "a faithfulness metric" if info.watches_metric else None)
        if chosen is not None:
            yield Caveat(
                CaveatKind.WATCHES_METRIC,
                f"{name} tries many explanations of a text and keeps the one that is best by {chosen} on that same "
                "text. It may be less faithful by a metric that it does not optimise.",
                [name],
            )
    # A perturbation method that takes gradients compares texts with reference texts and does not shorten them.
    probing = [
        name
        for name, info in run.methods.items()
        if info.family == "perturbation" and not info.watches_metric and "gradients" not in info.needs
    ]
    trained = [name for name, of in notes.items() if "epochs" in of and of["best_epoch"]]
    shortened = [
        name
        for name, of in notes.items()
        if {"comp", "suff"} & {*of.get("criteria", ())} and of["best_epoch"] and not run.methods[name].own_model
    ]
    taught = [name for name in run.methods if run.options.get(name, {}).get("teacher") == ANSWERS] + shortened
    what = {
        "fitted to the classifier's predictions for texts with words left out": probing,
        "trained on its predictions for such texts": taught,
        "trained on the classifier's predictions for masked texts": trained,
    }
    said = [f"{', '.join(names)} {'are' if len(names) > 1 else 'is'} {how}" for how, names in what.items() if names]
    if said:
        yield Caveat(
            CaveatKind.NEAR_METRIC,
            f"{'; '.join(said)}. Comprehensiveness, sufficiency and AOPC measure nearly the same, which may explain "
            "part of a lead in these figures.",
            [*probing, *taught, *trained],
        )


def _incomplete(tasks: Sequence[TaskReport]) -> Iterator[Caveat]:
    """Yield a caveat on methods whose scores should add up to a change of the output, but miss it by INCOMPLETE or
    more."""
    missed: dict[str, float] = {}
    for method, figures in (item for task in tasks for item in task.methods.items()):
        if (error := figures.get("completeness_error") or 0.0) >= INCOMPLETE:
            missed[method] = max(error, missed.get(method, 0.0))
    if missed:
        yield Caveat(
            CaveatKind.INCOMPLETE,
            f"{', '.join(f'{method} ({error:.0%})' for method, error in missed.items())}. In brackets: by how much the "
            "sum misses the change of the output that it should equal, as a share of the absolute scores"
            f"{', on the worst task' if len(tasks) > 1 else ''}. Read the ranking, not the numbers; more steps or "
            "another baseline may help.",
            list(missed),
        )


def _noise(run: RunFacts, tasks: Sequence[TaskReport]) -> Iterator[Caveat]:
    """Yield a caveat on how wide the intervals are, and how many differences are significant."""
    said = []
    figures = [row for task in tasks for row in task.methods.values()]
    rows = [row for row in figures if row.get("f1_topk_low") is not None]
    if rows:
        half = np.median([(row["f1_topk_high"] or 0.0) - (row["f1_topk_low"] or 0.0) for row in rows]) / 2
        texts = sorted({int(row.get("plausibility_texts") or 0) for row in rows})
        counts = several(texts[-1], "text") if len(texts) == 1 else f"{texts[0]:,} to {texts[-1]:,} texts"
        said.append(
            f"with {counts}, F1 top-K is uncertain by about ±{half:.2f}. Compare methods by the tests below, not by "
            "the third decimal."
        )
    if any(0 < (row.get(of) or 0) < ROUGH_TEXTS for row in figures for of in ("texts", "plausibility_texts")):
        said.append(f"With fewer than {ROUGH_TEXTS} texts, intervals are rough.")
    apart = []
    for metric, name in ((PEOPLE, "F1 top-K"), (MODEL, "AOPC comprehensiveness")):
        tests = [test for task in tasks if (test := task.comparisons.get(metric)) and len(test.methods) > 1]
        upper = [test.outcomes(run.evaluate.significance)[np.triu_indices(len(test.methods), 1)] for test in tests]
        if tests and not any(test.can_differ() for test in tests):
            said.append(f"In {name} no difference can be significant: there are too few texts for so many methods.")
        elif upper:
            pairs = np.concatenate(upper)
            apart.append(f"{np.count_nonzero(pairs):,} of {pairs.size:,} in {name}")
    if apart:
        on = ", counted on each task," if len(tasks) > 1 else ""
        said.append(f"Pairs of methods{on} that differ significantly: {', '.join(apart)}.")
    if said:
        yield Caveat(CaveatKind.SMALL_DIFFERENCES, " ".join(said))


def _like_chance(run: RunFacts, tasks: Sequence[TaskReport]) -> Iterator[Caveat]:
    """Yield caveats on methods, and on figures, in which random scores are not significantly worse."""
    weak = []
    for metric in QUESTIONS:
        better: dict[str, list[bool]] = {}
        for test in (test for task in tasks if (test := task.comparisons.get(metric)) is not None):
            for method in test.methods if "random" in test.methods else ():
                if run.methods[method].family != "chance":
                    outcome = test.outcome(method, "random", run.evaluate.significance)
                    better.setdefault(method, []).append(outcome > 0)
        never = [method for method, outcomes in better.items() if not any(outcomes)]
        if metric == "auroc" and never:
            yield Caveat(
                CaveatKind.LIKE_CHANCE,
                f"{', '.join(never)}. Their AUROC is {'on no task' if len(tasks) > 1 else 'not'} significantly above "
                "that of random scores.",
                never,
            )
        outcomes = [outcome for of_method in better.values() for outcome in of_method]
        if outcomes and fmean(outcomes) < 1 / 4:
            weak.append(f"{CATALOGUE[metric].heading} ({sum(outcomes)} of {len(outcomes)})")
    if weak:
        counted = "how many methods are"
        if len(tasks) > 1:
            counted = "for how many of all pairs of method and task the method is"
        yield Caveat(
            CaveatKind.NO_EVIDENCE,
            f"{', '.join(weak)}. In brackets: {counted} significantly better than random. Do not choose a method by "
            "these figures.",
        )


def _sanity(run: RunFacts, tasks: Sequence[TaskReport]) -> Iterator[Caveat]:
    """Yield caveats on methods whose scores hardly change when all weights are randomised, and on missing checks."""
    results = [task.sanity for task in tasks if task.sanity.get("methods")]
    redrawn: dict[str, list[dict[str, float | None]]] = {}
    for method, checks in (item for result in results for item in result["methods"].items()):
        # After the last part, the embeddings, all weights are randomised.
        redrawn.setdefault(method, []).extend(list(checks["random_model"].values())[-1:])
    students = [name for name, info in run.methods.items() if "teacher" in info.needs]
    known = {*students, *(name for name, info in run.methods.items() if info.family == "chance")}
    rhos = {m: [rho for s in similar if (rho := s["spearman"]) is not None] for m, similar in redrawn.items()}
    kept = {m: fmean(values) for m, values in rhos.items() if values and fmean(values) >= NOTICED and m not in known}
    said = []
    if kept:
        listed = ", ".join(f"{method} ({rho:.2f})" for method, rho in sorted(kept.items(), key=lambda item: -item[1]))
        said.append(
            f"{listed}. When all weights of the classifier are randomised, their rankings hardly change "
            "(mean rank correlation in brackets): they reflect the text, not what the classifier learned."
        )
    if students:
        said.append(
            f"{', '.join(students)} sees only the text and the predicted label, and imitates a teacher: changing "
            "the classifier's weights does not change its scores."
        )
    if said:
        yield Caveat(CaveatKind.UNMOVED, " ".join(said), [*kept, *students])
    if not results:
        sentence = "No sanity check was run, so it is not known whether scores depend on the classifier's weights."
    else:
        texts = sorted({result["texts"] for result in results})
        counts = several(texts[0], "text") if len(texts) == 1 else f"{texts[0]:,} to {texts[-1]:,} texts"
        missing = [m for m in run.methods if m not in known and len(redrawn.get(m, ())) < len(results)]
        but = f", but not for {', '.join(missing)}" if missing else ""
        of = " per task" if len(results) > 1 else ""
        sentence = f"Whether scores depend on the classifier's weights was checked on {counts}{of}{but}."
        if not any(checks["random_labels"] for result in results for checks in result["methods"].values()):
            sentence += " Whether they depend on what it learned (permuted labels) was not checked."
    yield Caveat(CaveatKind.FEW_CHECKS, sentence)


def _confidence(run: RunFacts, tasks: Sequence[TaskReport]) -> Iterator[Caveat]:
    """Yield caveats on classifiers that are much less confident than accurate, or lose confidence on shortened
    texts."""
    unsure, shifted = [], []
    for task in tasks:
        accuracy = task.classifier.get("test", {}).get("accuracy")
        # Confidence on whole texts is the same for all methods.
        shared = [figures for name, figures in task.methods.items() if not run.methods[name].own_model]
        full = next((known for figures in shared if (known := figures.get("confidence_full")) is not None), None)
        if full is None:
            continue
        if accuracy is not None and accuracy - full >= UNSURE:
            unsure.append(f"{task.task} (accuracy {accuracy:.2f}, mean confidence {full:.2f})")
        figures = task.methods.get("random", {})
        shortened = [v for n in ("without", "only", "masked") if (v := figures.get(f"confidence_{n}")) is not None]
        guess = 1 / max(1, len(task.labels))
        if shortened and full > guess and (full - min(shortened)) / (full - guess) >= SHIFT:
            shifted.append(f"{task.task} ({full:.2f} to {min(shortened):.2f})")
    if unsure:
        yield Caveat(
            CaveatKind.UNSURE,
            f"{', '.join(unsure)}. A low probability cannot fall by much: comprehensiveness, sufficiency and AOPC are "
            "small there for every method, and have little weight in means.",
        )
    if shifted:
        yield Caveat(
            CaveatKind.OUT_OF_DISTRIBUTION,
            f"{', '.join(shifted)}. The classifier's mean confidence falls this far on randomly shortened texts, "
            "because it was not trained on such texts. This effect is part of every fall that faithfulness measures, "
            "and the figures cannot separate it from the effect of what is removed.",
        )


def _two_questions(run: RunFacts, tasks: Sequence[TaskReport]) -> Iterator[Caveat]:
    """Yield a caveat on whether the methods that agree with people also agree with the model."""
    first, second = means(run, PEOPLE, tasks), means(run, MODEL, tasks)
    common = [method for method in first if method in second and run.comparable(method, MODEL)]
    pairs = np.array([(first[method], second[method]) for method in common])
    # If all methods have the same figure, there is no order to compare.
    if len(common) < 4 or (np.ptp(pairs, axis=0) == 0).any():
        return
    rho = float(spearmanr(pairs).statistic)
    how = "much the same" if rho >= 0.7 else "partly the same" if rho >= 0.3 else "not the same"
    yield Caveat(
        CaveatKind.TWO_QUESTIONS,
        f"the methods that agree with people and those that agree with the model are {how} (rank correlation of F1 "
        f"top-K and AOPC comprehensiveness over {len(common)} methods: {rho:.2f}). Choose by your question.",
    )

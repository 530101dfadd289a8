"""Comparing teachers with their students on the same texts, after L2E (sections 4.4 to 5).

Under `ranking` an explanation is a text's top words by weight, whatever their sign; both sides have equally many. Under
`labelling` it is the words of positive levels, and those of negative ones; both have equally many of each kind, as many
as the side with fewer has, the best ones by score.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.arrays import Array, Mask
from explearn.core.attribution import filled
from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.errors import DataError
from explearn.core.examples import Example
from explearn.lens.representations import aggregate_states
from explearn.methods.base.targets import judged_targets
from explearn.methods.base.teachers import combine_weights, members
from explearn.methods.finding import find_explainer
from explearn.methods.l2e.explainer import L2E
from explearn.metrics.arrays import levels, mean_where_defined
from explearn.metrics.faithfulness import logit
from explearn.metrics.plausibility import ranking, rationale_k
from explearn.metrics.protocols import top_count
from explearn.metrics.sanity import rank_correlations, top_overlaps
from explearn.metrics.significance import signed_rank_test
from explearn.metrics.stability import lexical_similarity, nearest, semantic_similarity, stability
from explearn.predictors.answers import Answers
from explearn.predictors.encoding import Encoding
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import load_classifier
from explearn.text.alignment import NO_WORD
from explearn.text.sampling import texts_to_explain
from explearn_study.params import Params
from explearn_study.teacher_files import read_lessons
from explearn_study.workspace import Workspace

SIDES = ("teacher", "student", "random")

COMPARED = (
    "agreement",
    "delta_log_odds_positive",
    "delta_log_odds_negative",
    "stability_semantic",
    "stability_lexical",
    "stability_semantic_content",
    "stability_lexical_content",
    "precision",
    "recall",
    "f1",
)
"""Metrics that teacher and student are compared by."""

WARM_UP_TEXTS = 2
"""Texts that the teacher explains before it is timed: first calls load kernels and allocate buffers."""


class ExplainedTexts(NamedTuple):
    """The texts that teacher and students explain.

    Attributes:
        examples: the texts.
        encodings: their encodings.
        targets: the class of each that is explained, by index.
        marked: marked words of each, (words,); None if it is not judged by them.
        neighbours: `semantic` and `lexical` -> (n, k), as `explearn.metrics.stability.nearest` gives them.
        k: number of best words that are compared with the marked ones.
    """

    examples: Sequence[Example]
    encodings: Sequence[Encoding]
    targets: Sequence[int]
    marked: Sequence[Mask | None]
    neighbours: Mapping[str, NDArray[np.intp]]
    k: int


def compare_with_students(
    workspace: Workspace, params: Params, task: str, name: str, compute: ComputeOptions, seed: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Train students of a teacher and compare them with it on the same test texts.

    Students and random words use the run's seed and the following ones.

    Args:
        workspace: the files of the run.
        params: the run's parameters.
        task: name of the task.
        name: the teacher, as l2e's option `teacher` names it.
        compute: where to compute.
        seed: the run's seed.

    Returns:
        Two JSON documents. The figures: task, teacher, texts, formulations (name -> metric -> figures of
        `summarise`) and students (one entry each: formulation, seed, texts, epochs, and
        its fidelity: Spearman's rho with the teacher's word scores, the share of the top 20 % of words in common). The
        costs: seconds (a text: teacher, student, student_classified, classifier) and training (seconds of each
        student).

    Raises:
        DataError: no test text has a word that the classifier reads.
    """
    study = params.studies.students
    assert study is not None
    classifier = load_classifier(workspace.classifier(task), compute)
    lessons = read_lessons([workspace.teacher(task, member) for member in members(name)], classifier.fingerprint)
    training = [example for example in workspace.read_examples(task) if example.split != "test"]
    gold = workspace.read_gold(task, params)
    drawn = texts_to_explain(workspace.read_examples(task, "test"), gold, study.max_texts, seed)
    examples = []
    for example, encoding in zip(drawn, classifier.read(drawn), strict=True):
        if set(encoding.word_ids) - {NO_WORD}:
            examples.append(example)
    if not examples:
        raise DataError(f"task {task!r}: there is no test text to compare on; expected at least one")

    teacher = {}
    for member in members(name):
        teacher[member] = find_explainer(member, params.teachers[member].options, seed=seed)
    for method in teacher.values():
        method.explain(classifier, examples[:WARM_UP_TEXTS])
    classes = judged_targets(classifier, examples)
    explained = {}
    start = time.perf_counter()
    for member, method in teacher.items():
        explained[member] = method.explain(classifier, examples, classes, f"{task}: test texts, {member}")
    teacher_seconds = (time.perf_counter() - start) / len(examples)
    weights = []
    for attributions in zip(*explained.values(), strict=True):
        weights.append(combine_weights([attribution.filled() for attribution in attributions], lessons.signed))
    predicted = [attribution.predicted for attribution in next(iter(explained.values()))]
    texts = _compared_texts(workspace, params, task, classifier, examples, predicted)

    predictions = Answers(classifier)
    options = params.method("l2e").all_options
    students: list[dict[str, Any]] = []
    formulations: dict[str, Any] = {}
    training_seconds: list[float] = []
    times: dict[str, list[float]] = {"student": [], "student_classified": [], "classifier": []}
    for formulation in study.formulations:
        teacher_side = SideScores([np.abs(scores) for scores in weights])
        if formulation == "labelling":
            teacher_side = SideScores(weights, [levels(scores, lessons.signed) for scores in weights])
        by_seed = []
        for draw in range(seed, seed + study.seeds):
            student = L2E(**{**options, "teacher": name, "formulation": formulation, "seed": draw})
            description = f"{task}: {formulation} student {draw - seed + 1}, {name}"
            start = time.perf_counter()
            student.fit_lessons(classifier, training, lessons, description=description)
            training_seconds.append(time.perf_counter() - start)
            read = _read(student, classifier, texts)
            student_side = SideScores([np.asarray(filled(words), dtype=np.float64) for words, _ in read])
            if formulation == "labelling":
                student_side = student_side._replace(levels=[word_levels for _, word_levels in read])
            rng = np.random.default_rng(draw)
            orders = {
                "teacher": teacher_side.scores,
                "student": student_side.scores,
                "random": [rng.random(len(encoding.words)) for encoding in texts.encodings],
            }
            choices = choose(teacher_side, student_side, study.percent, draw)
            by_seed.append(judge(choices, orders, texts, predictions))
            correlations = rank_correlations(teacher_side.scores, student_side.scores)
            overlaps = top_overlaps(teacher_side.scores, student_side.scores)
            students.append(
                {
                    "formulation": formulation,
                    "seed": draw,
                    "texts": student.trained_on["train"],
                    "epochs": student.history,
                    "rank_agreement": mean_where_defined(correlations),
                    "top_overlap": mean_where_defined(overlaps),
                }
            )
            times["student"].append(_seconds(partial(_read, student, classifier, texts)))
            times["student_classified"].append(_seconds(partial(student.explain, classifier, examples)))
            times["classifier"].append(_seconds(lambda: classifier.predict_proba(classifier.read(examples))))
        formulations[formulation] = summarise(by_seed)
    figures = {
        "task": task,
        "teacher": name,
        "texts": len(examples),
        "formulations": formulations,
        "students": students,
    }
    per_text = {part: median(values) / len(examples) for part, values in times.items()}
    return figures, {"seconds": {"teacher": teacher_seconds, **per_text}, "training": training_seconds}


def _compared_texts(
    workspace: Workspace,
    params: Params,
    task: str,
    classifier: Predictor,
    examples: Sequence[Example],
    predicted: Sequence[str],
) -> ExplainedTexts:
    gold = workspace.read_gold(task, params)
    marked: list[Mask | None] = []
    for example, label in zip(examples, predicted, strict=True):
        judged = example.id in gold and label == example.label
        marked.append(np.asarray(gold[example.id], dtype=np.bool_) if judged else None)
    encodings = classifier.read(examples)
    semantic = semantic_similarity(aggregate_states(classifier, encodings))
    lexical = lexical_similarity([encoding.words for encoding in encodings])
    count = params.evaluate.neighbours
    agreement = read_json(workspace.agreement(task))
    return ExplainedTexts(
        examples=examples,
        encodings=encodings,
        targets=[classifier.label_index(label) for label in predicted],
        marked=marked,
        neighbours={"semantic": nearest(semantic, count), "lexical": nearest(lexical, count)},
        k=rationale_k(agreement["mean_length"]),
    )


def _read(student: L2E, classifier: Predictor, texts: ExplainedTexts) -> list[Any]:
    """Return the student's scores and levels of each text's words."""
    return list(student.read_words(classifier, texts.encodings, texts.targets))


def _seconds(run: Callable[[], object]) -> float:
    run()  # first calls load kernels and allocate buffers
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


# ---- figures ---------------------------------------------------------------------------------------------------------


class SideScores(NamedTuple):
    """One side's explanations of n texts.

    Attributes:
        scores: one array (words,) for each text, larger for more evidence (ranking: for more weight).
        levels: L2E's levels, int8, (words,), for each text; None under `ranking`.
    """

    scores: Sequence[Array]
    levels: Sequence[NDArray[np.int8]] | None = None


class ChosenWords(NamedTuple):
    """The words of a text that make its explanation.

    Attributes:
        positive: words for the class, by index.
        negative: words against it.
        levels: int8, (words,); 0 where a word is not chosen.
    """

    positive: list[int]
    negative: list[int]
    levels: NDArray[np.int8]


Choices = tuple[list[ChosenWords], list[ChosenWords], list[ChosenWords]]
"""The words that each of SIDES chooses in each text."""


def choose(teacher: SideScores, student: SideScores, percent: int, seed: int) -> Choices:
    """Choose the words of teacher, student and chance in each text, equally many each.

    Args:
        teacher: the teacher's explanations.
        student: the student's explanations of the same texts.
        percent: share of the words taken under `ranking`.
        seed: seed of the random words; no word is both for and against.
    """
    rng = np.random.default_rng(seed)
    choices: Choices = ([], [], [])
    for text, (a, b) in enumerate(zip(teacher.scores, student.scores, strict=True)):
        scores = [a, b, rng.random(len(a))]
        if teacher.levels is None or student.levels is None:
            count = top_count(len(a), percent)
            against = 0
            orders = [ranking(side) for side in scores]
            marks = [np.ones(len(a), dtype=np.int8) for _ in SIDES]
        else:
            levels = [teacher.levels[text], student.levels[text]]
            count = min(int((side > 0).sum()) for side in levels)
            against = min(int((side < 0).sum()) for side in levels)
            # By chance: as many words of each level as the teacher has.
            marks = [*levels, rng.permutation(levels[0])]
            orders = [np.lexsort((-side, -np.sign(mark))) for side, mark in zip(scores, marks, strict=True)]
        for side, order, mark in zip(choices, orders, marks, strict=True):
            # The first words are those for the class, the last ones those against it.
            positive = order[:count].tolist()
            negative = order[::-1][:against].tolist()
            chosen = np.isin(np.arange(len(mark)), [*positive, *negative])
            side.append(ChosenWords(positive, negative, np.where(chosen, mark, 0).astype(np.int8)))
    return choices


def judge(
    choices: Choices, orders: Mapping[str, Sequence[Array]], texts: ExplainedTexts, predictions: Answers
) -> dict[str, dict[str, Array]]:
    """Return the metrics of teacher, student and chance on each text.

    agreement: 1 where the positive words alone are given the text's own class. `both`: 1 where those of teacher and
    student are given the same class. delta_log_odds_*: logit p(x) - logit p(x with those words masked), NaN where there
    are none. stability_*: as `explearn.metrics.stability.stability`. precision, recall, f1: of the k best words against
    the marked ones.

    Args:
        choices: words of teacher, student and chance.
        orders: side -> scores by which its k best words are chosen.
        texts: the texts.
        predictions: predictions of the classifier that is explained.

    Returns:
        Metric -> side (of SIDES) -> value on each text, (n,), NaN where undefined; and `both` of agreement.
    """
    mask = predictions.predictor.mask_token_id
    full = [predictions.request(encoding) for encoding in texts.encodings]
    only: dict[str, list[Any]] = {}
    masked: dict[tuple[str, str], list[Any]] = {}
    for side, words in zip(SIDES, choices, strict=True):
        pairs = list(zip(texts.encodings, words, strict=True))
        only[side] = [predictions.request(e.keep(chosen.positive)) for e, chosen in pairs]
        masked[side, "positive"] = [predictions.request(e.mask(chosen.positive, mask)) for e, chosen in pairs]
        masked[side, "negative"] = [predictions.request(e.mask(chosen.negative, mask)) for e, chosen in pairs]
    predictions.evaluate("teacher and student")
    p = predictions.probabilities
    targets = p[full].argmax(axis=1)
    classes = {side: p[rows].argmax(axis=1) for side, rows in only.items()}
    words_of_texts = [encoding.words for encoding in texts.encodings]
    values: dict[str, dict[str, Array]] = {name: {} for name in COMPARED}
    for side, words in zip(SIDES, choices, strict=True):
        values["agreement"][side] = (classes[side] == targets).astype(np.float64)
        for name in ("positive", "negative"):
            some = np.array([bool(getattr(chosen, name)) for chosen in words])
            change = logit(p[full], targets) - logit(p[masked[side, name]], targets)
            values[f"delta_log_odds_{name}"][side] = np.where(some, change, np.nan)
        levels = [chosen.levels for chosen in words]
        for kind, near in texts.neighbours.items():
            values[f"stability_{kind}"][side] = stability(levels, words_of_texts, near)
            values[f"stability_{kind}_content"][side] = stability(levels, words_of_texts, near, content_words=True)
        counts = [(np.nan, np.nan, np.nan)] * len(texts.marked)
        for text, marked in enumerate(texts.marked):
            if marked is not None and marked.any():
                best = ranking(orders[side][text])[: texts.k]
                counts[text] = marked[best].sum(), len(best), marked.sum()
        hits, best_words, marked_words = np.array(counts, dtype=np.float64).T
        values["precision"][side] = hits / best_words
        values["recall"][side] = hits / marked_words
        values["f1"][side] = 2 * hits / (best_words + marked_words)
    values["agreement"]["both"] = (classes["teacher"] == classes["student"]).astype(np.float64)
    return values


def summarise(by_seed: Sequence[Mapping[str, Mapping[str, ArrayLike]]]) -> dict[str, dict[str, float | int | None]]:
    """Return metric -> figures, from `judge`'s values for the students of several seeds.

    `teacher`, `student`, `random` and, of agreement, `both`: means over texts and seeds; NAME_error: standard error
    over the texts of the seeds' mean; `seeds_error`: standard error of the student's mean over the seeds (None of one
    seed); `texts`: where both are defined; `p_value`: of Wilcoxon's signed-rank test of student against teacher over
    the texts, not corrected.
    """
    summary: dict[str, dict[str, float | int | None]] = {}
    for name in by_seed[0]:
        figures: dict[str, float | int | None] = {}
        means: dict[str, Array] = {}
        for side in by_seed[0][name]:
            values = np.array([seed[name][side] for seed in by_seed], dtype=np.float64)
            # A text counts where it is defined for every seed.
            means[side] = values.mean(axis=0)
            figures[side] = mean_where_defined(means[side])
            figures[f"{side}_error"] = _standard_error(means[side][~np.isnan(means[side])])
            if side == "student":
                seed_means = [mean_where_defined(row) for row in values]
                figures["seeds_error"] = _standard_error([mean for mean in seed_means if mean is not None])
        differences = means["student"] - means["teacher"]
        figures["texts"] = int((~np.isnan(differences)).sum())
        figures["p_value"] = float(signed_rank_test(differences[None])[0]) if figures["texts"] else None
        summary[name] = figures
    return summary


def _standard_error(values: Sequence[float] | Array) -> float | None:
    """Return the standard error of a mean; None of fewer than two values."""
    count = len(values)
    return float(np.std(values, ddof=1) / np.sqrt(count)) if count > 1 else None

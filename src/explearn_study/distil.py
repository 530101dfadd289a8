"""Comparing teachers with their students on one task: training over formulations and seeds, figures, times."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explearn.core.arrays import Mask
from explearn.core.attribution import filled
from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.errors import DataError
from explearn.core.examples import Example
from explearn.lens.representations import aggregate_states
from explearn.methods.base.targets import judged_targets
from explearn.methods.base.teachers import combine_weights, make_teacher, members
from explearn.methods.l2e.explainer import L2E
from explearn.metrics.arrays import levels, mean_where_defined
from explearn.metrics.plausibility import rationale_k
from explearn.metrics.sanity import rank_correlations, top_overlaps
from explearn.metrics.stability import lexical_similarity, nearest, semantic_similarity
from explearn.predictors.cached import CachedPredictions
from explearn.predictors.encoding import Encoding
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import load_classifier
from explearn.text.alignment import NO_WORD
from explearn.text.sampling import texts_to_explain
from explearn_study.params import Params
from explearn_study.student_figures import SideScores, choose, judge, summarise
from explearn_study.teacher_files import read_lessons
from explearn_study.workspace import Workspace

TIMED_RUNS = 3
"""Timed runs of the student and of the classifier, whose median is used; the teacher is timed once."""

WARM_UP_TEXTS = 2
"""Texts that the teacher explains before it is timed: first calls load kernels and allocate buffers."""


class ComparedTexts(NamedTuple):
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
        `explearn_study.student_figures.summarise`) and students (one entry each: formulation, seed, texts, epochs, and
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
    for example, encoding in zip(drawn, classifier.encode(drawn), strict=True):
        if set(encoding.word_ids) - {NO_WORD}:
            examples.append(example)
    if not examples:
        raise DataError(f"task {task!r}: there is no test text to compare on; expected at least one")

    teacher = make_teacher(name, {member: entry.options for member, entry in params.teachers.items()}, seed)
    for method in teacher.values():
        list(method.explain(classifier, examples[:WARM_UP_TEXTS]))
    classes = judged_targets(classifier, examples)
    explained = {}
    start = time.perf_counter()
    for member, method in teacher.items():
        explained[member] = list(
            method.explain(classifier, examples, classes, description=f"{task}: test texts, {member}")
        )
    teacher_seconds = (time.perf_counter() - start) / len(examples)
    weights = []
    for attributions in zip(*explained.values(), strict=True):
        weights.append(combine_weights([attribution.filled() for attribution in attributions], lessons.signed))
    predicted = [attribution.predicted for attribution in next(iter(explained.values()))]
    texts = _compared_texts(workspace, params, task, classifier, examples, predicted)

    predictions = CachedPredictions(classifier)
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
            student.name = "l2e"
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
            by_seed.append(
                judge(choices, orders, texts.encodings, predictions, texts.neighbours, texts.marked, texts.k)
            )
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
            times["classifier"].append(_seconds(lambda: classifier.predict_proba(classifier.encode(examples))))
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
) -> ComparedTexts:
    gold = workspace.read_gold(task, params)
    marked: list[Mask | None] = []
    for example, label in zip(examples, predicted, strict=True):
        judged = example.id in gold and label == example.label
        marked.append(np.asarray(gold[example.id], dtype=np.bool_) if judged else None)
    encodings = classifier.encode(examples)
    semantic = semantic_similarity(aggregate_states(classifier, encodings))
    lexical = lexical_similarity([encoding.words for encoding in encodings])
    count = params.evaluate.neighbours
    agreement = read_json(workspace.agreement(task))
    return ComparedTexts(
        examples=examples,
        encodings=encodings,
        targets=[classifier.label_index(label) for label in predicted],
        marked=marked,
        neighbours={"semantic": nearest(semantic, count), "lexical": nearest(lexical, count)},
        k=rationale_k(agreement["mean_length"]),
    )


def _read(student: L2E, classifier: Predictor, texts: ComparedTexts) -> list[Any]:
    """Return the student's scores and levels of each text's words."""
    return list(student.read_words(texts.encodings, texts.targets, classifier.max_tokens, classifier.device))


def _seconds(run: Callable[[], object]) -> float:
    run()
    times = []
    for _ in range(TIMED_RUNS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return median(times)

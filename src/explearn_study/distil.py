"""Comparing teachers with their students on one task: training over formulations and seeds, figures, times."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from explearn.predictors.pretrained import load_classifier

from explearn.core.attribution import filled
from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError
from explearn.lens.representations import aggregate_states
from explearn.methods.base.targets import judged_targets
from explearn.methods.base.teachers import combine_weights, make_teacher, members
from explearn.methods.l2e.paper import L2EPaper
from explearn.metrics.context import mean_where_defined
from explearn.metrics.plausibility import rationale_k
from explearn.metrics.predictions import Predictions
from explearn.metrics.sanity import rank_correlations, top_overlaps
from explearn.metrics.stability import levels, lexical_similarity, nearest, semantic_similarity
from explearn.text.alignment import NO_WORD
from explearn.text.sampling import texts_to_explain
from explearn_study.params import Params
from explearn_study.student_figures import SideScores, choose, judge, summarise
from explearn_study.teacher_files import read_lessons
from explearn_study.workspace import Workspace, read_document

TIMED_RUNS = 3
"""Timed runs of the student and of the classifier, whose median is used; the teacher is timed once."""


def compare_with_students(
    workspace: Workspace, params: Params, task: str, name: str, compute: ComputeOptions, seed: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Train students of the teacher `name` and compare them with it on the same test texts.

    Students and random words use the run's seed and the following ones.

    Returns two JSON documents. The figures: task, teacher, texts, formulations (name -> metric -> figures of
    `explearn_study.student_figures.summarise`) and students (one entry each: formulation, seed, texts, epochs, and its
    fidelity: Spearman's rho with the teacher's word scores, the share of the top 20 % of words in common). The costs:
    seconds (a text: teacher, student, student_classified, classifier) and training (seconds of each student).

    Raises DataError if no test text has a word that the classifier reads.
    """
    classifier = load_classifier(workspace.classifier(task), compute)
    lessons = read_lessons([workspace.teacher(task, member) for member in members(name)], classifier.fingerprint)
    study = params.studies.students
    assert study is not None
    options = params.method("l2e_paper").all_options
    teacher = make_teacher(name, {member: entry.options for member, entry in params.teachers.items()}, seed)
    gold = workspace.read_gold(task, params)
    k = rationale_k(read_document(workspace.agreement(task), dict[str, Any], "rationalise")["mean_length"])
    training = [example for example in workspace.read_examples(task) if example.split != "test"]
    tests = texts_to_explain(workspace.read_examples(task, "test"), gold, study.max_texts, seed)
    tests = [e for e, code in zip(tests, classifier.encode(tests), strict=True) if set(code.word_ids) - {NO_WORD}]
    if not tests:
        raise DataError(f"task {task!r}: there is no test text to compare on; expected at least one")
    encodings = classifier.encode(tests)

    for method in teacher.values():
        list(method.explain(classifier, tests[:2]))  # first calls load kernels and allocate buffers
    wanted = judged_targets(classifier, tests)
    start = time.perf_counter()
    explained = {
        member: list(method.explain(classifier, tests, wanted, description=f"{task}: test texts, {member}"))
        for member, method in teacher.items()
    }
    seconds = {"teacher": (time.perf_counter() - start) / len(tests)}
    of_texts = zip(*explained.values(), strict=True)
    weights = [combine_weights([one.filled() for one in of_members], lessons.signed) for of_members in of_texts]
    predicted = [attribution.predicted for attribution in next(iter(explained.values()))]
    targets = [classifier.label_index(label) for label in predicted]
    judged = [
        np.asarray(gold[example.id], dtype=np.bool_) if example.id in gold and label == example.label else None
        for example, label in zip(tests, predicted, strict=True)
    ]
    neighbours = {
        "semantic": nearest(semantic_similarity(aggregate_states(classifier, encodings)), params.evaluate.neighbours),
        "lexical": nearest(lexical_similarity([e.words for e in encodings]), params.evaluate.neighbours),
    }

    predictions = Predictions(classifier)
    where = (classifier.max_tokens, classifier.device)
    students: list[dict[str, Any]] = []
    formulations: dict[str, Any] = {}
    training_seconds: list[float] = []
    times: list[tuple[float, float, float]] = []
    for formulation in study.formulations:
        of_teacher = SideScores([np.abs(of_text) for of_text in weights])
        if formulation == "labelling":
            of_teacher = SideScores(weights, [levels(of_text, lessons.signed) for of_text in weights])
        by_seed = []
        for draw in range(seed, seed + study.seeds):
            student = L2EPaper(**{**options, "teacher": name, "formulation": formulation, "seed": draw})
            student.name = "l2e_paper"
            description = f"{task}: {formulation} student {draw - seed + 1}, {name}"
            start = time.perf_counter()
            student.fit_lessons(classifier, training, lessons, description=description)
            training_seconds.append(time.perf_counter() - start)
            read = student.read_words(encodings, targets, *where)
            of_student = SideScores(
                [np.asarray(filled(of_text), dtype=np.float64) for of_text, _ in read],
                [of_text for _, of_text in read] if formulation == "labelling" else None,
            )
            sides = {"teacher": of_teacher.scores, "student": of_student.scores}
            students.append(
                {
                    "formulation": formulation,
                    "seed": draw,
                    "texts": student.trained_on["train"],
                    "epochs": student.history,
                    "rank_agreement": mean_where_defined(rank_correlations(of_teacher.scores, of_student.scores)),
                    "top_overlap": mean_where_defined(top_overlaps(of_teacher.scores, of_student.scores)),
                }
            )
            rng = np.random.default_rng(draw)
            orders = {**sides, "random": [rng.random(len(e.words)) for e in encodings]}
            choices = choose(of_teacher, of_student, study.percent, draw)
            by_seed.append(judge(choices, orders, encodings, predictions, neighbours, judged, k))
            times.append(
                (
                    _seconds(student.read_words, encodings, targets, *where),
                    _seconds(lambda student: list(student.explain(classifier, tests)), student),
                    _seconds(lambda: classifier.predict_proba(classifier.encode(tests))),
                )
            )
        formulations[formulation] = summarise(by_seed)
    for side, of_side in zip(("student", "student_classified", "classifier"), zip(*times, strict=True), strict=True):
        seconds[side] = median(of_side) / len(tests)
    figures = {"task": task, "teacher": name, "texts": len(tests), "formulations": formulations, "students": students}
    return figures, {"seconds": seconds, "training": training_seconds}


def _seconds(run: Callable[..., object], *arguments: object) -> float:
    run(*arguments)
    times = []
    for _ in range(TIMED_RUNS):
        start = time.perf_counter()
        run(*arguments)
        times.append(time.perf_counter() - start)
    return median(times)

"""Comparing teachers with their students on the same texts, after L2E (sections 4.4 to 5).

All sides are judged by `explearn.evaluate`. Under `ranking` an explanation is the order of a text's words by weight,
whatever its sign; under `labelling` the sign counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from explearn.core.attribution import Attribution
from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.errors import DataError
from explearn.core.examples import Example
from explearn.evaluation.result import Evaluation
from explearn.evaluation.run import EvaluateOptions, evaluate
from explearn.methods.base.targets import judged_targets
from explearn.methods.base.teachers import Lessons, lessons_of, members
from explearn.methods.finding import find_explainer
from explearn.methods.l2e.explainer import L2E
from explearn.metrics.plausibility import rationale_k
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import load_classifier
from explearn.text.alignment import NO_WORD
from explearn.text.sampling import texts_to_explain
from explearn_study.explaining import WARM_UP_TEXTS
from explearn_study.params import Params
from explearn_study.sections import COMPARED, RANDOM, TEACHER
from explearn_study.teacher_files import read_lessons
from explearn_study.workspace import Workspace


def compare_with_students(
    workspace: Workspace, params: Params, task: str, name: str, compute: ComputeOptions, seed: int
) -> Iterator[tuple[str, Evaluation, dict[str, Any]]]:
    """Train students of a teacher and judge them beside it, and beside random scores, on the same test texts.

    Students use the run's seed and the following ones.

    Args:
        workspace: the files of the run.
        params: the run's parameters.
        task: name of the task.
        name: the teacher, as l2e's option `teacher` names it.
        compute: where to compute.
        seed: the run's seed.

    Yields:
        For each formulation its name, the evaluation, and a JSON document of costs: seconds (a text: teacher, student,
        student_classified, classifier) and training (seconds of each student).

    Raises:
        DataError: no test text has a word that the classifier reads.
    """
    study = params.studies.students
    assert study is not None
    classifier = load_classifier(workspace.classifier(task), compute)
    lessons = read_lessons([workspace.teacher(task, member) for member in members(name)], classifier.fingerprint)
    marked = workspace.read_gold(task, params)
    drawn = texts_to_explain(workspace.read_examples(task, "test"), marked, study.max_texts, seed)
    examples = []
    for example, encoding in zip(drawn, classifier.read(drawn), strict=True):
        if set(encoding.word_ids) - {NO_WORD}:
            examples.append(example)
    if not examples:
        raise DataError(f"task {task!r}: there is no test text to compare on; expected at least one")
    agreement = read_json(workspace.agreement(task))
    options = EvaluateOptions(
        params=params.evaluate.model_copy(update={"headline_percent": study.percent}),
        seed=seed,
        task=task,
        k=rationale_k(agreement["mean_length"]),
        facts={"notes": {TEACHER: {"name": name}}},
    )
    gold = {example.id: marked[example.id] for example in examples if example.id in marked}
    classes = judged_targets(classifier, examples)
    random = list(find_explainer(RANDOM, seed=seed).explain(classifier, examples, classes))
    taught, seconds = explain_as_teacher(params, name, classifier, examples, random, seed)
    training = [example for example in workspace.read_examples(task) if example.split != "test"]
    for formulation in study.formulations:
        seeds = range(seed, seed + study.seeds)
        students, times = train_students(params, name, formulation, classifier, training, lessons, seeds)
        sides: dict[str, list[Attribution]] = {TEACHER: taught, RANDOM: random}
        for side, student in students.items():
            sides[side] = list(student.explain(classifier, examples, classes))
        if formulation == "ranking":
            for side, attributions in sides.items():
                sides[side] = [replace(text, scores=np.abs(text.scores), signed=False) for text in attributions]
        evaluation = evaluate(classifier, sides, gold, COMPARED, texts=examples, options=options)
        timed = time_sides(students[str(seed)], classifier, examples)
        yield formulation, evaluation, {"seconds": {"teacher": seconds, **timed}, "training": times}


def explain_as_teacher(
    params: Params,
    name: str,
    classifier: Predictor,
    examples: Sequence[Example],
    like: Sequence[Attribution],
    seed: int,
) -> tuple[list[Attribution], float]:
    """Return a teacher's explanations, of an ensemble the combined ones, and its seconds for a text.

    They are those of another method (`like`) with the teacher's scores.
    """
    teacher = {}
    for member in members(name):
        teacher[member] = find_explainer(member, params.teachers[member].options, seed=seed)
    for method in teacher.values():
        method.explain(classifier, examples[:WARM_UP_TEXTS])
    start = time.perf_counter()
    lessons = lessons_of(teacher, classifier, {"test": examples})
    seconds = (time.perf_counter() - start) / len(examples)
    taught = []
    for attribution, lesson in zip(like, lessons.by_split["test"], strict=True):
        scores = np.where(attribution.read, lesson.weights, np.nan).astype(np.float32)
        taught.append(replace(attribution, scores=scores, signed=lessons.signed))
    return taught, seconds


def train_students(
    params: Params,
    name: str,
    formulation: str,
    classifier: Predictor,
    training: Sequence[Example],
    lessons: Lessons,
    seeds: Sequence[int],
) -> tuple[dict[str, L2E], list[float]]:
    """Train a student with each seed; return them by seed, and the seconds that each training took."""
    options = params.method("l2e").all_options
    students = {}
    seconds = []
    for seed in seeds:
        student = L2E(**{**options, "teacher": name, "formulation": formulation, "seed": seed})
        start = time.perf_counter()
        student.fit_lessons(classifier, training, lessons, description=f"{formulation} student of {name}, seed {seed}")
        seconds.append(time.perf_counter() - start)
        students[str(seed)] = student
    return students, seconds


def time_sides(student: L2E, classifier: Predictor, examples: Sequence[Example]) -> dict[str, float]:
    """Return seconds for a text: of the student alone, with the classifier's pass, and of the classifier alone."""
    encodings = classifier.read(examples)
    targets = [classifier.label_index(label) for label in classifier.predict(examples)]
    sides: Mapping[str, Callable[[], object]] = {
        "student": partial(student.read_words, classifier, encodings, targets),
        "student_classified": partial(student.explain, classifier, examples),
        "classifier": lambda: classifier.predict_proba(classifier.read(examples)),
    }
    seconds = {}
    for side, run in sides.items():
        run()  # first calls load kernels and allocate buffers
        start = time.perf_counter()
        run()
        seconds[side] = (time.perf_counter() - start) / len(examples)
    return seconds

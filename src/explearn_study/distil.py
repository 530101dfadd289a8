"""Teachers against their students on one task: training over formulations and seeds, figures, times."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.errors import DataError
from explearn.core.records import Example, filled
from explearn.judge.predictions import Predictions
from explearn.judge.stability import levels, lexical_similarity, nearest, semantic_similarity
from explearn.lens.representations import aggregate_states
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.targets import judged_targets
from explearn.methods.base.task import Lessons
from explearn.methods.base.teachers import combine_weights
from explearn.methods.l2e.explainer import L2E
from explearn.model.classifier import Classifier
from explearn.model.encoding import Encoding
from explearn.text.alignment import NO_WORD
from explearn_study.params import Params
from explearn_study.student_figures import SideScores, choose, judge, summarise

TIMED_RUNS = 3
"""Of the student and of the classifier, whose median is taken; the teacher is timed once."""


@dataclass(frozen=True, slots=True, eq=False)
class ComparedTexts:
    """The test texts that students and teacher are compared on.

    Attributes:
        examples, encodings: as the classifier reads them.
        targets: indices of the predicted classes. weights: what the teacher says, (words,) a text.
        judged: marked words, bool (words,), None for texts that do not count.
        neighbours: kind (semantic, lexical) -> most similar texts of each text; see `metrics.stability.nearest`.
    """

    examples: Sequence[Example]
    encodings: Sequence[Encoding]
    targets: Sequence[int]
    weights: Sequence[NDArray[np.float64]]
    judged: Sequence[NDArray[np.bool_] | None]
    neighbours: Mapping[str, Any]


def compare_with_students(
    name: str,
    teacher: Mapping[str, Explainer],
    lessons: Lessons,
    classifier: Classifier,
    training: Sequence[Example],
    tests: Sequence[Example],
    gold: Mapping[str, ArrayLike],
    k: int,
    params: Params,
    seed: int,
    task: str,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Train students of one teacher and set them against it on the same texts.

    Args:
        name: of the teacher.
        teacher: its members by name, ready to explain; one, unless it is an ensemble.
        lessons: what it says of the training texts.
        training: examples of the splits train and validation.
        tests: texts to compare on.
        gold: by id, marked words.
        k: words compared with the marked ones.
        params: of the students (`l2e`), of the comparison (`distil`), and `evaluate.neighbours`.
        seed: of the first student, the next being one more; and of the random words.
        task: name, for progress bars.

    Returns two JSON documents. What was found: task, teacher, texts, formulations (name -> metric -> figures of
    `explearn_study.student_figures.summarise`) and students (one entry each: formulation, seed, texts, epochs). What
    it cost: seconds (a text: teacher, student, student_classified, classifier) and training (seconds of each student).

    Raises DataError where no test text has a word that the classifier sees.
    """
    texts, teacher_seconds = _explained_by(teacher, lessons, classifier, tests, gold, params.evaluate.neighbours, task)
    predictions = Predictions(classifier)
    students: list[dict[str, Any]] = []
    formulations: dict[str, Any] = {}
    training_seconds: list[float] = []
    times: list[list[float]] = []
    for formulation in params.distil.formulations:
        ranking_order = params.section("l2e").ranking_order
        of_teacher = _teacher_side(texts.weights, lessons.signed, formulation, ranking_order)
        by_seed = []
        for number in range(params.distil.seeds):
            options = {**params.options_of("l2e"), "teacher": name, "formulation": formulation, "seed": seed + number}
            student = L2E(**options)
            student.name = "l2e"
            start = time.perf_counter()
            student.fit_lessons(
                classifier, training, lessons, description=f"{task}: {formulation} student {number + 1}, {name}"
            )
            training_seconds.append(time.perf_counter() - start)
            students.append(
                {
                    "formulation": formulation,
                    "seed": seed + number,
                    "texts": student.trained_on["train"],
                    "epochs": [asdict(epoch) for epoch in student.history],
                }
            )
            of_student = _student_side(student, classifier, texts)
            choices = choose(of_teacher, of_student, params.distil.percent, seed + number)
            rng = np.random.default_rng(seed + number)
            orders = {
                "teacher": of_teacher.scores,
                "student": of_student.scores,
                "random": [rng.random(len(e.words)) for e in texts.encodings],
            }
            by_seed.append(judge(choices, orders, texts.encodings, predictions, texts.neighbours, texts.judged, k))
            times.append(
                [
                    _seconds(
                        student.word_scores, texts.encodings, texts.targets, classifier.max_tokens, classifier.device
                    ),
                    _seconds(lambda student: list(student.explain(classifier, texts.examples)), student),
                    _seconds(lambda: classifier.predict_proba(classifier.encode(texts.examples))),
                ]
            )
        formulations[formulation] = summarise(by_seed)
    count = len(texts.examples)
    seconds = {"teacher": teacher_seconds}
    for side, of_side in zip(("student", "student_classified", "classifier"), zip(*times, strict=True), strict=True):
        seconds[side] = median(of_side) / count
    figures = {"task": task, "teacher": name, "texts": count, "formulations": formulations, "students": students}
    return figures, {"seconds": seconds, "training": training_seconds}


def _explained_by(
    teacher: Mapping[str, Explainer],
    lessons: Lessons,
    classifier: Classifier,
    tests: Sequence[Example],
    gold: Mapping[str, ArrayLike],
    neighbours: int,
    task: str,
) -> tuple[ComparedTexts, float]:
    """The texts with words, explained by the teacher, and its seconds for one of them."""
    encodings = classifier.encode(tests)
    kept = [i for i, encoding in enumerate(encodings) if set(encoding.word_ids) - {NO_WORD}]
    if not kept:
        raise DataError(f"task {task!r}: there is no test text to compare on; expected at least one")
    tests, encodings = [tests[i] for i in kept], [encodings[i] for i in kept]
    for method in teacher.values():
        list(method.explain(classifier, tests[:2]))
    targets = judged_targets(classifier, tests)
    start = time.perf_counter()
    explained = {
        member: list(method.explain(classifier, tests, targets, description=f"{task}: test texts, {member}"))
        for member, method in teacher.items()
    }
    seconds = (time.perf_counter() - start) / len(tests)
    predicted = next(iter(explained.values()))
    judged = [
        np.asarray(gold[example.id], dtype=np.bool_)
        if example.id in gold and attribution.predicted == example.label
        else None
        for example, attribution in zip(tests, predicted, strict=True)
    ]
    texts = ComparedTexts(
        examples=tests,
        encodings=encodings,
        targets=[classifier.label_index(attribution.predicted) for attribution in predicted],
        weights=[
            combine_weights([explained[m][i].filled() for m in teacher], lessons.signed) for i in range(len(tests))
        ],
        judged=judged,
        neighbours={
            "semantic": nearest(semantic_similarity(aggregate_states(classifier, encodings)), neighbours),
            "lexical": nearest(lexical_similarity([e.words for e in encodings]), neighbours),
        },
    )
    return texts, seconds


def _student_side(student: L2E, classifier: Classifier, texts: ComparedTexts) -> SideScores:
    where = (classifier.max_tokens, classifier.device)
    scores = student.word_scores(texts.encodings, texts.targets, *where)
    levels_of = None
    if student.options.formulation == "labelling":
        levels_of = student.word_levels(texts.encodings, texts.targets, *where)
    return SideScores([np.asarray(filled(of_text), dtype=np.float64) for of_text in scores], levels_of)


def _teacher_side(
    weights: Sequence[NDArray[np.float64]], signed: bool, formulation: str, ranking_order: str
) -> SideScores:
    if formulation == "labelling":
        return SideScores(weights, [levels(of_text, signed) for of_text in weights])
    return SideScores([np.abs(of_text) for of_text in weights] if ranking_order == "magnitude" else weights)


def _seconds(run: Callable[..., object], *arguments: object) -> float:
    run(*arguments)
    times = []
    for _ in range(TIMED_RUNS):
        start = time.perf_counter()
        run(*arguments)
        times.append(time.perf_counter() - start)
    return median(times)

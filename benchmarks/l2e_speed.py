"""How much faster a student of L2E is than its teachers, with the class given and with the classifier's pass counted.

    python benchmarks/l2e_speed.py [--classifier FOLDER] [--texts FILE.jsonl] [--count 32] [--runs 5]

All explain the same texts through the same classifier. Runs alternate, so that a drift of the machine's speed touches
both sides; ratios are taken pair by pair. A student's weights play no part in its speed, so an untrained one of the
default size serves. `L2E.read_words` is given tokenised texts; teachers, and the student with the classifier,
start from strings. Exits with 1 where a ratio with the class given is below its limit.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
import transformers

from _timing import CORPUS, load_classifier, load_texts, paired
from explearn.core.examples import Example
from explearn.methods.base.teachers import Lesson, Lessons
from explearn.methods.l2e.explainer import L2E
from explearn.methods.registry import get_explainer
from explearn.predictors.predictor import Predictor

LIMITS = {"input_x_gradient": 5.0, "lime": 500.0}
"""Teacher -> least ratio with the class given."""


def untrained_student(classifier: Predictor, texts: list[str]) -> L2E:
    """One epoch on made-up scores of a few texts."""
    rows = [Example(str(i), tuple(text.split()), "x", "train", "x") for i, text in enumerate(texts[:4])]
    lessons = [Lesson(row.id, classifier.labels[0], torch.linspace(-1, 1, len(row.words)).numpy()) for row in rows]
    return L2E(epochs=1).fit_lessons(classifier, rows, Lessons({"train": lessons}, signed=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classifier", type=Path, help="folder of a classifier (default: the embedded encoder)")
    parser.add_argument("--texts", type=Path, default=CORPUS)
    parser.add_argument("--count", type=int, default=32)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--lime-samples", type=int, default=1000)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    classifier = load_classifier(options.classifier, options.device)
    texts = load_texts(options.texts, options.count)
    student = untrained_student(classifier, texts)
    encodings = classifier.read(texts)
    targets = classifier.predict_proba(encodings).argmax(-1).tolist()
    print(
        f"torch {torch.__version__}, transformers {transformers.__version__}, {classifier.device}, "
        f"{torch.get_num_threads()} threads, {len(texts)} texts of {sum(map(len, encodings)) / len(texts):.0f} "
        f"sub-tokens, {options.runs} paired runs"
    )

    def given() -> object:
        return student.read_words(classifier, encodings, targets)

    def classified() -> object:
        return list(student.explain(classifier, texts))

    given(), classified()
    plain = paired(lambda: classifier.predict_proba(encodings), given, options.runs)
    print(f"classifier over student, class given: {plain}")
    failed = False
    teachers = {"input_x_gradient": {}, "full_lrp": {}, "occlusion": {}, "lime": {"samples": options.lime_samples}}
    for name, arguments in teachers.items():
        teacher = get_explainer(name, **arguments)
        list(teacher.explain(classifier, texts[:2]))

        def teach(teacher: object = teacher) -> object:
            return list(teacher.explain(classifier, texts))  # type: ignore[attr-defined]

        alone = paired(teach, given, options.runs)
        print(f"{name} over student, class given: {alone}")
        print(f"{name} over student with the classifier's pass: {paired(teach, classified, options.runs)}")
        failed |= alone.median < LIMITS.get(name, 0.0)
    sys.exit(failed)


if __name__ == "__main__":
    main()

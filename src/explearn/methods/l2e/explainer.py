"""L2E as an explainer: options, training from the files of a task, scores, and files of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from explearn.core.errors import DataError, UnsupportedError
from explearn.core.records import Example
from explearn.core.seeds import hash_order
from explearn.methods.base.explainer import BatchExplainer, BatchScores, resolve_targets
from explearn.methods.base.learned import LearnedExplainer, TrainedState
from explearn.methods.base.task import Lesson, Lessons, TaskData, check_task
from explearn.methods.base.teachers import members
from explearn.methods.info import About
from explearn.methods.l2e.losses import LEVELS
from explearn.methods.l2e.params import L2EParams
from explearn.methods.l2e.student import Student, initialise, principal_embeddings
from explearn.methods.l2e.training import (
    StudentEpoch,
    StudentLesson,
    collate,
    inside,
    student_lesson,
    student_text,
    token_scores,
    train,
)
from explearn.model.batching import budget_batches
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch, Encoding
from explearn.text.alignment import NO_WORD, aggregate


class L2E(LearnedExplainer, BatchExplainer):
    """A small Transformer that has learned another method's explanations of the training texts.

    L2E, sections 3 and 4.3. The student is a Transformer encoder over the classifier's sub-tokens, with the label token
    of the explained class before and after the text. It never looks into the classifier: given the class, one pass of
    the student explains a text (`word_scores`); `explain` also classifies, to know the class and its probability.

    Formulation `labelling`: the teacher's word scores become five levels, high / low negative, neutral, low / high
    positive, high being beyond the mean of the text's positive (negative) scores; all pieces of a word are to be given
    its level, by cross-entropy. A sub-token's score is the expected level, sum over l of l Pr(l), in [-2, 2].

    Formulation `ranking`: of each pair of sub-tokens the one that weighs more with the teacher is to score higher, by
    the pairwise logistic loss; the score is e^v over its sum over the text's sub-tokens, so that they sum to 1. Either
    way a word's score is that of its best piece.

    `signed` is the teacher's under `labelling`; rank scores have no sign.

    Options: `L2EParams`. The seed decides the initial weights, dropout and the order of the texts.
    """

    about = About(
        name="l2e",
        family="learned",
        cost="one forward pass, and one of its student, a smaller Transformer",
        needs=frozenset({"teacher"}),
        uncounted=True,
    )
    aggregation = "max"
    Options = L2EParams
    options: L2EParams
    weights_file = "student.safetensors"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        members(self.options.teacher)
        self.signed = False
        self.student: Student | None = None
        self.classifier = ""
        self.vocabulary = 0
        self.classes = 0
        self.trained_on = {"train": 0, "validation": 0}
        self.history: list[StudentEpoch] = []

    # ---- training ------------------------------------------------------------------------------------------------

    def fit(self, task: TaskData, *, description: str | None = None) -> Self:
        """Train on what the teacher says of a task's training and validation texts.

        Raises DataError where it says nothing, or a lesson does not fit its text.
        """
        check_task(task)
        lessons = task.lessons(self.options.teacher)
        return self.fit_lessons(task.classifier, task.examples(), lessons, description=description)

    def fit_lessons(
        self,
        classifier: Classifier,
        examples: Sequence[Example],
        lessons: Lessons,
        device: torch.device | None = None,
        description: str | None = None,
    ) -> Self:
        """Train a student of one classifier.

        Args:
            classifier: what the teacher explained; it is read for its tokenizer and its word embeddings alone.
            examples: the texts of the lessons; others among them are not used.
            lessons: the teacher's scores; the split `train` is learned from, `validation` ends the training.
            device: where to train (default: the classifier's).

        Raises DataError where there is nothing to learn from, or a lesson does not fit its text.
        """
        self.signed = lessons.signed and self.options.formulation == "labelling"
        self.classifier = classifier.fingerprint
        table: Any = classifier.model.get_input_embeddings().weight
        self.vocabulary = len(table)
        self.classes = len(classifier.labels)
        by_id = {example.id: example for example in examples}
        taught = lessons.by_split.get("train", [])
        if self.options.max_texts is not None and len(taught) > self.options.max_texts:
            chosen = set(
                hash_order((lesson.example_id for lesson in taught), self.options.seed)[: self.options.max_texts]
            )
            taught = [lesson for lesson in taught if lesson.example_id in chosen]
        training = self._student_lessons(classifier, by_id, taught, lessons.signed)
        if not training:
            raise DataError(f"teacher {self.options.teacher!r} explains no training text; expected some to learn from")
        validation = self._student_lessons(classifier, by_id, lessons.by_split.get("validation", []), lessons.signed)
        self.trained_on = {"train": len(training), "validation": len(validation)}
        student = self._build()
        initialise(student, self.options.seed)
        if self.options.embeddings == "classifier":
            student.embeddings.weight.data.copy_(principal_embeddings(table, self.options.width))
        student.embeddings.requires_grad_(self.options.train_embeddings)
        self.history = train(
            student, training, validation, self.options, self.options.seed, device or classifier.device, description
        )
        self.student = student
        return self

    def _student_lessons(
        self, classifier: Classifier, by_id: dict[str, Example], lessons: Sequence[Lesson], signed: bool
    ) -> list[StudentLesson]:
        for lesson in lessons:
            example = by_id.get(lesson.example_id)
            if example is None or len(example.all_words) != len(lesson.weights):
                words = "no such text" if example is None else f"a text of {len(example.all_words)} words"
                raise DataError(
                    f"teacher {self.options.teacher!r}, example {lesson.example_id!r}: {len(lesson.weights)} word "
                    f"scores for {words}; expected one a word, run the stage teach again"
                )
        encodings = classifier.encode([by_id[lesson.example_id] for lesson in lessons])
        magnitude = self.options.formulation == "ranking" and self.options.ranking_order == "magnitude"
        found = [
            student_lesson(
                encoding, classifier.label_index(lesson.target), lesson.weights, signed, magnitude, self.vocabulary
            )
            for encoding, lesson in zip(encodings, lessons, strict=True)
        ]
        return [lesson for lesson in found if (lesson.owner != NO_WORD).any()]

    def _build(self) -> Student:
        return Student(
            self.vocabulary,
            self.classes,
            1 if self.options.formulation == "ranking" else len(LEVELS),
            self.options.layers,
            self.options.heads,
            self.options.width,
            self.options.feedforward,
            self.options.window,
            self.options.dropout,
        )

    # ---- explaining ----------------------------------------------------------------------------------------------

    def check(self, classifier: Classifier) -> None:
        if self.student is None:
            raise self._untrained()
        if classifier.fingerprint != self.classifier:
            raise UnsupportedError(
                "this L2E has learned to explain another classifier, and does not look at the one given; "
                "train one from explanations of this classifier"
            )

    @torch.inference_mode()
    def score_batch(self, classifier: Classifier, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        logits = classifier.logits(batch)
        chosen = resolve_targets(logits, targets)
        with classifier.autocast():
            found = self._scores(batch.encodings, chosen.tolist(), classifier.device)
        scores = torch.zeros(batch.input_ids.shape)
        for row, (of_text, encoding) in enumerate(zip(found, batch.encodings, strict=True)):
            scores[row, : len(encoding)] = torch.from_numpy(of_text)
        return BatchScores(scores, logits, chosen)

    def _scores(
        self, encodings: Sequence[Encoding], targets: Sequence[int], device: torch.device
    ) -> list[NDArray[np.float32]]:
        """Scores of all positions of each encoding, 0 outside the text."""
        found = []
        outputs, real, texts = self._outputs(encodings, targets, device)
        scores = token_scores(outputs, real, self.options.formulation).cpu().numpy()
        for row, (encoding, (first, length)) in enumerate(zip(encodings, texts, strict=True)):
            of_text = np.zeros(len(encoding), dtype=np.float32)
            of_text[first : first + length] = scores[row, 1 : 1 + length]
            found.append(of_text)
        return found

    def _outputs(
        self, encodings: Sequence[Encoding], targets: Sequence[int], device: torch.device
    ) -> tuple[torch.Tensor, torch.Tensor, list[tuple[int, int]]]:
        """The student's outputs, which of them are of sub-tokens, and where each text's begin and how many they are."""
        assert self.student is not None
        if self.student.head.weight.device != device:
            self.student = self.student.to(device)
        texts = [student_text(e, target, self.vocabulary) for e, target in zip(encodings, targets, strict=True)]
        ids, lengths = collate([text.ids for text in texts], device)
        where = [(text.first, len(text.ids) - 2) for text in texts]
        return self.student(ids, lengths), inside(lengths, ids.shape[1]), where

    @torch.inference_mode()
    def word_scores(
        self,
        encodings: Sequence[Encoding],
        targets: Sequence[int],
        max_tokens: int = 4096,
        device: torch.device | None = None,
    ) -> list[NDArray[np.float32]]:
        """Word scores from the student alone, for classes already known: no pass of the classifier.

        Args:
            encodings: as `Classifier.encode` gives them. targets: index of the class to explain, for each.
            max_tokens: most sub-tokens a batch, padding included. device: where to compute (default: the CPU).

        Returns one array (words,) a text, NaN for words without a piece. Raises ModelError for a student that is not
        trained.
        """
        if self.student is None:
            raise self._untrained()
        results: dict[int, NDArray[np.float32]] = {}
        for indices in budget_batches([len(e) for e in encodings], max_tokens):
            rows = [encodings[i] for i in indices]
            found = self._scores(rows, [targets[i] for i in indices], device or torch.device("cpu"))
            for index, encoding, scores in zip(indices, rows, found, strict=True):
                results[index], _ = aggregate(scores, encoding.word_ids, len(encoding.words), self.aggregation)
        return [results[i] for i in range(len(encodings))]

    @torch.inference_mode()
    def word_levels(
        self,
        encodings: Sequence[Encoding],
        targets: Sequence[int],
        max_tokens: int = 4096,
        device: torch.device | None = None,
    ) -> list[NDArray[np.int8]]:
        """The level that the student finds most probable for each word: that of the piece which gives it its score.

        Words without a piece are neutral. Arguments and result as of `word_scores`. Raises ModelError for a student
        that is not trained, UnsupportedError for one that ranks.
        """
        if self.student is None:
            raise self._untrained()
        if self.options.formulation != "labelling":
            raise UnsupportedError("this L2E ranks words and knows no levels; train one with formulation 'labelling'")
        results: dict[int, NDArray[np.int8]] = {}
        for indices in budget_batches([len(e) for e in encodings], max_tokens):
            rows = [encodings[i] for i in indices]
            outputs, real, texts = self._outputs(rows, [targets[i] for i in indices], device or torch.device("cpu"))
            expected = token_scores(outputs, real, self.options.formulation).cpu().numpy()
            likeliest = outputs.argmax(-1).cpu().numpy() + LEVELS[0]
            for row, (index, encoding, (first, length)) in enumerate(zip(indices, rows, texts, strict=True)):
                owner = np.asarray(encoding.word_ids[first : first + length], dtype=np.int64)
                found = np.zeros(len(encoding.words), dtype=np.int8)
                pieces = np.flatnonzero(owner != NO_WORD)
                # From the lowest score up, so that a word's best piece has the last word.
                pieces = pieces[np.argsort(expected[row, 1 : 1 + length][pieces], kind="stable")]
                found[owner[pieces]] = likeliest[row, 1 : 1 + length][pieces]
                results[index] = found
        return [results[i] for i in range(len(encodings))]

    # ---- files ---------------------------------------------------------------------------------------------------

    def _state(self) -> TrainedState:
        if self.student is None:
            raise self._untrained()
        record = {
            "signed": self.signed,
            "classifier": self.classifier,
            "vocabulary": self.vocabulary,
            "classes": self.classes,
            "trained_on": self.trained_on,
            "history": [asdict(epoch) for epoch in self.history],
        }
        return TrainedState(self.student.state_dict(), record)

    def _restore(self, state: TrainedState, folder: Path) -> None:
        record = state.record
        self.signed = bool(record["signed"])
        self.classifier = str(record["classifier"])
        self.vocabulary = int(record["vocabulary"])
        self.classes = int(record["classes"])
        self.trained_on = dict(record["trained_on"])
        self.history = [StudentEpoch(**epoch) for epoch in record["history"]]
        self.student = self._build()
        self.student.load_state_dict(dict(state.tensors))
        self.student.requires_grad_(False).eval()

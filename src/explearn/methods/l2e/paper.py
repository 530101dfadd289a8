"""L2E: a small network that learns to explain from the explanations of any other method.

Source: Situ, Zukerman, Paris, Maruf, Haffari (2021), "Learning to Explain: Generating Stable Explanations Fast".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from explearn.core.errors import DataError
from explearn.core.examples import Example
from explearn.core.validation import Figures
from explearn.methods.base.explainer import BatchExplainer, BatchScores, resolve_targets
from explearn.methods.base.learned import BoundExplainer, TrainedState
from explearn.methods.base.task import Lesson, Lessons, TaskData, check_task
from explearn.methods.base.teachers import check_lesson, members
from explearn.methods.info import About
from explearn.methods.l2e.params import L2EPaperParams
from explearn.methods.l2e.student import LEVELS, Student, initialise, principal_embeddings
from explearn.methods.l2e.student_training import (
    StudentLesson,
    collate,
    inside,
    student_ids,
    student_lesson,
    token_scores,
    train,
)
from explearn.predictors.batching import budget_batches
from explearn.predictors.encoding import Batch, Encoding
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.alignment import NO_WORD, aggregate


class L2EPaper(BoundExplainer, BatchExplainer):
    """A small Transformer that has learned another method's explanations of the training texts.

    L2E, sections 3 and 4.3. The student is a Transformer encoder over the classifier's sub-tokens, with the label token
    of the explained class before and after the text. It never looks into the classifier: given the class, one pass of
    the student explains a text (`read_words`); `explain` also classifies, to know the class and its probability.

    Formulation `labelling`: the teacher's word scores become five levels, high / low negative, neutral, low / high
    positive, high being beyond the mean of the text's positive (negative) scores; all pieces of a word are to be given
    its level, by cross-entropy. A sub-token's score is the expected level, sum over l of l Pr(l), in [-2, 2].

    Formulation `ranking`: of each pair of sub-tokens the one that weighs more with the teacher is to score higher, by
    the pairwise logistic loss; the score is e^v over its sum over the text's sub-tokens, so that they sum to 1. Either
    way a word's score is that of its best piece.

    `signed` is the teacher's under `labelling`; rank scores have no sign.

    Options: `L2EPaperParams`. The seed decides the initial weights, dropout and the order of the texts.
    """

    about = About(
        name="l2e_paper",
        family="learned",
        cost="one forward pass, and one of its student, a smaller Transformer",
        needs=frozenset({"teacher"}),
        uncounted=True,
    )
    aggregation = "max"
    Options = L2EPaperParams
    options: L2EPaperParams
    weights_file = "student.safetensors"
    kept: ClassVar = {"signed": bool, "trained_on": dict[str, int], "history": list[Figures]}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        members(self.options.teacher)
        self.signed = False
        self.student: Student | None = None
        self.trained_on = {"train": 0, "validation": 0}
        self.history: list[dict[str, float | None]] = []

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
        classifier: TransformerPredictor,
        examples: Sequence[Example],
        lessons: Lessons,
        description: str | None = None,
    ) -> Self:
        """Train a student of one classifier.

        Args:
            classifier: the one that the teacher explained; it is read for its tokenizer and its word embeddings alone.
            examples: the texts of the lessons; others among them are not used.
            lessons: the teacher's scores; the split `train` is learned from, `validation` ends the training.

        Raises DataError where there is nothing to learn from, or a lesson does not fit its text.
        """
        table: Any = classifier.model.get_input_embeddings().weight
        by_id = {example.id: example for example in examples}
        training, validation = (
            self._student_lessons(classifier, by_id, lessons.by_split.get(split, []), lessons.signed, len(table))
            for split in ("train", "validation")
        )
        if not training:
            raise DataError(f"teacher {self.options.teacher!r} explains no training text; expected some to learn from")
        student = Student(len(table), len(classifier.labels), self.options)
        initialise(student, self.options.seed)
        if self.options.embeddings == "classifier":
            student.embeddings.weight.data.copy_(principal_embeddings(table, self.options.width))
        self.history = train(student, training, validation, self.options, classifier.device, description)
        self.student = student
        self.signed = lessons.signed and self.options.formulation == "labelling"
        self.trained_classifier = classifier.fingerprint
        self.trained_on = {"train": len(training), "validation": len(validation)}
        return self

    def _student_lessons(
        self,
        classifier: TransformerPredictor,
        by_id: dict[str, Example],
        lessons: Sequence[Lesson],
        signed: bool,
        vocabulary: int,
    ) -> list[StudentLesson]:
        for lesson in lessons:
            check_lesson(self.options.teacher, lesson, by_id.get(lesson.example_id))
        encodings = classifier.encode([by_id[lesson.example_id] for lesson in lessons])
        learned = [
            student_lesson(
                encoding,
                classifier.label_index(lesson.target),
                lesson.weights,
                signed,
                vocabulary,
                self.options.formulation,
            )
            for encoding, lesson in zip(encodings, lessons, strict=True)
        ]
        return [lesson for lesson in learned if (lesson.owner != NO_WORD).any()]

    # ---- explaining ----------------------------------------------------------------------------------------------

    def check(self, classifier: TransformerPredictor) -> None:
        # It does not look at the classifier, so that a check of what its scores depend on says nothing.
        self.any_classifier = False
        super().check(classifier)

    @torch.inference_mode()
    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        logits = classifier.logits(batch)
        chosen = resolve_targets(logits, targets)
        with classifier.autocast():
            rows = self._run(batch.encodings, chosen.tolist(), classifier.device)
        scores = torch.zeros(batch.input_ids.shape)
        for row, (of_text, _) in enumerate(rows):
            scores[row, : len(of_text)] = torch.from_numpy(of_text)
        return BatchScores(scores, logits, chosen)

    def _run(
        self, encodings: Sequence[Encoding], targets: Sequence[int], device: torch.device
    ) -> list[tuple[NDArray[np.float32], NDArray[np.int8]]]:
        """Return scores and most probable levels of all positions of each encoding, 0 outside the text."""
        student = self._trained(self.student).to(device)
        pairs = zip(encodings, targets, strict=True)
        texts = [student_ids(encoding, target, student.vocabulary) for encoding, target in pairs]
        ids, lengths = collate([ids for ids, _ in texts], device)
        outputs = student(ids, lengths)
        scores = token_scores(outputs, inside(lengths, ids.shape[1]), self.options.formulation).cpu().numpy()
        levels = outputs.argmax(-1).cpu().numpy() + LEVELS[0]
        rows = []
        for row, (encoding, (own, first)) in enumerate(zip(encodings, texts, strict=True)):
            of_text, of_levels = np.zeros(len(encoding), np.float32), np.zeros(len(encoding), np.int8)
            place = slice(first, first + len(own) - 2)
            of_text[place], of_levels[place] = scores[row, 1 : len(own) - 1], levels[row, 1 : len(own) - 1]
            rows.append((of_text, of_levels))
        return rows

    @torch.inference_mode()
    def read_words(
        self,
        encodings: Sequence[Encoding],
        targets: Sequence[int],
        max_tokens: int = 4096,
        device: torch.device | None = None,
    ) -> list[tuple[NDArray[np.float32], NDArray[np.int8]]]:
        """Return the scores and levels of each text's words by the student alone: no pass of the classifier.

        A word's score is its best piece's, NaN without one; its level is what the student finds most probable for that
        piece, neutral without one. Levels mean nothing for a student that ranks.

        Args:
            encodings: as `Classifier.encode` gives them. targets: index of the class to explain, for each.
            max_tokens: most sub-tokens a batch, padding included. device: where to compute (default: the CPU).

        Raises ModelError for a student that is not trained.
        """
        words: dict[int, tuple[NDArray[np.float32], NDArray[np.int8]]] = {}
        for indices in budget_batches([len(encoding) for encoding in encodings], max_tokens):
            of_batch = [encodings[i] for i in indices], [targets[i] for i in indices]
            rows = self._run(*of_batch, device or torch.device("cpu"))
            for index, encoding, (scores, levels) in zip(indices, of_batch[0], rows, strict=True):
                owner = np.asarray(encoding.word_ids, dtype=np.int64)
                # In ascending order of scores, so that a word's best piece is written last.
                pieces = np.argsort(scores, kind="stable")
                pieces = pieces[owner[pieces] != NO_WORD]
                of_words = np.zeros(len(encoding.words), dtype=np.int8)
                of_words[owner[pieces]] = levels[pieces]
                words[index] = aggregate(scores, encoding.word_ids, len(encoding.words), self.aggregation), of_words
        return [words[i] for i in range(len(encodings))]

    # ---- files ---------------------------------------------------------------------------------------------------

    def _state(self) -> TrainedState:
        return TrainedState(self._trained(self.student).state_dict(), {"classifier": self.trained_classifier})

    def _restore(self, state: TrainedState, folder: Path) -> None:
        self.trained_classifier = state.value("classifier", str)
        vocabulary, classes = (state.size(f"{table}.weight") for table in ("embeddings", "labels"))
        self.student = state.restore(lambda: Student(vocabulary, classes, self.options))

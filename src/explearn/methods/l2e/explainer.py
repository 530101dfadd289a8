"""L2E: a small network that learns to explain from the explanations of another method.

Source: Situ, Zukerman, Paris, Maruf, Haffari (2021), "Learning to Explain: Generating Stable Explanations Fast".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from explearn.core.arrays import Array32
from explearn.core.errors import DataError
from explearn.core.examples import Example
from explearn.methods.base.explainer import About, Batch, BatchExplainer, BatchScores, Encoding, resolve_targets
from explearn.methods.base.learned import BoundExplainer, TaskData, TrainedState
from explearn.methods.base.teachers import Lessons, check_lesson, members
from explearn.methods.base.training import History, seeded
from explearn.methods.l2e.params import L2EParams
from explearn.methods.l2e.student import (
    LEVELS,
    Student,
    StudentLesson,
    collate,
    inside,
    principal_embeddings,
    student_ids,
    student_lesson,
    token_scores,
    train,
)
from explearn.predictors.batching import run_batches
from explearn.predictors.predictor import Predictor, transformer_of
from explearn.text.alignment import NO_WORD, aggregate


class L2E(BoundExplainer, BatchExplainer):
    """A small Transformer that has learned another method's explanations of the training texts.

    L2E, sections 3 and 4.3. The student is a Transformer encoder over the classifier's sub-tokens, with the label token
    of the explained class before and after the text. It does not look into the classifier: given the class, one pass of
    the student explains a text (`read_words`); `explain` also classifies, to know the class and its probability.

    Formulation `labelling`: the teacher's word scores become five levels, high / low negative, neutral, low / high
    positive, high being beyond the mean of the text's positive (negative) scores. Each piece of a word learns the
    word's level, by cross-entropy. A sub-token's score is the expected level, sum over l of l Pr(l), in [-2, 2].

    Formulation `ranking`: of each pair of sub-tokens, the one with the larger weight by the teacher is trained to score
    higher, by the pairwise logistic loss; the score is e^v over its sum over the text's sub-tokens, so that they sum to
    1. In both, a word's score is that of its best piece.

    `signed` is the teacher's under `labelling`; rank scores have no sign.

    Options: `L2EParams`. The seed decides the initial weights, dropout and the order of the texts.
    """

    about = About(
        name="l2e",
        family="learned",
        cost="one forward pass, and one of its student, a smaller Transformer",
        needs={"teacher"},
        uncounted=True,
    )
    Options = L2EParams
    options: L2EParams
    weights_file = "student.safetensors"
    kept: ClassVar = {
        **BoundExplainer.kept,
        "signed": bool,
        "trained_on": dict[str, int],
        "history": History,
    }

    def __init__(self, /, **options: Any) -> None:
        super().__init__(**options)
        members(self.options.teacher)
        self.signed = False
        self.network: Student | None = None
        self.trained_on = {"train": 0, "validation": 0}

    # ---- training ------------------------------------------------------------------------------------------------

    def learn(self, task: TaskData, *, description: str | None = None) -> Self:
        """Train on a teacher's scores of a task's training and validation texts.

        Args:
            task: the data to learn from.
            description: text of a progress bar. None: no bar.

        Raises:
            DataError: the teacher has no scores, or scores do not fit their text.
        """
        lessons = task.lessons(self.options.teacher)
        return self.fit_lessons(task.classifier, task.examples(), lessons, description=description)

    def fit_lessons(
        self,
        classifier: Predictor,
        examples: Sequence[Example],
        lessons: Lessons,
        description: str | None = None,
    ) -> Self:
        """Train a student of one classifier.

        Args:
            classifier: the classifier that the teacher explained; only its tokenizer and word embeddings are used.
            examples: the texts of the lessons, perhaps with others.
            lessons: the teacher's scores; the split `train` is learned from, `validation` ends the training.
            description: text of a progress bar. None: no bar.

        Raises:
            DataError: there is nothing to learn from, or scores do not fit their text.
        """
        options = self.options
        table: Any = transformer_of(classifier).model.get_input_embeddings().weight
        by_id = {example.id: example for example in examples}
        splits: dict[str, list[StudentLesson]] = {"train": [], "validation": []}
        for split, learned in splits.items():
            rows = lessons.by_split.get(split, [])
            for lesson in rows:
                check_lesson(options.teacher, lesson, by_id.get(lesson.example_id))
            encodings = classifier.read([by_id[lesson.example_id] for lesson in rows])
            for encoding, lesson in zip(encodings, rows, strict=True):
                target = classifier.label_index(lesson.target)
                signed = lessons.signed
                row = student_lesson(encoding, target, lesson.weights, signed, len(table), options.formulation)
                if (row.owner != NO_WORD).any():
                    learned.append(row)
        if not splits["train"]:
            raise DataError(f"teacher {options.teacher!r} explains no training text; expected some to learn from")
        with seeded(options.seed, classifier.device):
            student = Student(len(table), len(classifier.labels), options)
        if options.embeddings == "classifier":
            student.embeddings.weight.data.copy_(principal_embeddings(table, options.width))
        self.history = train(student, splits["train"], splits["validation"], options, classifier.device, description)
        self.network = student
        self.signed = lessons.signed and options.formulation == "labelling"
        self.trained_classifier = classifier.fingerprint
        self.trained_on = {split: len(rows) for split, rows in splits.items()}
        return self

    # ---- explaining ----------------------------------------------------------------------------------------------

    def check(self, classifier: Predictor) -> None:
        # Its scores do not depend on the classifier, so a sanity check with another one would say nothing.
        self.check_trained_for(classifier)

    @torch.inference_mode()
    def score_batch(self, classifier: Predictor, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        logits = classifier.logits(batch)
        chosen = resolve_targets(logits, targets)
        with transformer_of(classifier).autocast():
            rows = self._run(batch.encodings, chosen.tolist(), classifier.device)
        scores = torch.zeros(batch.input_ids.shape)
        for row, (text_scores, _) in enumerate(rows):
            scores[row, : len(text_scores)] = torch.from_numpy(text_scores)
        return BatchScores(scores, logits, chosen)

    def _run(
        self, encodings: Sequence[Encoding], targets: Sequence[int], device: torch.device
    ) -> list[tuple[Array32, NDArray[np.int8]]]:
        """Return scores and most probable levels of all positions of each encoding, 0 outside the text."""
        student = self._trained(self.network).to(device)
        inputs = []
        starts = []
        for encoding, target in zip(encodings, targets, strict=True):
            label_and_pieces, first = student_ids(encoding, target, student.vocabulary)
            inputs.append(label_and_pieces)
            starts.append(first)
        ids, lengths = collate(inputs, device)
        outputs = student(ids, lengths)
        scores = token_scores(outputs, inside(lengths, ids.shape[1]), self.options.formulation).cpu().numpy()
        levels = outputs.argmax(-1).cpu().numpy() + LEVELS[0]
        rows = []
        for row, (encoding, first) in enumerate(zip(encodings, starts, strict=True)):
            pieces = len(inputs[row]) - 2
            text_scores = np.zeros(len(encoding), np.float32)
            text_scores[first : first + pieces] = scores[row, 1 : pieces + 1]
            text_levels = np.zeros(len(encoding), np.int8)
            text_levels[first : first + pieces] = levels[row, 1 : pieces + 1]
            rows.append((text_scores, text_levels))
        return rows

    @torch.inference_mode()
    def read_words(
        self, classifier: Predictor, encodings: Sequence[Encoding], targets: Sequence[int]
    ) -> list[tuple[Array32, NDArray[np.int8]]]:
        """Return the scores and levels of each text's words by the student alone, without a pass of the classifier.

        A word's score is its best piece's, NaN without one; its level is the most probable level of that piece, neutral
        without one. Levels mean nothing for formulation `ranking`.

        Args:
            classifier: the classifier, for its device and the size of its batches.
            encodings: the texts, from `Predictor.encode`.
            targets: index of the class to explain, for each text.

        Returns:
            Scores, float32, (words,), and levels, int8, (words,), of each text.

        Raises:
            ModelError: the student is not trained.
        """

        def read(indices: list[int]) -> Iterator[tuple[Array32, NDArray[np.int8]]]:
            rows = self._run([encodings[i] for i in indices], [targets[i] for i in indices], classifier.device)
            for index, (scores, levels) in zip(indices, rows, strict=True):
                encoding = encodings[index]
                owner = np.asarray(encoding.word_ids, dtype=np.int64)
                # In ascending order of scores, so that a word's best piece is written last.
                pieces = np.argsort(scores, kind="stable")
                pieces = pieces[owner[pieces] != NO_WORD]
                word_levels = np.zeros(len(encoding.words), dtype=np.int8)
                word_levels[owner[pieces]] = levels[pieces]
                yield aggregate(scores, encoding.word_ids, len(encoding.words), self.aggregation), word_levels

        return run_batches([len(encoding) for encoding in encodings], classifier, read)

    # ---- files ---------------------------------------------------------------------------------------------------

    def _restore(self, state: TrainedState) -> None:
        vocabulary = state.size("embeddings.weight")
        classes = state.size("labels.weight")
        self.network = state.restore(lambda: Student(vocabulary, classes, self.options))

"""The loss of criterion sim: good explanations help a student to predict the classifier (IvRA 2.2.1)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from explearn.core.errors import DataError
from explearn.methods.ivra.attention import AttentionModule
from explearn.methods.ivra.forward import Labelled, explain_batch
from explearn.methods.ivra.params import StudentParams
from explearn.methods.ivra.simulation import BagStudent, EncoderStudent, Parameters, Student, pilot, simulation_loss
from explearn.model.batching import random_batches
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch
from explearn.text.alignment import NO_WORD


class Simulatability:
    """Keeps a student, teaches it and asks it.

    In each epoch the student is shown the explanations of one half of its texts, and asked about the other.

    Args:
        classifier, module: what explains, both trained meanwhile.
        texts: those that the student learns from and is asked about.
        untrained: for the student of kind encoder, the encoder before fine-tuning.
        params: of the student.
        generator: what halves, batches and students are drawn from. seed: of the bag student's first parameters.

    Attributes:
        learned: the student's parameters as they are now.
        met: ids of the texts of the last loss.

    Raises DataError where there are too few texts.
    """

    def __init__(
        self,
        classifier: Classifier,
        module: AttentionModule,
        texts: Labelled,
        untrained: nn.Module | None,
        params: StudentParams,
        generator: torch.Generator,
        seed: int,
    ) -> None:
        # A student has nothing to read in a text without pieces.
        self.texts = texts.take([i for i, encoding in enumerate(texts.encodings) if encoding.positions])
        if len(self.texts) < 2:
            raise DataError(
                f"criterion 'sim': the student would learn from {len(self.texts)} texts; expected 2 or more, half to "
                "be shown and half to be asked about: raise student.share, or add validation texts"
            )
        self.classifier, self.module, self.untrained = classifier, module, untrained
        self.params, self.generator, self.seed = params, generator, seed
        self.student: Student | None = None
        self.learned: Parameters = {}
        self.met: list[str] = []
        self._shown: Iterator[Labelled] = iter(())
        self._asked: Iterator[Labelled] = iter(())

    def new_student(self) -> None:
        """Begin an epoch with a student that knows nothing: explanations show their worth while there is much to learn.

        Which texts it is shown and which it is asked about is drawn anew.
        """
        order = torch.randperm(len(self.texts), generator=self.generator).tolist()
        self._asked, self._shown = (self._rounds(self.texts.take(order[part::2])) for part in (1, 0))
        if self.params.kind == "bag":
            embeddings: Any = self.classifier.model
            table = embeddings.get_input_embeddings().weight.detach().float().cpu()
            pieces = [
                piece
                for encoding in self.texts.encodings
                for piece, word in zip(encoding.input_ids, encoding.word_ids, strict=True)
                if word != NO_WORD
            ]
            classes = len(self.classifier.labels)
            self.student = BagStudent(table, torch.tensor(pieces), classes, self.params.dimensions, self.seed)
        else:
            assert self.untrained is not None
            self.student = EncoderStudent(self.untrained, self.module)
            for parameter in self.student.attention.parameters():
                parameter.requires_grad_(True)
        self.student.to(self.classifier.device)
        self.learned = self.student.beginning(self.generator)

    def loss(self) -> torch.Tensor:
        """Loss of the student on one batch, after a pilot update on the explanations of another.

        The student keeps the update for the epoch, or forgets it after the step, as `params.restart` says.
        """
        assert self.student is not None
        student, params = self.student, self.params
        texts = next(self._shown), next(self._asked)
        self.met = [e.example_id for data in texts for e in data.encodings]
        shown, asked = (self.explained(data) for data in texts)
        ahead = pilot(
            lambda parameters: simulation_loss(student, parameters, *shown, params.weight),
            self.learned,
            params.learning_rate,
            params.pilot_steps,
        )
        term = simulation_loss(student, ahead, *asked, params.asked_weight)
        if params.restart == "step":
            self.learned = student.beginning(self.generator)
        else:
            self.learned = {name: value.detach().requires_grad_() for name, value in ahead.items()}
        return term

    def explained(self, data: Labelled) -> tuple[Batch, torch.Tensor, torch.Tensor]:
        """A batch of the student's texts, the classes predicted and the explanations, with their graph."""
        batch = self.classifier.batch(data.encodings)
        found = explain_batch(self.classifier, self.module, batch)
        return batch, found.logits.detach().argmax(-1), found.r

    def _rounds(self, data: Labelled) -> Iterator[Labelled]:
        """Batches of like numbers of texts, round after round.

        They are of all lengths: what the student learned from short texts, it is asked about long ones, too.
        """
        lengths = [len(encoding) for encoding in data.encodings]
        size = math.ceil(len(data) / math.ceil(len(data) / self.params.batch_size))
        while True:
            for rows in random_batches(lengths, size, self.generator, mix_stretches=False):
                yield data.take(rows)

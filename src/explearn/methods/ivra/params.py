"""Options of IvRA and Attention-SMaT."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from explearn.core.settings import Fraction, OpenFraction, PositiveInt, Section


class AttentionScheduleParams(Section):
    """How ivra and smat are trained."""

    epochs: PositiveInt = 4
    batch_size: PositiveInt = 16
    """Examples a step."""
    max_texts: PositiveInt | None = None
    """Most training texts an epoch, drawn anew in each (default: all)."""
    learning_rate: Annotated[float, Field(ge=0)] = 1e-4
    """Of the classifier (AdamW); 0 leaves it as it is."""
    module_learning_rate: Annotated[float, Field(gt=0)] = 3e-2
    """Of the attention module's weights (AdamW, without weight decay)."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    decay: Annotated[float, Field(gt=0, le=1)] = 0.6
    """Factor on both learning rates, every `decay_every` epochs."""
    decay_every: PositiveInt = 1
    """Epochs."""
    train_embeddings: bool = False
    """Also train the word embeddings; they are most of a small encoder's weights."""
    validation_texts: PositiveInt = 64
    """Validation texts that the criteria are measured on after each epoch, to keep the best one."""
    accuracy_tolerance: Fraction = 0.015
    """Loss of validation accuracy up to which an epoch may be the best; beyond it, accuracy counts alone."""


class CriterionWeights(Section):
    """Weight of each criterion's loss beside the task's cross-entropy."""

    sim: Annotated[float, Field(ge=0)] = 1.0
    comp: Annotated[float, Field(ge=0)] = 1.0
    suff: Annotated[float, Field(ge=0)] = 1.0
    cons: Annotated[float, Field(ge=0)] = 1.0


class FaithfulnessLossParams(Section):
    percents: Annotated[list[Annotated[int, Field(ge=1, le=100)]], Field(min_length=1)] = [1, 5, 10, 20, 50]
    """Shares k of the words that are taken out or kept."""
    each_step: PositiveInt | None = 1
    """Shares drawn a step (null: all of them); each costs a pass."""
    comp_margin: Annotated[float, Field(gt=0)] = 1.0
    """mu of equation 10, in nats."""
    suff_margin: Annotated[float, Field(ge=0)] = 0.1
    """mu of equation 11, in nats."""
    suff_loss: Literal["margin", "mae", "kl"] = "margin"
    """Equation 11, 16 or 17."""
    choice_weight: Annotated[float, Field(ge=0)] = 3.0
    """Of what draws r to words by what they are worth, in place of the gradient that choosing words has not, beside the
    loss of the shortened text."""


class ConsistencyLossParams(Section):
    loss: Literal["rank", "correlation", "kl", "clustering"] = "rank"
    """Correlation of the distances' soft ranks or of the distances themselves, equation 13, or equation 20."""
    epsilon: Annotated[float, Field(gt=0)] = 0.1
    """Added to the distance of two texts' states."""

    @property
    def least_texts(self) -> int:
        """Texts a batch that the loss takes: a correlation is of pairs, and over a single one there is none."""
        return 3 if self.loss in ("rank", "correlation") else 2


class StudentParams(Section):
    kind: Literal["bag", "encoder"] = "bag"
    """bag: attention over word embeddings. encoder: the task's encoder before fine-tuning, with its own module."""
    learning_rate: Annotated[float, Field(gt=0)] = 0.5
    """SGD."""
    share: OpenFraction = 0.5
    """Of the validation texts that the student learns from; the others judge it and choose the best epoch."""
    weight: Annotated[float, Field(ge=0)] = 1.0
    """Of the divergence of explanations, beside the student's cross-entropy, where the student learns (eq. 7, 14)."""
    asked_weight: Annotated[float, Field(ge=0)] = 0.0
    """The same where the taught student is asked, and the explanations learn from its loss (eq. 15; in the paper 1).
    With 0 it is asked for classes alone, as in the metric and in Fernandes et al. (2022)."""
    pilot_steps: PositiveInt = 10
    """Steps of SGD on one batch, through which the explanations learn (the paper takes 1); an encoder's graph grows
    with each."""
    batch_size: PositiveInt = 64
    """Texts whose explanations it is shown in a step, and as many that it is asked about."""
    restart: Literal["step", "epoch"] = "step"
    """When a student that knows nothing takes the place of the one that has learned: for every step, as the metric's
    students begin, or every epoch, within which it goes on learning as in the paper."""
    dimensions: PositiveInt = 32
    """bag: principal components of the embeddings."""


Criterion = Literal["sim", "comp", "suff", "cons"]


class SMaTParams(Section):
    """Attention-SMaT: weights for whole heads."""

    criteria: Annotated[list[Criterion], Field(min_length=1)] = ["sim"]
    """What the explanations are trained for: simulatability, comprehensiveness, sufficiency, consistency."""
    weights: CriterionWeights = CriterionWeights()
    norm: Literal["softmax", "sparsemax"] = "sparsemax"
    schedule: AttentionScheduleParams = AttentionScheduleParams()
    faithfulness: FaithfulnessLossParams = FaithfulnessLossParams()
    consistency: ConsistencyLossParams = ConsistencyLossParams()
    student: StudentParams = StudentParams()

    @model_validator(mode="after")
    def _criteria_once(self) -> Self:
        if len(set(self.criteria)) != len(self.criteria):
            raise ValueError(f"criteria {self.criteria} repeat a name; expected each once")
        least = self.consistency.least_texts
        for name in ("batch_size", "max_texts"):
            given = getattr(self.schedule, name)
            if "cons" in self.criteria and given is not None and given < least:
                raise ValueError(
                    f"criterion 'cons' compares the texts of a batch, and its loss {self.consistency.loss!r} takes "
                    f"{least}; expected schedule.{name} of {least} or more, got {given}"
                )
        if (
            not self.schedule.learning_rate
            and not self.faithfulness.choice_weight
            and not {"sim", "cons"} & set(self.criteria)
        ):
            raise ValueError(
                "with schedule.learning_rate 0 the classifier stays as it is, and with faithfulness.choice_weight 0 "
                "the explanations have no gradient; expected one of them above 0"
            )
        for name, least in (("sim", 2), ("cons", 3)):
            if name in self.criteria and self.schedule.validation_texts < least:
                raise ValueError(
                    f"criterion {name!r} is measured over texts together; "
                    f"expected schedule.validation_texts of {least} or more"
                )
        return self


class IvRAParams(SMaTParams):
    """IvRA: weights for features, heads and layers."""

    criteria: Annotated[list[Criterion], Field(min_length=1)] = ["comp", "suff"]
    norm: Literal["softmax", "sparsemax"] = "softmax"
    levels: Annotated[list[Literal["feature", "head", "layer"]], Field(min_length=1)] = ["feature", "head", "layer"]
    """Levels whose weights are learned; the others stay at 1."""

"""Options of IvRA and Attention-SMaT."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from explearn.core.settings import Fraction, OpenFraction, PositiveInt, Rounds, Section, Seeded, Units


class AttentionScheduleParams(Section):
    """How ivra and smat are trained."""

    epochs: Rounds = 4
    """Passes over the training texts."""
    batch_size: Units = 16
    """Texts a step."""
    max_texts: PositiveInt | None = None
    """Most training texts an epoch, drawn anew in each; null: all."""
    learning_rate: Annotated[float, Field(ge=0)] = 1e-4
    """Of the classifier (AdamW); 0 leaves it as it is."""
    module_learning_rate: Annotated[float, Field(gt=0)] = 3e-2
    """Of the attention module's weights (AdamW, without weight decay)."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Of the classifier's weights."""
    decay: Annotated[float, Field(gt=0, le=1)] = 0.6
    """Factor on both learning rates, every `decay_every` epochs."""
    decay_every: Rounds = 1
    """Epochs between two decays."""
    train_embeddings: bool = False
    """Also train the word embeddings; they are most of a small encoder's weights."""
    validation_texts: PositiveInt = 64
    """Validation texts on which the criteria are measured after each epoch, to keep the best epoch."""
    accuracy_tolerance: Fraction = 0.015
    """Validation accuracy that an epoch may lose against the start and still be the best by its criteria; below that,
    accuracy alone counts."""


class CriterionWeights(Section):
    """Weight of each criterion's loss beside the task's cross-entropy."""

    sim: Annotated[float, Field(ge=0)] = 1.0
    comp: Annotated[float, Field(ge=0)] = 1.0
    suff: Annotated[float, Field(ge=0)] = 1.0
    cons: Annotated[float, Field(ge=0)] = 1.0


class FaithfulnessLossParams(Section):
    """The losses of criteria comp and suff."""

    percents: Annotated[list[Annotated[int, Field(ge=1, le=100)]], Field(min_length=1)] = [1, 5, 10, 20, 50]
    """Shares of the words that are taken out or kept, in percent: k of equations 8 to 11."""
    each_step: Units | None = 1
    """Shares drawn for each step; each costs a pass. null: all of them."""
    comp_margin: Annotated[float, Field(gt=0)] = 1.0
    """mu of equation 10, in nats."""
    suff_margin: Annotated[float, Field(ge=0)] = 0.1
    """mu of equation 11, in nats."""
    suff_loss: Literal["margin", "mae", "kl"] = "margin"
    """Equation 11, 16 or 17."""
    choice_weight: Annotated[float, Field(ge=0)] = 3.0
    """Weight of the loss that draws the explanation r to the words the prediction depends on. Choosing the top words
    has no gradient; this takes its place, beside the loss of the shortened text."""


class ConsistencyLossParams(Section):
    """The loss of criterion cons."""

    loss: Literal["rank", "correlation", "kl", "clustering"] = "rank"
    """rank, correlation: of the soft ranks of distances, or of the distances themselves. kl: equation 13. clustering:
    equation 20."""
    epsilon: Annotated[float, Field(gt=0)] = 0.1
    """kl: added to the distance of two texts' states, so that the loss of near texts stays finite."""

    @property
    def least_texts(self) -> int:
        """Fewest texts of a batch: two texts make one pair, and a correlation takes more than one."""
        return 3 if self.loss in ("rank", "correlation") else 2


class StudentParams(Section):
    """The student of criterion sim, which learns from the explanations to predict the classifier."""

    kind: Literal["bag", "encoder"] = "bag"
    """bag: attention over word embeddings. encoder: the task's encoder before fine-tuning, with its own module."""
    learning_rate: Annotated[float, Field(gt=0)] = 0.5
    """Of the student's steps (SGD)."""
    share: OpenFraction = 0.5
    """Share of the validation texts that the student learns from; the others choose the best epoch."""
    weight: Annotated[float, Field(ge=0)] = 1.0
    """Weight of the divergence of explanations, beside the student's cross-entropy, while the student learns (eq. 7,
    14)."""
    asked_weight: Annotated[float, Field(ge=0)] = 0.0
    """The same while the student is asked and the explanations learn from its loss (eq. 15; the paper has 1). With 0 it
    is asked for classes alone, as in the metric and in Fernandes et al. (2022)."""
    pilot_steps: Rounds = 10
    """Steps of SGD on one batch, through which the explanations learn (the paper takes 1). With an encoder as the
    student, each step takes more memory."""
    batch_size: Units = 64
    """Texts whose explanations the student is shown in a step; it is asked about as many others."""
    restart: Literal["step", "epoch"] = "step"
    """When the student is replaced by one that knows nothing: after every step, as the metric's students begin, or
    after every epoch, within which it goes on learning as in the paper."""
    dimensions: Units = 32
    """bag: number of principal components of the embeddings."""


Criterion = Literal["sim", "comp", "suff", "cons"]


class SMaTParams(Seeded):
    """Attention-SMaT: weights for whole heads."""

    criteria: Annotated[list[Criterion], Field(min_length=1)] = ["sim"]
    """What the explanations are trained for, any of sim (simulatability), comp (comprehensiveness), suff (sufficiency)
    and cons (consistency)."""
    weights: CriterionWeights = CriterionWeights()
    """Weight of each criterion's loss beside the task's cross-entropy."""
    norm: Literal["softmax", "sparsemax"] = "sparsemax"
    """Turns logits into explanations; sparsemax leaves most tokens at 0."""
    schedule: AttentionScheduleParams = AttentionScheduleParams()
    """How classifier and attention module are trained."""
    faithfulness: FaithfulnessLossParams = FaithfulnessLossParams()
    """The losses of criteria comp and suff."""
    consistency: ConsistencyLossParams = ConsistencyLossParams()
    """The loss of criterion cons."""
    student: StudentParams = StudentParams()
    """The student of criterion sim."""

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
    """What the explanations are trained for, any of sim (simulatability), comp (comprehensiveness), suff (sufficiency)
    and cons (consistency)."""
    norm: Literal["softmax", "sparsemax"] = "softmax"
    """Turns logits into explanations; sparsemax leaves most tokens at 0."""
    levels: Annotated[list[Literal["feature", "head", "layer"]], Field(min_length=1)] = ["feature", "head", "layer"]
    """Levels whose weights are learned; the others stay at 1."""

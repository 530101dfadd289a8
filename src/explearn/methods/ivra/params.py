"""Options of IvRA and Attention-SMaT."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from explearn.core.validation import (
    Fraction,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Rounds,
    Section,
    Seeded,
    Units,
)

Criterion = Literal["sim", "comp", "suff", "cons"]
Norm = Literal["softmax", "sparsemax"]
Level = Literal["feature", "head", "layer"]

LEAST_TEXTS = 3
"""Fewest texts in a batch for criterion cons: a correlation needs several pairs."""


class AttentionScheduleParams(Section):
    """The options for training ivra and smat."""

    epochs: Rounds = 20
    """Passes over the training texts."""
    batch_size: Units = 64
    """Texts per step."""
    max_texts: PositiveInt | None = None
    """Most training texts per epoch, drawn anew in each; null: all."""
    learning_rate: PositiveFloat = 3e-5
    """Learning rate of the classifier (AdamW), except its word embeddings, which do not change."""
    module_learning_rate: PositiveFloat = 1e-2
    """Learning rate of the attention module's weights (AdamW, without weight decay)."""
    decay: Annotated[float, Field(gt=0, le=1)] = 0.866
    """Factor on both learning rates after each epoch; 0.866 twice is the paper's 0.75 every two epochs."""
    validation_texts: PositiveInt = 64
    """Validation texts on which the criteria are measured after each epoch, to keep the best epoch."""
    accuracy_tolerance: Fraction = 0.08
    """Loss of validation accuracy, relative to the start, up to which an epoch can be the best by its criteria; beyond
    that, only accuracy counts. On IMDb the paper loses up to 7.8 points (Table 5)."""


class SMaTParams(Seeded):
    """Attention-SMaT: weights for whole heads."""

    frozen: bool = False
    """Whether the classifier stays as it is, and only the attention module is trained. False: a copy of the classifier
    is trained with it, as in the paper, and explained."""
    criteria: Annotated[list[Criterion], Field(min_length=1)] = ["sim"]
    """Criteria to train for: sim (simulatability), comp (comprehensiveness), suff (sufficiency), cons (consistency)."""
    norm: Norm = "sparsemax"
    """Turns logits into explanations; sparsemax leaves most tokens at 0."""
    schedule: AttentionScheduleParams = AttentionScheduleParams()
    """How classifier and attention module are trained."""
    consistency_loss: Literal["rank", "kl"] = "kl"
    """The loss of criterion cons. kl: equation 13. rank: correlation of the soft ranks of distances."""
    choice_weight: NonNegativeFloat = 3.0
    """Weight of a loss of ours beside those of comp and suff: it draws the scores to the words that the prediction
    depends on. 0: the paper's losses alone."""

    @property
    def own_model(self) -> bool:
        """Return whether the classifier is trained, too, so that another one than the given is explained."""
        return not self.frozen


class IvRAParams(SMaTParams):
    """IvRA: weights for features, heads and layers."""

    criteria: Annotated[list[Criterion], Field(min_length=1)] = ["comp"]
    """Criteria to train for: sim (simulatability), comp (comprehensiveness), suff (sufficiency), cons (consistency)."""
    norm: Norm = "softmax"
    """Turns logits into explanations; sparsemax leaves most tokens at 0."""
    levels: Annotated[list[Level], Field(min_length=1)] = ["feature", "head", "layer"]
    """Levels whose weights are learned; the others stay at 1."""

"""Options of L2E."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from explearn.core.settings import PositiveInt, Rounds, Seeded, Units


class L2EParams(Seeded):
    teacher: str = "attcat"
    """Method whose explanations are learned, one of `teachers`; `ensemble:a,b,c` is the mean of several ones' ranks."""
    formulation: Literal["labelling", "ranking"] = "labelling"
    """L2E section 3: learn each sub-token's level, or the order of all (quadratic in a text's length)."""
    ranking_order: Literal["magnitude", "signed"] = "magnitude"
    """ranking: the order of |w|, as in the paper, or of w."""
    layers: Units = 4
    """Transformer blocks of the student."""
    heads: Units = 4
    """Attention heads of a block."""
    width: Units = 128
    """Of embeddings and hidden states; a multiple of `heads`, and even."""
    feedforward: Units = 256
    """Hidden units of a block's feed-forward part."""
    window: PositiveInt | None = None
    """Sub-tokens to either side that a sub-token attends to, for texts of thousands of them; null: all."""
    embeddings: Literal["classifier", "random"] = "classifier"
    """Start from the classifier's word embeddings (principal components), or at random as in the paper."""
    train_embeddings: bool = True
    """Whether training changes the word embeddings."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Rate, in training."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """The paper's is sgd, with a learning rate of 1e-4."""
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    """Of the optimizer, without a schedule."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Of the optimizer."""
    epochs: Rounds = 20
    """Most passes over the training texts."""
    patience: Rounds = 3
    """Epochs without better agreement with the teacher on the validation texts before training stops."""
    batch_size: Units = 32
    """Texts a step."""
    max_texts: PositiveInt | None = None
    """Most training texts, drawn by seed; null: all that were taught."""

    @model_validator(mode="after")
    def _width_fits(self) -> L2EParams:
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"width {self.width} with {self.heads} heads; expected an even multiple of the heads")
        return self

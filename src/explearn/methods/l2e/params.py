"""Options of L2E."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from explearn.core.validation import MOST_UNITS, PositiveFloat, PositiveInt, Rounds, Seeded

HEADS = 4
"""Attention heads of a block (L2E section 4.3)."""

Width = Annotated[int, Field(ge=HEADS, le=MOST_UNITS, multiple_of=HEADS)]


class L2EParams(Seeded):
    teacher: str = "attcat"
    """Method whose explanations are learned, one of `teachers`; `ensemble:a,b,c` is the mean of several ones' ranks."""
    formulation: Literal["labelling", "ranking"] = "labelling"
    """L2E section 3: learn each sub-token's level, or the order of all by |w| (quadratic in a text's length)."""
    layers: Annotated[int, Field(ge=1, le=64)] = 4
    """Transformer blocks of the student."""
    width: Width = 128
    """Of embeddings and hidden states; half of that of a block's feed-forward part."""
    window: PositiveInt | None = None
    """Sub-tokens to either side that a sub-token attends to; null: all."""
    embeddings: Literal["classifier", "random"] = "classifier"
    """Start from the classifier's word embeddings (principal components), or at random as in the paper."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """The paper's is sgd, with a learning rate of 1e-4."""
    learning_rate: PositiveFloat = 1e-3
    """Of the optimizer, without a schedule."""
    epochs: Rounds = 20
    """Most passes over the training texts."""

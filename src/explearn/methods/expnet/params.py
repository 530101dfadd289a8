"""Options of ExpNet."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from explearn.core.settings import Fraction, OpenFraction, PositiveInt, Section


class ExpNetParams(Section):
    features: Literal["full", "task_to_token", "token_to_task", "hidden", "hidden_and_attention"] = "full"
    """Variant of ExpNet's Table 4."""
    hidden: PositiveInt = 16
    """Units of the hidden layer."""
    alpha: Fraction = 0.6
    """Focal loss weight of evidence tokens; others weigh 1 - alpha."""
    gamma: Annotated[float, Field(ge=0)] = 2.0
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    epochs: PositiveInt = 50
    batch_size: PositiveInt = 32
    """Examples a step."""
    threshold: OpenFraction = 0.5
    """Score from which a word counts as evidence."""
    standardize: bool = False
    """Scale features to zero mean and unit variance over the training tokens. The paper feeds raw attention weights."""

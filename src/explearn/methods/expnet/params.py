"""Options of ExpNet."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from explearn.core.settings import Fraction, OpenFraction, Rounds, Section, Units


class ExpNetParams(Section):
    features: Literal["full", "task_to_token", "token_to_task", "hidden", "hidden_and_attention"] = "full"
    """Variant of ExpNet's Table 4."""
    hidden: Units = 16
    """Units of the hidden layer."""
    alpha: Fraction = 0.6
    """Focal loss: weight of evidence tokens; the others weigh 1 - alpha."""
    gamma: Annotated[float, Field(ge=0)] = 2.0
    """Focal loss: how much less tokens count that are already classified well."""
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    """Of Adam, without a schedule."""
    epochs: Rounds = 50
    """Passes over the training texts."""
    batch_size: Units = 32
    """Texts a step."""
    threshold: OpenFraction = 0.5
    """Score from which a word counts as evidence."""
    standardize: bool = False
    """Scale features to zero mean and unit variance over the training tokens. The paper feeds raw attention weights."""
    protocol: Literal["leave_one_task_out", "in_domain"] = "leave_one_task_out"
    """Learn from the other tasks' rationales, or from the task's own."""

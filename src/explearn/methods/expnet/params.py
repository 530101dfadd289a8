"""Options of ExpNet, and of ExpNet as its paper has it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from explearn.core.validation import PositiveInt, Rounds, Seeded, Units

LearningRate = Annotated[float, Field(gt=0)]
Protocol = Literal["universal", "few_shot", "in_domain"]


class ExpNetParams(Seeded):
    protocol: Protocol = "universal"
    """Learn from a consensus of signals on the task's own texts, itself learned from the other tasks' marks; from that
    and a few marked texts of the task; or from all of the task's marks and nothing else."""
    marks: PositiveInt = 10
    """few_shot: marked texts of the task to learn from, drawn by seed. With as many as there are: in_domain."""
    hidden: Units = 32
    """Units of a network's hidden layer."""
    learning_rate: LearningRate = 2e-3
    """Of AdamW, without a schedule."""
    epochs: Rounds = 60
    """Passes over the training words, at most."""


class ExpNetPaperParams(Seeded):
    features: Literal["full", "task_to_token", "token_to_task", "hidden", "hidden_and_attention"] = "full"
    """Variant of ExpNet's Table 4."""
    learning_rate: LearningRate = 1e-3
    """Of Adam, without a schedule."""
    epochs: Rounds = 50
    """Passes over the training texts."""
    protocol: Literal["leave_one_task_out", "in_domain"] = "leave_one_task_out"
    """Learn from the other tasks' rationales, or from the task's own."""

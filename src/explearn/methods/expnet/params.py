"""Options of ExpNet, and of ExpNet as published."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from explearn.core.validation import PositiveInt, Rounds, Seeded, Units

LearningRate = Annotated[float, Field(gt=0)]
Protocol = Literal["universal", "few_shot", "in_domain"]


class ExpNetParams(Seeded):
    protocol: Protocol = "universal"
    """universal: learn from the consensus's scores on the task's texts, where the consensus has learned from the other
    tasks' marks. few_shot: from that and a few marked texts of the task. in_domain: only from the task's marks."""
    marks: PositiveInt = 10
    """few_shot: number of marked texts of the task, drawn by seed. If all are used, it equals in_domain."""
    hidden: Units = 32
    """Units of a network's hidden layer."""
    learning_rate: LearningRate = 2e-3
    """Learning rate of AdamW, without a schedule."""
    epochs: Rounds = 60
    """Most passes over the training words."""


class ExpNetPaperParams(Seeded):
    features: Literal["full", "task_to_token", "token_to_task", "hidden", "hidden_and_attention"] = "full"
    """Variant of ExpNet's Table 4."""
    learning_rate: LearningRate = 1e-3
    """Learning rate of Adam, without a schedule."""
    epochs: Rounds = 50
    """Passes over the training texts."""
    protocol: Literal["leave_one_task_out", "in_domain"] = "leave_one_task_out"
    """Learn from the other tasks' rationales, or from the task's own."""

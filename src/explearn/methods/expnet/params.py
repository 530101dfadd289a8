"""Options of ExpNet."""

from __future__ import annotations

from typing import Literal

from explearn.core.validation import PositiveFloat, Rounds, Seeded


class ExpNetParams(Seeded):
    features: Literal["full", "task_to_token", "token_to_task", "hidden", "hidden_and_attention"] = "full"
    """Variant of ExpNet's Table 4."""
    learning_rate: PositiveFloat = 1e-3
    """Learning rate of Adam, without a schedule."""
    epochs: Rounds = 50
    """Passes over the training texts."""
    protocol: Literal["leave_one_task_out", "in_domain"] = "leave_one_task_out"
    """Learn from the other tasks' rationales, or from the task's own."""

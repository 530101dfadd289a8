"""Options of Marker."""

from __future__ import annotations

from typing import Literal

from explearn.core.validation import PositiveFloat, PositiveInt, Rounds, Seeded, Units

Protocol = Literal["universal", "few_shot", "in_domain"]


class MarkerParams(Seeded):
    protocol: Protocol = "universal"
    """universal: learn from the consensus's scores on the task's texts, where the consensus has learned from the other
    tasks' marks. few_shot: from that and a few marked texts of the task. in_domain: only from the task's marks."""
    marks: PositiveInt = 10
    """few_shot: number of marked texts of the task, drawn by seed. If all are used, it equals in_domain."""
    hidden: Units = 32
    """Units of a network's hidden layer."""
    learning_rate: PositiveFloat = 2e-3
    """Learning rate of AdamW, without a schedule."""
    epochs: Rounds = 60
    """Most passes over the training words."""

"""Options of Reader."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from explearn.core.validation import Fraction, PositiveFloat, PositiveInt, Rounds, Seeded, Units
from explearn.methods.base.teachers import ANSWERS
from explearn.methods.l2e.params import Width
from explearn.methods.marker.params import Protocol


class ReaderParams(Seeded):
    teacher: str = ANSWERS
    """`answers`: the classifier's own, to each text without some of its words; or a method whose explanations are
    learned, one of `teachers`; `ensemble:a,b,c` is the mean of several ones' ranks."""
    samples: Annotated[int, Field(ge=4, le=10_000)] = 32
    """Answers a text."""
    max_texts: PositiveInt = 1000
    """Most training texts."""
    layers: Units = 4
    """Layers whose hidden states are read, evenly spaced from the embeddings to the last."""
    width: Width = 192
    """Of the network's hidden states."""
    learning_rate: PositiveFloat = 1e-3
    """The highest, of one cycle."""
    epochs: Rounds = 25
    """Passes over the training texts."""
    budget: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Further passes an average text, more where the scores are less certain, that make its scores more faithful."""
    marked: Protocol | None = None
    """Learn besides which words are marked, from Marker's targets under this `protocol`; null: no."""
    aim: Fraction = 1.0
    """Scores say what the classifier uses (1), which words are marked (0, needs `marked`), or both in this
    proportion."""

    @model_validator(mode="after")
    def _suits_what_is_learned(self) -> Self:
        if self.budget and (self.teacher != ANSWERS or self.aim < 1):
            raise ValueError(
                f"budget: got {self.budget} with teacher {self.teacher!r} and aim {self.aim:g}; expected teacher "
                f"{ANSWERS!r} and aim 1"
            )
        if self.aim < 1 and self.marked is None:
            raise ValueError(f"aim: got {self.aim:g} without `marked`; expected 1, or a Reader trained with `marked`")
        return self

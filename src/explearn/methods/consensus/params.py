"""Options of the consensus."""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from explearn.core.validation import Seeded

# The names in `explearn.lens.word_signals`, repeated so that reading parameters needs no other import.
Signal = Literal["rollout", "gae", "gradient", "attn_lrp"]


class ConsensusParams(Seeded):
    signals: list[Signal] = list(get_args(Signal))
    """Methods whose word scores are combined; without attn_lrp it is faster. An empty list: only the words,
    independent of the model."""
    word_features: bool = True
    """Also use the word itself: its length, position and case, whether it is a stop word or punctuation, and the
    classifier's confidence."""
    copies: Annotated[int, Field(ge=0, le=20)] = 2
    """Copies of every training text in which random signals are missing, so that the consensus learns to work without
    them."""

    @model_validator(mode="after")
    def _looks_at_something(self) -> Self:
        if not self.signals and not self.word_features:
            raise ValueError("signals: got none, and word_features false; expected a signal, or word_features true")
        return self

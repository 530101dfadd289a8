"""How far an explanation can be relied on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from explearn.core.validation import Shape

COVERAGE = 0.9
"""Share of texts whose error stays within the bound."""

CERTAIN, RELIABLE = 0.8, 0.5
"""Predicted agreement from which a familiar text's scores are certain, and below which nobody should rely on them."""

Verdict = Literal["certain", "check", "do not rely"]


class Certificate(Shape):
    """What a method says of its own scores of one text, learned from texts that it was not trained on."""

    agreement: Annotated[float, Field(ge=-1, le=1)]
    """Predicted correlation, over sets of words left out, of sums of scores with the classifier's answers."""
    bound: Annotated[float, Field(ge=0)]
    """What the three top words' scores together, and the change of the answer without these words, differ by at most,
    for 90 % of texts like those held out; in the answer's unit, a probability."""
    familiar: bool
    """Whether the text is like those of the training. If not, the other two say nothing."""

    @property
    def verdict(self) -> Verdict:
        if not self.familiar or self.agreement < RELIABLE:
            return "do not rely"
        return "certain" if self.agreement >= CERTAIN else "check"

    def to_record(self) -> dict[str, object]:
        """Return plain Python values, for JSON."""
        return {**self.model_dump(), "verdict": self.verdict}

    def __str__(self) -> str:
        if not self.familiar:
            return f"{self.verdict}: the text is unlike those that the explainer has learned from"
        return (
            f"{self.verdict}: predicted agreement with the classifier's own answers {self.agreement:.2f}, "
            f"top words' scores within {self.bound:.2f} (90 % of texts)"
        )


def certificates(rows: Sequence[Sequence[float]]) -> list[Certificate]:
    """Make certificates from numbers: agreement, bound, and 1 for a familiar text, else 0."""
    return [Certificate(agreement=agreement, bound=bound, familiar=familiar > 0) for agreement, bound, familiar in rows]

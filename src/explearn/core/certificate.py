"""Certificates: how far an explanation can be relied on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, computed_field

from explearn.core.validation import Shape

COVERAGE = 0.9
"""Share of texts whose error is within the bound."""

CERTAIN = 0.8
"""Predicted agreement from which the scores of a familiar text are certain."""

RELIABLE = 0.5
"""Predicted agreement below which the scores of a familiar text should not be relied on."""

Verdict = Literal["certain", "check", "do not rely"]


class Certificate(Shape):
    """A method's estimate of how far its scores for one text can be relied on.

    Attributes:
        agreement: predicted correlation between sums of scores and the classifier's answers, when random words are left
            out.
        bound: largest difference, for 90 % of texts like those held out, between the sum of the three highest scores
            and the change in the answer when those three words are left out; in the answer's unit, a probability.
        familiar: whether the text resembles the training texts. If it does not, agreement and bound mean nothing.

    Example:
        >>> import explearn
        >>> explearn.Certificate(agreement=0.9, bound=0.1, familiar=True).verdict
        'certain'
    """

    agreement: Annotated[float, Field(ge=-1, le=1)]
    bound: Annotated[float, Field(ge=0)]
    familiar: bool

    @computed_field  # type: ignore[prop-decorator]
    @property
    def verdict(self) -> Verdict:
        """What to make of the scores."""
        if not self.familiar or self.agreement < RELIABLE:
            return "do not rely"
        if self.agreement >= CERTAIN:
            return "certain"
        return "check"

    def __str__(self) -> str:
        if not self.familiar:
            return f"{self.verdict}: the text is unlike the explainer's training texts"
        return (
            f"{self.verdict}: predicted agreement with the classifier's own answers {self.agreement:.2f}, "
            f"top words' scores within {self.bound:.2f} (90 % of texts)"
        )


def certificates(rows: Sequence[Sequence[float]]) -> list[Certificate]:
    """Return certificates made from numbers: agreement, bound, and 1 for a familiar text, else 0."""
    return [Certificate(agreement=agreement, bound=bound, familiar=familiar > 0) for agreement, bound, familiar in rows]

"""Certificates: how far an explanation can be relied on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, computed_field

from explearn.core.validation import NonNegativeFloat, Number, Shape, UnicodeText

COVERAGE = 0.9
"""Share of texts whose error is within the bound."""

TOP_WORDS = 3
"""Number of words whose scores are added up and compared with the change in the answer when they are left out."""

RELIABLE = 0.5
"""Largest bound of a reliable text, as a share of the scores that it is about. Our own threshold."""

Verdict = Literal["reliable", "check"]


class Certificate(Shape):
    """A method's estimate of how far its scores for one text can be relied on.

    Attributes:
        words: the three words with the highest scores.
        effect: sum of their scores, the expected change in the answer when they are left out.
        bound: largest difference, for 90 % of texts like those held out, between `effect` and that change; in the
            answer's unit, a probability.
        familiar: whether the text resembles the training texts. If it does not, the bound means nothing.

    Example:
        >>> import explearn
        >>> words = ("penalties", "final")
        >>> print(explearn.Certificate(words=words, effect=0.4, bound=0.1, familiar=True))
        reliable: removing “penalties”, “final” should lower the probability by 0.30 to 0.50 (90 % of texts)
    """

    words: Annotated[tuple[UnicodeText, ...], Field(strict=False)]
    effect: Number
    bound: NonNegativeFloat
    familiar: bool

    @computed_field  # type: ignore[prop-decorator]
    @property
    def verdict(self) -> Verdict:
        """`reliable` if the bound is at most half of the effect, else `check`: ask a slower method, or more passes."""
        if self.familiar and self.bound <= RELIABLE * self.effect:
            return "reliable"
        return "check"

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self, output: str = "probability") -> str:
        """Return the verdict with what the words' removal should do.

        Args:
            output: what the classifier returns: probability or value.
        """
        if not self.familiar:
            return f"{self.verdict}: the text is unlike the explainer's training texts"
        words = ", ".join(f"“{word}”" for word in self.words)
        low = self.effect - self.bound
        high = self.effect + self.bound
        if output == "probability":
            high = min(high, 1.0)
        fall = f"{low:.2f} to {high:.2f}"
        if round(low, 2) < 0:
            fall = f"at most {high:.2f}"
        return (
            f"{self.verdict}: removing {words} should lower the {output} by {fall} ({COVERAGE:.0%} of texts)".replace(
                "%", " %"
            )
        )


def certify(estimate: Sequence[float], words: Sequence[str], scores: NDArray[np.floating]) -> Certificate:
    """Return the certificate of a text's scores.

    Args:
        estimate: the bound, and 1 for a familiar text, else 0.
        words: the text's words.
        scores: their scores, (words,), NaN where a word was not read.
    """
    bound, familiar = estimate
    top = np.flatnonzero(top_words(scores) & ~np.isnan(scores)).tolist()
    return Certificate(
        words=tuple(words[position] for position in top),
        effect=float(scores[top].sum()),
        bound=bound,
        familiar=familiar > 0,
    )


def top_words(scores: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Say which words have the TOP_WORDS largest scores, bool, (words,)."""
    top = np.zeros(len(scores), dtype=bool)
    top[np.argsort(-scores, kind="stable")[:TOP_WORDS]] = True
    return top

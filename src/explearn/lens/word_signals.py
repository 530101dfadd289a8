"""The word scores of several methods for one text, side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explearn.core.arrays import Array32, Mask

SIGNALS: tuple[str, ...] = ("rollout", "gae", "gradient", "attn_lrp")
"""The methods whose word scores are the signals, in the order of the columns of `WordSignals.scores`."""


@dataclass(frozen=True, slots=True, eq=False)
class WordSignals:
    """The signals of one text's words.

    Attributes:
        words: of both segments for a pair.
        predicted: name of the predicted class.
        probability: of the class that the signals explain.
        scores: float32, (words, len(SIGNALS)). NaN: the column of a signal that was not requested or that the
            classifier's architecture does not allow, and the row of a word that the classifier did not read.
        target: name of the class that the signals explain.
    """

    example_id: str
    words: tuple[str, ...]
    predicted: str
    probability: float
    scores: Array32
    target: str

    @property
    def read(self) -> Mask:
        """Return which words the classifier read, bool, (words,): those that have a signal."""
        return np.asarray(~np.isnan(self.scores).all(-1))

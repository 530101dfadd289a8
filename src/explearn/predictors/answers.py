"""A predictor's answers to changed texts, each distinct input asked once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from explearn.core.arrays import Array
from explearn.core.errors import UnansweredError

if TYPE_CHECKING:
    # They import torch, which takes seconds; reading results does not need it.
    from explearn.predictors.labelled import Output
    from explearn.predictors.predictor import Predictor
    from explearn.text.encoding import Encoding, Text

MOST_KEPT = 2**16
"""Most inputs that a call leaves in the cache: 300 MB with 512 sub-tokens each."""


class Answers:
    """A predictor's answers to inputs; those that look alike to the model (`Encoding.key`) are asked once.

    `ask` for texts at once; or `request` all inputs that are needed, `evaluate` the new ones in one batched pass, and
    read `probabilities`. Methods, metrics and audits may share one object: what one has asked, the next need not.

    Attributes:
        predictor: the predictor that is asked.
        logits: float64, (evaluated inputs, C); NaN for an input to which the predictor gives no answer.
        probabilities: the same as probabilities; of a regression, its values.

    Args:
        predictor: the predictor that is asked.

    Example:
        >>> from explearn.testing import make_classifier
        >>> answers = Answers(make_classifier())
        >>> answers.ask(["a warm sequel", "a sequel", "a sequel"]).shape, answers.logits.shape
        ((3, 2), (2, 2))
    """

    logits: Array
    probabilities: Array

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor
        self._unanswered: UnansweredError | None = None
        self._clear()

    def _clear(self) -> None:
        self.logits = np.zeros((0, len(self.predictor.labels)))
        self.probabilities = self.logits
        self._rows: dict[object, int] = {}
        self._waiting: list[Encoding] = []

    def ask(
        self, texts: Iterable[Encoding] | Iterable[Text], output: Output = "probability", *, gaps: bool = False
    ) -> Array:
        """Return the predictions for n texts, (n, C).

        Args:
            texts: the texts, or encodings of them.
            output: which numbers of the classes.
            gaps: return NaN for a text without an answer.

        Raises:
            ModelError: a logit is not finite.
            UnansweredError: there is no answer to a text; all were asked about.
            UnsupportedError: the log-probability of a regression.
        """
        rows = [self.request(encoding) for encoding in self.predictor.read(texts)]
        self.evaluate()
        values = self.probabilities[rows]
        if output != "probability":
            values = self._outputs(self.logits[rows], output)
        if len(self._rows) > MOST_KEPT:
            self._clear()
        if not gaps and np.isnan(values).any():
            assert self._unanswered is not None  # it gave no number
            raise self._unanswered
        return values

    def request(self, encoding: Encoding) -> int:
        """Return the row of `probabilities` that holds this input's prediction after the next `evaluate`.

        Args:
            encoding: the input.
        """
        known = len(self._rows)
        row = self._rows.setdefault(encoding.key, known)
        if row == known:
            self._waiting.append(encoding)
        return row

    def evaluate(self, description: str | None = None) -> None:
        """Predict what was requested since the last call.

        Args:
            description: text of a progress bar. None: no bar.
        """
        if not self._waiting:
            return
        logits = self._known_logits(self._waiting, description)
        self._waiting = []
        self.logits = np.concatenate([self.logits, logits])
        self.probabilities = np.concatenate([self.probabilities, self._outputs(logits, "probability")])

    def _known_logits(self, encodings: Sequence[Encoding], description: str | None = None) -> Array:
        """Return logits, (n, C), NaN without an answer, by asking about halves of what has some without."""
        try:
            return self.predictor.predict_logits(encodings, description)
        except UnansweredError as error:
            self._unanswered = self._unanswered or error
            if len(encodings) == 1:
                return np.full((1, len(self.predictor.labels)), np.nan)
        half = len(encodings) // 2
        return np.concatenate([self._known_logits(encodings[:half]), self._known_logits(encodings[half:])])

    def _outputs(self, logits: Array, output: Output) -> Array:
        import torch

        return np.asarray(self.predictor.problem.outputs(torch.from_numpy(logits), output))

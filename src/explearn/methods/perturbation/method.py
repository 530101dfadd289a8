"""Base class of perturbation methods."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from explearn.core.errors import ModelError, UnsupportedError
from explearn.core.seeds import numpy_seeded
from explearn.methods.base import outputs as torch_outputs
from explearn.methods.base.explainer import Explainer, TextScores
from explearn.methods.base.outputs import Output
from explearn.methods.perturbation.inputs import PerturbedText
from explearn.predictors.cached import Ask, CachedPredictions
from explearn.predictors.encoding import Encoding
from explearn.predictors.predictor import Predictor
from explearn.text.encoding import Removal


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of one text.

    Attributes:
        scores: score of each sub-token, (tokens,).
        completeness_error: by how much the scores miss the number to which they should add up; None: there is none.
    """

    scores: NDArray[np.float64]
    completeness_error: float | None = None


class PerturbationExplainer(Explainer):
    """Base of methods that use predictions for perturbed copies of a text.

    Subclasses score one text.
    """

    needs_model = False
    perturbs = True
    additive: ClassVar[bool] = False
    """Whether scores add up to f(text) - f(text without any word)."""

    @abstractmethod
    def score_text(self, classifier: Predictor, text: PerturbedText, target: int, ask: Ask) -> Scored:
        """Score every sub-token of a text of at least one word."""

    def check_text(self, text: PerturbedText) -> None:
        """Raise UnsupportedError for a text that the method does not support, before anything is computed."""

    def check(self, classifier: Predictor) -> None:
        # A method without the option masks.
        check_mask_token(classifier, getattr(self.options, "removal", "mask"))

    def score_texts(
        self, classifier: Predictor, encodings: Sequence[Encoding], targets: Sequence[int] | None
    ) -> list[TextScores]:
        start = time.perf_counter()
        texts = [PerturbedText(encoding, stand_in(classifier)) for encoding in encodings]
        for text in texts:
            self.check_text(text)
        predict = CachedPredictions(classifier, classifier.predict_logits)
        logits = predict(encodings)
        chosen = targets
        if chosen is None:
            chosen = logits.argmax(-1).tolist()
        classified = (time.perf_counter() - start) / max(1, len(texts))
        results = []
        # Libraries draw from numpy's global generator; seeding it makes a text's copies independent of other texts.
        with numpy_seeded(0):
            for text, row, target in zip(texts, logits, chosen, strict=True):
                start = time.perf_counter()
                np.random.seed(getattr(self.options, "seed", 0))
                scored = Scored(np.zeros(len(text.encoding)))
                if self.additive:
                    scored = Scored(scored.scores, completeness_error=0.0)
                if len(text):
                    scored = self.score_text(classifier, text, target, predict)
                seconds = classified + time.perf_counter() - start
                results.append(TextScores(scored.scores, row, target, seconds, scored.completeness_error))
        return results


def stand_in(classifier: Predictor) -> int:
    """Return the id of the mask token, or of padding for classifiers without one, whose words can only be deleted."""
    try:
        return classifier.mask_token_id
    except ModelError:
        return classifier.pad_token_id


def check_mask_token(classifier: Predictor, removal: Removal) -> None:
    """Raise UnsupportedError if words are to be masked but the tokenizer has no token to mask them with."""
    if removal == "mask":
        try:
            classifier.mask_token_id  # noqa: B018
        except ModelError as error:
            raise UnsupportedError(f"{error}; use removal=delete") from error


def outputs(classifier: Predictor, logits: NDArray[np.float64], output: Output) -> NDArray[np.float64]:
    """Return the explained numbers of all classes, (n, C), of logits (n, C).

    Raises:
        UnsupportedError: the log-probability of a regression.
    """
    return torch_outputs.outputs(classifier, torch.from_numpy(logits), output).numpy()

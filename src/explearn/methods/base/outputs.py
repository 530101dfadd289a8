"""The numbers of a classifier that methods explain."""

from __future__ import annotations

from typing import Literal

import torch

from explearn.predictors.labelled import Problem
from explearn.predictors.predictor import Predictor

Output = Literal["logit", "probability", "log_probability"]


def outputs(classifier: Predictor, logits: torch.Tensor, output: Output) -> torch.Tensor:
    """Return the explained numbers of all classes, (n, C).

    A regression has no probabilities: `probability`, the default of most methods of perturbation, is its value, as
    `logit` is.

    Args:
        classifier: says how its logits become probabilities.
        logits: (n, C).
        output: which number.

    Raises:
        UnsupportedError: the log-probability of a regression.
    """
    if output == "logit" or (output == "probability" and classifier.problem is Problem.REGRESSION):
        return logits
    if output == "probability":
        return classifier.probabilities(logits)
    return classifier.log_probabilities(logits)

"""Which number of the classifier a gradient is taken of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

if TYPE_CHECKING:
    # transformers takes seconds to import, and the names of outputs need none of it.
    from explearn.model.classifier import Classifier

Output = Literal["logit", "probability", "log_probability"]


def select_output(classifier: Classifier, logits: torch.Tensor, targets: torch.Tensor, output: Output) -> torch.Tensor:
    """The explained number of each text, shape (batch,): the target's logit, probability or log-probability.

    Raises UnsupportedError for a probability of a regression.
    """
    values = {
        "logit": lambda: logits,
        "probability": lambda: classifier.probabilities(logits),
        "log_probability": lambda: classifier.log_probabilities(logits),
    }[output]()
    return values.gather(-1, targets[:, None]).squeeze(-1)

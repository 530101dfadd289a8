"""The numbers of a classifier that methods explain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

if TYPE_CHECKING:
    # transformers takes seconds to import, and the names of outputs need none of it.
    from explearn.predictors.transformer import TransformerPredictor

Output = Literal["logit", "probability", "log_probability"]


def outputs(classifier: TransformerPredictor, logits: torch.Tensor, output: Output) -> torch.Tensor:
    """Return the numbers of all classes, (n, C). Raises UnsupportedError for a probability of a regression."""
    if output == "logit":
        return logits
    return classifier.probabilities(logits) if output == "probability" else classifier.log_probabilities(logits)

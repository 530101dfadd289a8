"""Gradients at the word embeddings, computed by captum."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from captum.attr import LayerGradientXActivation

from explearn.errors import ParamsError
from explearn.explainer import BatchScores, Explainer, resolve_targets
from explearn.models.classifier import Classifier
from explearn.models.encoding import Batch

Output = Literal["logit", "probability", "log_probability"]


def select_output(logits: torch.Tensor, targets: torch.Tensor, output: Output) -> torch.Tensor:
    """The explained number of each text, shape (batch,): the target's logit, probability or log-probability."""
    values = {
        "logit": lambda: logits,
        "probability": lambda: logits.softmax(-1),
        "log_probability": lambda: logits.log_softmax(-1),
    }[output]()
    return values.gather(-1, targets[:, None]).squeeze(-1)


class InputXGradient(Explainer):
    """Input x gradient: sum over features of e_j * d f / d e_j, with e_j the word embedding of sub-token j.

    Signed, and additive over pieces. Source: Shrikumar et al. (2016); computed by captum's LayerGradientXActivation on
    the word-embedding layer.

    Args:
        output: what is explained: the target's `logit`, `probability` or `log_probability`.
    """

    aggregation = "sum"
    signed = True

    def __init__(self, output: Output = "logit") -> None:
        if output not in get_args(Output):
            raise ParamsError(f"output: got {output!r}; expected one of {', '.join(get_args(Output))}")
        self.output = output

    def score_batch(self, classifier: Classifier, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        seen: dict[str, torch.Tensor] = {}

        def explained(input_ids: torch.Tensor, inputs: dict[str, Any]) -> torch.Tensor:
            with classifier.autocast():
                logits = classifier.model(**{**inputs, "input_ids": input_ids}).logits.float()
            seen["logits"] = logits.detach()
            seen["targets"] = resolve_targets(seen["logits"], targets)
            return select_output(logits, seen["targets"], self.output)

        method = LayerGradientXActivation(explained, classifier.model.get_input_embeddings())
        products = method.attribute(batch.input_ids, additional_forward_args=(batch.model_inputs(),))
        return BatchScores(products.sum(-1), seen["logits"], seen["targets"])

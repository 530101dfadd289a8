"""Input x gradient, computed by captum."""

from __future__ import annotations

from typing import Any

import torch
from captum.attr import LayerGradientXActivation

from explearn.baselines.gradient.outputs import Output, check_output, select_output
from explearn.explainer import BatchScores, Explainer, resolve_targets
from explearn.models.classifier import Classifier
from explearn.models.encoding import Batch


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
        check_output(output)
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

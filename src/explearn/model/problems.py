"""The kinds of output that a model can have: one class of several, labels that each hold or not, or a value.

A saved model says it in its configuration, as `problem_type`, and by the number of its outputs (`problem_of`). All that
turns outputs into probabilities is in `Answers`, a base of the classifier.

A head with one output z, whose probability is sigmoid(z), becomes one with two: -z for the class that the model does
not name and z for the one it does (`with_both_classes`). So every method has two classes to explain, and gradients and
relevance of one are the negative of the other's.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from explearn.core.errors import ModelError, UnsupportedError
from explearn.model.labelled import CLASSES as CLASSES  # noqa: PLC0414 (taken from here)
from explearn.model.labelled import ONE_CLASS as ONE_CLASS  # noqa: PLC0414
from explearn.model.labelled import Labelled
from explearn.model.labelled import Problem as Problem  # noqa: PLC0414

if TYPE_CHECKING:
    import transformers

ONE_OUTPUT = "one_output"
"""Name in the configuration of a model whose head was given its second class here; it is saved with the model."""


class Answers(Labelled):
    """Base of classifiers in torch: from logits to probabilities and losses."""

    def probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """Return the classes' probabilities, (.., C), of logits (.., C). Raises UnsupportedError for a regression."""
        if self.problem is Problem.MULTI_LABEL:
            return logits.sigmoid()
        return self.softmax_logits(logits).softmax(-1)

    def log_probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """Return their natural logarithms, without rounding where a probability is almost 0."""
        if self.problem is Problem.MULTI_LABEL:
            return functional.logsigmoid(logits)
        return self.softmax_logits(logits).log_softmax(-1)

    def softmax_logits(self, logits: torch.Tensor) -> torch.Tensor:
        """Return numbers whose softmax is the classes' probabilities, for losses over one class of several.

        They are the logits, except of a model with one logit z: there half of -z and z, for the sigmoid of z. Raises
        UnsupportedError where no class excludes the others.
        """
        if self.problem not in ONE_CLASS:
            raise UnsupportedError(self.why_not(ONE_CLASS))
        return logits / 2 if self.problem is Problem.BINARY else logits


def label_maps(labels: Iterable[str]) -> dict[str, Any]:
    """Return the entries of a model's configuration that name its classes."""
    names = list(labels)
    return {"id2label": dict(enumerate(names)), "label2id": {label: index for index, label in enumerate(names)}}


def problem_of(config: Any) -> Problem:
    """Return what a model's configuration says of its outputs.

    `problem_type` decides; where there is none, one output is taken as the logit of a class.
    """
    problem_type = getattr(config, "problem_type", None)
    if problem_type == "regression":
        return Problem.REGRESSION
    if len(config.id2label) == 1 or getattr(config, ONE_OUTPUT, False):
        return Problem.BINARY
    return Problem.MULTI_LABEL if problem_type == "multi_label_classification" else Problem.SINGLE_LABEL


def with_both_classes(model: transformers.PreTrainedModel, name: str = "") -> transformers.PreTrainedModel:
    """Make a model with two outputs, -z and z, from one with the output z; return others as they are.

    All weights but those of the last layer are shared with the model given, which stays as it is. The classes are
    "not NAME" and NAME, with the model's own name of its class.

    Raises ModelError where several layers could give the output.
    """
    if problem_of(model.config) is not Problem.BINARY or len(model.config.id2label or ()) != 1:
        return model
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    copied: Any = copy.deepcopy(model, shared)
    modules = copied.named_modules()
    layers = [(path, layer) for path, layer in modules if isinstance(layer, nn.Linear) and layer.out_features == 1]
    if len(layers) != 1:
        raise ModelError(
            f"{name or 'the classifier'}: has one output, and {len(layers)} linear layers that could give it; expected "
            "one, to add the other class to"
        )
    ((path, layer),) = layers
    both = nn.Linear(layer.in_features, 2, bias=layer.bias is not None, device="meta")
    for kind, value in layer.named_parameters():
        setattr(both, kind, nn.Parameter(torch.cat([-value.detach(), value.detach()])))
    copied.set_submodule(path, both)
    (label,) = copied.config.id2label.values()
    copied.config.update({**label_maps([f"not {label}", str(label)]), ONE_OUTPUT: True})
    copied.num_labels = 2
    return copied  # type: ignore[no-any-return]

"""What the numbers are that a model puts out: one class of several, labels that each hold or not, or a value.

A saved model says it in its configuration, as `problem_type`, and by the number of its outputs (`problem_of`). All that
turns outputs into probabilities asks `Problem`, by way of the classifier.

A head with one output z, whose probability is sigmoid(z), becomes one with two: -z for the class that the model does
not name and z for the one it does (`with_both_classes`). So every method has two classes to explain, and gradients and
relevance of one are the negative of the other's.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from explearn.core.arguments import ARRAY, SEVERAL, TENSOR, arguments
from explearn.core.errors import ModelError, UnsupportedError

if TYPE_CHECKING:
    import transformers

ONE_OUTPUT = "one_output"
"""Name in the configuration of a model whose head was given its second class here; it is saved with the model."""

HOLDS_FROM = 0.5
"""Probability from which a label of a multi-label classifier holds."""


class Problem(StrEnum):
    """How outputs become probabilities.

    SINGLE_LABEL: softmax. BINARY: of outputs -z and z, the sigmoid of each, taken as the softmax of their halves.
    MULTI_LABEL: the sigmoid of each. REGRESSION: there are none; an output is a value.
    """

    SINGLE_LABEL = "single_label"
    BINARY = "binary"
    MULTI_LABEL = "multi_label"
    REGRESSION = "regression"

    def probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """Probabilities, (.., C), of logits (.., C). Raises UnsupportedError for a regression."""
        if self is Problem.MULTI_LABEL:
            return logits.sigmoid()
        return self.softmax_logits(logits).softmax(-1)

    def log_probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """Their natural logarithms, without rounding where a probability is almost 0."""
        if self is Problem.MULTI_LABEL:
            return functional.logsigmoid(logits)
        return self.softmax_logits(logits).log_softmax(-1)

    def softmax_logits(self, logits: torch.Tensor) -> torch.Tensor:
        """Numbers whose softmax is the classes' probabilities, for losses over one class of several.

        Raises UnsupportedError where no class excludes the others.
        """
        if self is Problem.SINGLE_LABEL:
            return logits
        if self is Problem.BINARY:
            return logits / 2
        raise UnsupportedError(f"{_SAID[self]}; expected one class of several")

    def probabilities_of_array(self, logits: NDArray[np.float64], log: bool = False) -> NDArray[np.float64]:
        """As `probabilities`, or `log_probabilities` if `log`, for an array, (.., C)."""
        # scipy takes a while to load, and not every user of this module needs it.
        from scipy import special

        if self is Problem.MULTI_LABEL:
            return np.asarray((special.log_expit if log else special.expit)(logits))
        if self is Problem.REGRESSION:
            raise UnsupportedError(f"{_SAID[self]}; expected one class of several")
        scaled = logits / 2 if self is Problem.BINARY else logits
        return np.asarray((special.log_softmax if log else special.softmax)(scaled, axis=-1))


ONE_CLASS = frozenset({Problem.SINGLE_LABEL, Problem.BINARY})
"""Problems in which a text is of one class of several."""

CLASSES = ONE_CLASS | {Problem.MULTI_LABEL}
"""Problems with probabilities."""

_SAID = {
    Problem.MULTI_LABEL: "the classifier gives labels that do not exclude each other (multi-label)",
    Problem.REGRESSION: "the model gives a value and no class (regression)",
}


class Answers:
    """Base of classifiers: what their logits say.

    Attributes:
        name: for messages. problem: how logits become probabilities.
    """

    name: str
    problem: Problem

    @arguments(logits=TENSOR)
    def probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """Probabilities of the classes, (.., C), from logits (.., C). Raises UnsupportedError for a regression."""
        with self._named():
            return self.problem.probabilities(logits)

    @arguments(logits=TENSOR)
    def log_probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """Natural logarithms of the probabilities."""
        with self._named():
            return self.problem.log_probabilities(logits)

    @arguments(logits=TENSOR)
    def softmax_logits(self, logits: torch.Tensor) -> torch.Tensor:
        """Numbers whose softmax is the probabilities; raises UnsupportedError where classes do not exclude each other.

        They are the logits, except of a model with one logit z: there half of -z and z, for the sigmoid of z.
        """
        with self._named():
            return self.problem.softmax_logits(logits)

    @arguments(probabilities=ARRAY)
    def asked(self, probabilities: NDArray[np.float64]) -> list[int]:
        """Classes to explain where none is asked for, from a text's probabilities, (C,): the most probable one.

        Of a multi-label classifier each label whose probability is at least one half, or the most probable one.
        """
        held = np.flatnonzero(probabilities >= HOLDS_FROM) if self.problem is Problem.MULTI_LABEL else ()
        return [int(label) for label in held] or [int(probabilities.argmax())]

    @arguments(problems=SEVERAL)
    def why_not(self, problems: Collection[Problem]) -> str:
        """Why what is defined for `problems` alone is not for this classifier, for an error's message."""
        expected = "one class of several" if Problem.MULTI_LABEL not in problems else "classes"
        return f"{self.name or 'this classifier'}: {_SAID.get(self.problem, self.problem)}; expected {expected}"

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Say in an error which classifier it is about."""
        try:
            yield
        except UnsupportedError as error:
            raise UnsupportedError(f"{self.name or 'this classifier'}: {error}") from error


def problem_of(config: Any) -> Problem:
    """What a model's configuration says of its outputs.

    `problem_type` decides; where there is none, one output is taken as the logit of a class.
    """
    said = getattr(config, "problem_type", None)
    if said == "regression":
        return Problem.REGRESSION
    if len(config.id2label) == 1 or getattr(config, ONE_OUTPUT, False):
        return Problem.BINARY
    return Problem.MULTI_LABEL if said == "multi_label_classification" else Problem.SINGLE_LABEL


def with_both_classes(model: transformers.PreTrainedModel, name: str = "") -> transformers.PreTrainedModel:
    """A model with two outputs, -z and z, from one with the output z; others are returned as they are.

    All weights but those of the last layer are shared with the model given, which stays as it is. The classes are
    "not NAME" and NAME, with the model's own name of its class.

    Raises ModelError where it cannot be told which layer gives the output.
    """
    if problem_of(model.config) is not Problem.BINARY or len(model.config.id2label or ()) != 1:
        return model
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    found = copy.deepcopy(model, shared)
    layers = [
        (path, layer)
        for path, layer in found.named_modules()
        if isinstance(layer, nn.Linear) and layer.out_features == 1
    ]
    if len(layers) != 1:
        raise ModelError(
            f"{name or 'the classifier'}: has one output, and {len(layers)} linear layers that could give it; expected "
            "one, to add the other class to"
        )
    ((path, layer),) = layers
    both = nn.Linear(layer.in_features, 2, bias=layer.bias is not None, dtype=layer.weight.dtype, device="meta")
    both.weight = nn.Parameter(torch.cat([-layer.weight.detach(), layer.weight.detach()]))
    if layer.bias is not None:
        both.bias = nn.Parameter(torch.cat([-layer.bias.detach(), layer.bias.detach()]))
    found.set_submodule(path, both)
    (label,) = (found.config.id2label or {}).values()
    found.config.id2label = {0: f"not {label}", 1: str(label)}
    found.config.label2id = {f"not {label}": 0, str(label): 1}
    setattr(found.config, ONE_OUTPUT, True)
    made: Any = found
    if hasattr(made, "num_labels"):
        made.num_labels = 2
    return found

"""Classes and answers of a classifier, in numpy: without torch, for readers of other runtimes as well."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from explearn.core.errors import ParamsError, UnknownNameError, shown

HOLDS_FROM = 0.5
"""Probability from which a label of a multi-label classifier holds."""


class Problem(StrEnum):
    """The way in which outputs become probabilities.

    SINGLE_LABEL: softmax. BINARY: of outputs -z and z, the sigmoid of each, taken as the softmax of their halves.
    MULTI_LABEL: the sigmoid of each. REGRESSION: there are none; an output is a value.
    """

    SINGLE_LABEL = "single_label"
    BINARY = "binary"
    MULTI_LABEL = "multi_label"
    REGRESSION = "regression"


ONE_CLASS = frozenset({Problem.SINGLE_LABEL, Problem.BINARY})
"""Problems in which a text is of one class of several."""

CLASSES = ONE_CLASS | {Problem.MULTI_LABEL}
"""Problems with probabilities."""


class Labelled:
    """Base of classifiers.

    Attributes:
        name: for messages.
        labels: names of the C classes.
        problem: how logits become probabilities.
        short_names: other names of outputs -> their index, where the labels say more than a class.
        of_classes: whether the values of a regression stand for classes, of which the largest alone is explained by
            default (`problems.Answers.versus`).
    """

    name: str
    labels: list[str]
    problem: Problem
    short_names: Mapping[str, int] = {}
    of_classes: bool = False

    def probabilities_of(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the classes' probabilities, (.., C), of logits (.., C)."""
        if self.problem is Problem.MULTI_LABEL:
            return np.asarray(expit(logits))
        # Of one output z the logits are -z and z, and its sigmoid is the softmax of their halves.
        return np.asarray(softmax(logits / 2 if self.problem is Problem.BINARY else logits, axis=-1))

    def label_index(self, target: int | str) -> int:
        """Return the index of a class given by name or index; raise UnknownNameError for another."""
        if isinstance(target, str):
            if target in self.short_names:
                return self.short_names[target]
            if target not in self.labels:
                raise UnknownNameError("label", target, self.labels)
            return self.labels.index(target)
        try:
            number = operator.index(target)  # of Python, numpy or torch
        except (TypeError, ValueError):
            number = None
        if number is None or isinstance(target, bool) or str(getattr(target, "dtype", "")) == "torch.bool":
            raise ParamsError(f"target: got {shown(target)}; expected the name of a class or its number")
        if not 0 <= number < len(self.labels):
            raise UnknownNameError("label index", str(number), map(str, range(len(self.labels))))
        return number

    def default_targets(self, probabilities: NDArray[np.float64]) -> list[int]:
        """Return the class to explain by default from a text's probabilities, (C,): the most probable one.

        Of a multi-label classifier these are the labels with a probability of at least one half, if there are any.
        """
        holding = np.flatnonzero(probabilities >= HOLDS_FROM) if self.problem is Problem.MULTI_LABEL else ()
        return [int(label) for label in holding] or [int(probabilities.argmax())]

    def why_not(self, problems: Collection[Problem]) -> str:
        """Say for an error why what is defined for `problems` alone is not for this classifier."""
        kinds = {
            Problem.MULTI_LABEL: "the classifier gives labels that do not exclude each other (multi-label)",
            Problem.REGRESSION: "the model gives a value and no class (regression)",
        }
        expected = "classes" if Problem.MULTI_LABEL in problems else "one class of several"
        return f"{self.name or 'this classifier'}: {kinds.get(self.problem, self.problem)}; expected {expected}"

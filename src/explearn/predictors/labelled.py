"""Classes and answers of a classifier, in numpy: without torch, for readers of other runtimes as well."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from textwrap import shorten
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from explearn.core.arrays import Array
from explearn.core.errors import ModelError, ParamsError, UnknownNameError, shown

HOLDS_FROM = 0.5
"""Probability from which a label of a multi-label classifier applies."""

SHOWN_CHARS = 200
"""Characters of a list of labels that an error shows."""


class Problem(StrEnum):
    """The way in which outputs become probabilities.

    Attributes:
        SINGLE_LABEL: softmax.
        BINARY: the sigmoid of each of the outputs -z and z, which is the softmax of their halves.
        MULTI_LABEL: the sigmoid of each output.
        REGRESSION: an output is a value; there are no probabilities.
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
        name: name for messages.
        labels: names of the C classes.
        problem: how logits become probabilities.
        short_names: other names of outputs -> their index, if a label is more than the name of a class.
        by_class: whether the values of a regression stand for classes; only the largest is then explained by default
            (`Predictor.versus`).
        top: how many classes are explained by default, the most probable first.
    """

    name: str
    labels: list[str]
    problem: Problem
    short_names: Mapping[str, int] = {}
    by_class: bool = False
    top: int = 1

    def probabilities_of(self, logits: Array) -> Array:
        """Return the classes' probabilities, (.., C), of logits (.., C).

        Args:
            logits: logits, (.., C).
        """
        if self.problem is Problem.MULTI_LABEL:
            return np.asarray(expit(logits))
        if self.problem is Problem.BINARY:
            logits = logits / 2
        return np.asarray(softmax(logits, axis=-1))

    def label_index(self, target: int | str) -> int:
        """Return the index of a class given by name or index.

        Args:
            target: name of the class, or its index from 0.

        Raises:
            UnknownNameError: there is no such class.
            ParamsError: neither a name nor an integer.
        """
        if isinstance(target, str):
            if target in self.short_names:
                return self.short_names[target]
            if target not in self.labels:
                raise UnknownNameError("class", target, self.labels)
            return self.labels.index(target)
        refusal = ParamsError(f"target: got {shown(target)}; expected the name of a class or its number")
        if isinstance(target, bool) or str(getattr(target, "dtype", "")) == "torch.bool":
            raise refusal
        try:
            number = operator.index(target)  # of Python, numpy or torch
        except (TypeError, ValueError):
            raise refusal from None
        if not 0 <= number < len(self.labels):
            raise UnknownNameError("class index", str(number), map(str, range(len(self.labels))))
        return number

    def default_targets(self, probabilities: Array) -> list[int]:
        """Return the classes to explain by default from a text's probabilities, (C,).

        They are the `top` most probable classes; for a multi-label classifier every label with a probability of at
        least one half, if there is one and `top` is 1.

        Args:
            probabilities: probabilities of the classes, (C,).
        """
        if self.top == 1 and self.problem is Problem.MULTI_LABEL and probabilities.max() >= HOLDS_FROM:
            return [int(label) for label in np.flatnonzero(probabilities >= HOLDS_FROM)]
        return [int(label) for label in np.argsort(-probabilities, kind="stable")[: self.top]]

    def why_not(self, problems: Collection[Problem]) -> str:
        """Return an error message: what was asked for needs one of these problems, and this classifier has another.

        Args:
            problems: the problems that would do.
        """
        kinds = {
            Problem.MULTI_LABEL: "the classifier gives labels that do not exclude each other (multi-label)",
            Problem.REGRESSION: "the model gives a value and no class (regression)",
        }
        expected = "one class of several"
        if Problem.MULTI_LABEL in problems:
            expected = "classes"
        return f"{self.name or 'this classifier'}: {kinds.get(self.problem, self.problem)}; expected {expected}"


def check_labels(name: str, classes: Sequence[str], labels: Collection[str], remedy: str) -> None:
    """Check that every label of some texts is a class of the classifier.

    Args:
        name: name of the classifier.
        classes: its classes.
        labels: the texts' labels.
        remedy: how to map labels to classes, for the message.

    Raises:
        ModelError: a label is not a class.
    """
    if not set(labels) <= set(classes):
        shown_classes = shorten(", ".join(classes), SHOWN_CHARS, placeholder=" ...")
        shown_labels = shorten(", ".join(map(repr, labels)), SHOWN_CHARS, placeholder=" ...")
        raise ModelError(
            f"{name}: its classes are {shown_classes}, the texts' labels are {shown_labels}; expected every label "
            f"among the classes; {remedy}"
        )


def check_logits(logits: NDArray[Any], what: str) -> None:
    """Raise ModelError if a logit, or a probability computed from it, is NaN or infinite.

    Args:
        logits: numbers, of any shape.
        what: the classifier's name, for the message.
    """
    if not np.isfinite(logits).all():
        raise ModelError(
            f"{what or 'the classifier'}: gave a logit that is not finite; its weights are damaged, or it overflows in "
            "this precision"
        )

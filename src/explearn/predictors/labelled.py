"""Classes and answers of a classifier, in numpy: without torch, for readers of other runtimes as well."""

from __future__ import annotations

import logging
import operator
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from explearn.core.arguments import is_pair
from explearn.core.arrays import Array
from explearn.core.errors import ModelError, ParamsError, UnknownNameError, UnsupportedError, shown

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)

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

    Example:
        >>> import torch
        >>> from explearn import Problem
        >>> Problem.MULTI_LABEL.probabilities(torch.zeros(1, 2))
        tensor([[0.5000, 0.5000]])
    """

    SINGLE_LABEL = "single_label"
    BINARY = "binary"
    MULTI_LABEL = "multi_label"
    REGRESSION = "regression"

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return the classes' probabilities, (.., C), of logits (.., C).

        Args:
            logits: logits, (.., C).

        Raises:
            UnsupportedError: this is a regression.
        """
        if self is Problem.MULTI_LABEL:
            return logits.sigmoid()
        return self.softmax_logits(logits).softmax(-1)

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Return the probabilities' natural logarithms, without rounding errors for a probability near 0.

        Args:
            logits: logits, (.., C).

        Raises:
            UnsupportedError: this is a regression.
        """
        if self is Problem.MULTI_LABEL:
            from torch.nn import functional

            return functional.logsigmoid(logits)
        return self.softmax_logits(logits).log_softmax(-1)

    def softmax_logits(self, logits: Tensor) -> Tensor:
        """Return numbers whose softmax is the classes' probabilities, for losses over one class of several.

        They are the logits; for a model with one logit z, half of -z and z, since its probability is sigmoid(z).

        Args:
            logits: logits, (.., C).

        Raises:
            UnsupportedError: the classes do not exclude each other.
        """
        if self not in ONE_CLASS:
            raise UnsupportedError(f"{GIVES[self]}; expected one class of several")
        if self is Problem.BINARY:
            return logits / 2
        return logits

    def outputs(self, logits: Tensor, output: Output) -> Tensor:
        """Return the explained numbers of all classes, (n, C).

        A regression has no probabilities: `probability`, the default of most methods of perturbation, is its value, as
        `logit` is.

        Args:
            logits: (n, C).
            output: which number.

        Raises:
            UnsupportedError: the log-probability of a regression.
        """
        if output == "logit" or (output == "probability" and self is Problem.REGRESSION):
            return logits
        if output == "probability":
            return self.probabilities(logits)
        return self.log_probabilities(logits)

    def probabilities_of(self, logits: Array) -> Array:
        """Return the classes' probabilities, (.., C), of logits (.., C), both arrays of numpy.

        Args:
            logits: logits, (.., C).
        """
        if self is Problem.MULTI_LABEL:
            return np.asarray(expit(logits))
        if self is Problem.BINARY:
            logits = logits / 2
        return np.asarray(softmax(logits, axis=-1))


Output = Literal["logit", "probability", "log_probability"]
"""A number of a class that methods explain."""

ONE_CLASS = frozenset({Problem.SINGLE_LABEL, Problem.BINARY})
"""Problems in which a text is of one class of several."""

CLASSES = ONE_CLASS | {Problem.MULTI_LABEL}
"""Problems with probabilities."""

GIVES = {
    Problem.SINGLE_LABEL: "the classifier gives one class of several",
    Problem.BINARY: "the classifier gives one class of two",
    Problem.MULTI_LABEL: "the classifier gives labels that do not exclude each other (multi-label)",
    Problem.REGRESSION: "the model gives a value and no class (regression)",
}
"""What a model gives, for error messages."""


Use = Literal[
    "windows", "units", "interactions", "records", "jobs", "service", "onnx", "training", "students", "masks", "removal"
]
"""What may be done with a predictor, and some predictors refuse: long texts read through windows, other units than
words, interactions of words, records of decisions, large jobs, the service, export to ONNX, training explainers,
students that predict its classes (IvRA), masks of whole texts (AML), words removed at random while fine-tuning."""

FOR_TEXTS: tuple[Use, ...] = ("interactions", "records", "service", "onnx", "masks")
"""What needs a classifier of whole texts."""


class Labelled:
    """Base of classifiers.

    Attributes:
        name: name for messages.
        labels: names of the C classes.
        problem: how logits become probabilities.
        classes: the classes of which a regression's values are, where each value is of one; only the largest is then
            explained by default, and a target may be given as the class (`explearn.versus`). Empty for others.
        top: how many classes are explained by default, the most probable first.
        refuses: what cannot be done with it -> why.
    """

    name: str
    labels: list[str]
    problem: Problem
    classes: Sequence[str] = ()
    top: int = 1
    refuses: Mapping[Use, str] = {}

    def label_index(self, target: int | str) -> int:
        """Return the index of a class given by name or index.

        Args:
            target: name of the class, or its index from 0.

        Raises:
            UnknownNameError: there is no such class.
            ParamsError: neither a name nor an integer.
        """
        if isinstance(target, str):
            names = self.labels
            if target in self.classes:
                names = list(self.classes)
            if target not in names:
                raise UnknownNameError("class", target, self.labels)
            return names.index(target)
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


def check_use(classifier: Labelled, use: Use) -> None:
    """Check that something can be done with a classifier.

    Args:
        classifier: the classifier.
        use: what is to be done.

    Raises:
        UnsupportedError: it cannot.
    """
    if use in classifier.refuses:
        raise UnsupportedError(f"{classifier.name}: {classifier.refuses[use]}")


_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def classes_by_number(
    classes: Sequence[str], labels: Collection[str], numbered: bool = False
) -> tuple[dict[str, str], str]:
    """Find the classes for which numbers among labels stand, and log what was understood.

    A number is that in the name of a class (4 of "4 stars") if every label is, in one name alone. Otherwise it is a
    position in the list of classes, from 0, if every label may be one.

    Args:
        classes: the classifier's classes.
        labels: the labels; an empty one is missing.
        numbered: whether they were given as numbers. If not, they are positions only if 0 is among them.

    Returns:
        Label -> class, none if the labels are no numbers or cannot be told; and the sentence that was logged.

    Example:
        >>> classes_by_number(["1 star", "2 stars", "3 stars"], ["1", "2"])[0]["2"]
        '2 stars'
        >>> classes_by_number(["bad", "fair", "good"], ["0", "2"])[0]["2"]
        'good'
    """
    wanted = set(labels) - {""}
    if wanted <= set(classes):
        return {}, ""
    numbers_in = {name: [f"{float(number):.15g}" for number in _NUMBER.findall(name)] for name in classes}
    in_names = Counter(chain.from_iterable(numbers_in.values()))
    by_name = {}
    for name, numbers in numbers_in.items():
        if len(numbers) == 1 and in_names[numbers[0]] == 1:
            by_name[numbers[0]] = name
    by_position = {str(position): name for position, name in enumerate(classes)}
    if wanted <= set(by_name):
        found, source = by_name, "the numbers in the classes' names"
    elif wanted <= set(by_position) and (numbered or "0" in wanted):
        found, source = by_position, "the classes' numbers"
    else:
        return {}, ""
    listed = ", ".join(f"{number} is {name}" for number, name in found.items())
    note = f"Labels are read as {source}: {listed}."
    logger.warning("%s", note)
    return found, note


def check_segments(classes: Collection[str], texts: Sequence[object]) -> None:
    """Check that pairs of texts, two or more, are not texts with their labels.

    Args:
        classes: the classifier's classes.
        texts: texts of any kind.

    Raises:
        ParamsError: they are pairs, and each second segment is the name of a class.
    """
    seconds = [text[1] for text in texts if is_pair(text)]  # type: ignore[index]
    if len(texts) == len(seconds) > 1 and set(seconds) <= set(classes):
        named = shorten(", ".join(sorted(set(seconds))), SHOWN_CHARS, placeholder=" ...")
        raise ParamsError(
            f"texts: each second segment is the name of a class ({named}); are these labels? They go into the argument "
            "labels; second segments that are such words go into explearn.Example(..., pair=...)"
        )


def explained_by_default(classifier: Labelled, probabilities: Array) -> list[int]:
    """Return the classes to explain by default from a text's probabilities, (C,).

    They are the `top` most probable classes; for a multi-label classifier every label with a probability of at least
    one half, if there is one and `top` is 1.

    Args:
        classifier: the classifier.
        probabilities: probabilities of the classes, (C,).
    """
    multi_label = classifier.problem is Problem.MULTI_LABEL
    if classifier.top == 1 and multi_label and probabilities.max() >= HOLDS_FROM:
        return [int(label) for label in np.flatnonzero(probabilities >= HOLDS_FROM)]
    return [int(label) for label in np.argsort(-probabilities, kind="stable")[: classifier.top]]


def check_problem(classifier: Labelled, problems: Collection[Problem], who: str = "") -> None:
    """Check that a classifier gives what somebody needs.

    Args:
        classifier: the classifier.
        problems: the problems that would do.
        who: who needs it, for the message. Default: the classifier's name.

    Raises:
        UnsupportedError: it has another problem.
    """
    if classifier.problem in problems:
        return
    expected = "one class of several"
    if Problem.MULTI_LABEL in problems:
        expected = "classes"
    raise UnsupportedError(f"{who or classifier.name}: {GIVES[classifier.problem]}; expected {expected}")


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

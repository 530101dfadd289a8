"""Views of a predictor: the same model with other numbers to explain than its classes' logits."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from explearn.core.documents import text_digest
from explearn.core.errors import ParamsError, shown
from explearn.predictors.encoding import Batch
from explearn.predictors.labelled import Problem
from explearn.predictors.predictor import HeldPredictor, Predictor
from explearn.predictors.problems import OutputFunction, changed_logits
from explearn.predictors.transformer import TransformerPredictor


def versus(classifier: Predictor, other: int | str) -> Predictor:
    """Return a view whose values compare each other class A with the class `other`, B.

    The value of "A versus B" is the logit of A minus that of B; if a text has one class of several, this is log p(A) /
    p(B). Targets may be given as A; by default the largest value is explained, which is that of the predicted class
    unless that is B.

    Args:
        classifier: the classifier.
        other: the class B, by name or index.

    Raises:
        UnknownNameError: an unknown class.
        UnsupportedError: the model is spread over several devices.

    Example:
        >>> import explearn
        >>> from explearn.testing import make_classifier
        >>> view = explearn.versus(make_classifier(), "no")
        >>> explearn.explain(view, "a warm funny sequel", targets="yes").target
        'yes versus no'
    """
    index = classifier.label_index(other)
    others = [i for i in range(len(classifier.labels)) if i != index]
    change = torch.eye(len(classifier.labels))[others]
    change[:, index] = -1
    if classifier.problem is Problem.BINARY:
        change /= 2
    classes = [classifier.labels[i] for i in others]
    labels = [f"{label} versus {classifier.labels[index]}" for label in classes]
    return _with_outputs(classifier, labels, classes, lambda logits: logits @ change.to(logits).T, change)


def explaining(
    classifier: Predictor, output: Literal["probability", "log_probability"] | OutputFunction, name: str = ""
) -> Predictor:
    """Return a view with the same model in which methods explain other values than the classes' logits.

    Methods that take the head apart or need classes refuse such a view.

    Args:
        classifier: the classifier.
        output: `probability` or `log_probability` of each class; or a function, differentiable for methods that take
            gradients, from logits (texts, C) to one value per text, (texts,).
        name: name of the function in attributions and pages, by which what is kept of it is found again: another
            function needs another. Empty: its own.

    Raises:
        UnsupportedError: probabilities of a regression; a model that is spread over several devices.
        ParamsError: any other output.

    Example:
        >>> import explearn
        >>> from explearn.testing import make_classifier
        >>> view = explearn.explaining(make_classifier(), "probability")
        >>> view.labels
        ['probability of no', 'probability of yes']
    """
    if callable(output):
        label = name or getattr(output, "__name__", "value")
        return _with_outputs(classifier, [label], [label], output)
    if output not in ("probability", "log_probability"):
        raise ParamsError(f"output: got {shown(output)}; expected probability, log_probability or a function")
    change = classifier.problem.probabilities
    if output == "log_probability":
        change = classifier.problem.log_probabilities
    change(torch.zeros(1, len(classifier.labels)))  # raises if there are no probabilities
    values = output.replace("_", "-")
    labels = [f"{values} of {label}" for label in classifier.labels]
    return _with_outputs(classifier, labels, classifier.labels, change)


def _with_outputs(
    classifier: Predictor, labels: list[str], classes: list[str], change: OutputFunction, rows: Tensor | None = None
) -> Predictor:
    """Return a view that gives values instead of logits.

    Args:
        classifier: the classifier.
        labels: names of the values.
        classes: the class of each value.
        change: from logits, (texts, C), to values.
        rows: the matrix, (values, C), by which `change` multiplies. None: it does something else.
    """
    if isinstance(classifier, TransformerPredictor):
        return classifier.with_outputs(labels, classes, change, rows)
    return ChangedOutputs(classifier, labels, classes, change)


class ChangedOutputs(HeldPredictor):
    """A view of a predictor without a model to look into, that gives values in place of logits.

    Args:
        held: the predictor.
        labels: names of the values.
        classes: the class of each value.
        change: from logits, (texts, C), to values, (texts,) or (texts, values).
    """

    def __init__(self, held: Predictor, labels: list[str], classes: list[str], change: OutputFunction) -> None:
        super().__init__(held)
        self.labels = labels
        self.problem = Problem.REGRESSION
        self.classes = classes
        self._change = change

    @property
    def fingerprint(self) -> str:
        return text_digest(repr((self.held.fingerprint, self.labels)))

    def logits(self, batch: Batch) -> Tensor:
        return changed_logits(self.held.logits(batch), self._change)

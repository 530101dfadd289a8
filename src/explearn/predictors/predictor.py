"""The protocol of everything that can be explained: texts in, a number for each class out."""

from __future__ import annotations

import contextlib
import copy
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from explearn.core.arguments import each_text
from explearn.core.arrays import Array, Mask
from explearn.core.documents import text_digest
from explearn.core.errors import ModelError, ParamsError, UnknownNameError, UnsupportedError, shown
from explearn.core.examples import Example, label_problem
from explearn.predictors.batching import run_batches
from explearn.predictors.encoding import Batch, Encoding, Text, collate
from explearn.predictors.labelled import ONE_CLASS, Labelled, Problem, check_logits

Output = Literal["logit", "probability", "log_probability"]
"""A number of a class that methods explain."""

OutputFunction = Callable[[Tensor], Tensor]
"""Logits, (texts, C) -> values, (texts,) or (texts, values)."""


class Inside(NamedTuple):
    """Texts as the transformer inside a predictor reads them.

    Attributes:
        transformer: the transformer (`explearn.predictors.transformer`).
        encodings: its input for each text.
        targets: index of the transformer's output that is explained for each text; None for the predicted classes.
        answers: the predictor's logits, float64, (n, C), and the index of the explained class for each text; None if
            they are the transformer's.
    """

    transformer: Any
    encodings: Sequence[Encoding]
    targets: Sequence[int] | None
    answers: tuple[Array, Sequence[int]] | None = None


class Predictor(Labelled, ABC):
    """Base of everything that can be explained: anything that gives a number for each class of a text.

    A subclass has `name`, `labels` and `problem` (the kind of output), encodes texts to units (`encode`), predicts for
    texts with or without some units (`logits`), and identifies its version (`fingerprint`). Methods that need only
    predictions, and all metrics of faithfulness, use no more. Methods that look inside a model use its `transformer`.

    Attributes:
        name: name for messages.
        labels: names of the C classes.
        problem: how logits become probabilities.
        device: device of the logits.
        dtype: precision of the computation.
        max_tokens: most padded sub-tokens in a batch.
        same_length: whether all texts of a batch must have one length.
        shortest: fewest sub-tokens of a batch; shorter texts are padded.
        has_model: whether there is a transformer to look into.
        costs_money: whether each prediction costs money.
        has_candidates: whether its classes are candidate labels of a zero-shot classifier.
        does: what the model does, for error messages.
        file_labels: name of a class -> its name in the model's file, for names that `renamed` gave.
        spread: how the model is spread over several devices (`explearn.predictors.spread`); None if it is on one.
        completion: the prompt around each text, for a generative model.
        needs_pairs: whether each text must be a pair: its prompt has a place for a second segment.

    Example:
        >>> from explearn.testing import make_classifier
        >>> predictor = make_classifier()
        >>> predictor.labels, predictor.predict(["the quick brown fox"])
        (['no', 'yes'], ['no'])
        >>> predictor.versus("no").labels
        ['yes versus no']
    """

    device: torch.device = torch.device("cpu")
    dtype: torch.dtype = torch.float32
    max_tokens: int = 2**16
    same_length: bool = False
    shortest: int = 1
    has_model: ClassVar[bool] = False
    costs_money: bool = False
    has_candidates: ClassVar[bool] = False
    does: ClassVar[str] = "classifies texts"
    file_labels: Mapping[str, str] = {}
    spread: Any = None
    completion: Any = None
    needs_pairs: bool = False

    # ---- what a subclass defines -----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """SHA-256 of all that decides the predictions."""

    @abstractmethod
    def encode(self, texts: Sequence[Text], first: int = 1, whole: bool = False) -> list[Encoding]:
        """Split texts into the units that can be left out, and align them with words.

        Args:
            texts: strings, pairs of strings, examples, or rows of a table.
            first: number of the first text, for error messages if `texts` is part of a longer stream.
            whole: do not cut texts longer than `max_length`, for `explearn.predictors.windows`.

        Raises:
            DataError: a text has no words, or an unusable one.
        """

    @abstractmethod
    def logits(self, batch: Batch) -> Tensor:
        """Return logits, at least float32, (batch, C)."""

    @property
    def max_length(self) -> int:
        """Most units of a text; longer texts are cut or refused."""
        return sys.maxsize

    @property
    def mask_token_id(self) -> int:
        """Id that replaces a masked unit.

        Raises:
            ModelError: there is none.
        """
        raise ModelError(f"{self.name}: has no mask for a unit")

    @property
    def pad_token_id(self) -> int:
        """Id that pads the shorter texts of a batch."""
        return 0

    def tokens(self, encoding: Encoding) -> tuple[str, ...]:
        """Return the units as text, without special ones."""
        return tuple(encoding.words[encoding.word_ids[position]] for position in encoding.positions)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, labels={self.labels})"

    # ---- inside ----------------------------------------------------------------------------------------------------

    @property
    def transformer(self) -> Any:
        """The transformer inside (`explearn.predictors.transformer`).

        Raises:
            UnsupportedError: there is none.
        """
        raise UnsupportedError(
            f"{self.name} has no model to look into; use a method that needs only predictions, such as occlusion, "
            "lime, shap, kernel_shap or solvex, or train reader for it"
        )

    def inside(self, encodings: Sequence[Encoding], targets: Sequence[int] | None = None) -> Inside:
        """Return texts as the transformer inside reads them.

        Args:
            encodings: the texts.
            targets: index of the class to explain for each text; None: the predicted classes.

        Raises:
            UnsupportedError: there is no transformer inside.
        """
        return Inside(self.transformer, encodings, targets)

    def gathered(self) -> contextlib.AbstractContextManager[object]:
        """Return a context in which tensors of several layers can be combined, whatever devices they are on."""
        return contextlib.nullcontext()

    def at(self, token: int | str) -> Predictor:
        """Return a view that classifies one word of each text.

        Raises:
            UnsupportedError: it does not classify tokens.
        """
        raise UnsupportedError(
            f"{self.name or 'the classifier'}: {self.does}; a token is for models that classify tokens"
        )

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Save what `explearn.load_classifier` reads.

        Raises:
            UnsupportedError: there is no model to save.
        """
        self.transformer.save_pretrained(folder)

    def with_model(self, model: Any) -> Any:
        """Return a copy with another model of the same architecture.

        Raises:
            UnsupportedError: there is none.
        """
        return self.transformer.with_model(model)

    # ---- predictions -----------------------------------------------------------------------------------------------

    def batch(self, encodings: Sequence[Encoding]) -> Batch:
        """Pad encodings to one length, on the predictor's device."""
        return collate(encodings, self.pad_token_id, self.device, self.shortest)

    def encode_labelled(self, examples: Sequence[Example]) -> tuple[list[Encoding], list[int]]:
        """Return encodings to train and judge on, and the indices of the true classes.

        Raises:
            UnknownNameError: a label is none of the predictor's.
        """
        return self.encode(examples), [self.label_index(example.label) for example in examples]

    def answered(self, texts: Sequence[Encoding]) -> Mask:
        """Return for each text whether its answer is kept already, so that it costs nothing, (n,)."""
        return np.zeros(len(texts), dtype=bool)

    @torch.inference_mode()
    def predict_logits(self, encodings: Sequence[Encoding], description: str | None = None) -> Array:
        """Return logits, float64, (n, C).

        Args:
            encodings: the texts, whole or with units left out.
            description: text of a progress bar. None: no bar.

        Raises:
            ModelError: a logit is not finite.
        """

        def run(indices: list[int]) -> tuple[Tensor, ...]:
            return self.logits(self.batch([encodings[i] for i in indices])).unbind()

        # Results stay on the device until all batches are queued, to wait only once.
        rows = run_batches([len(encoding) for encoding in encodings], self, run, description=description)
        if not rows:
            return np.zeros((0, len(self.labels)))
        logits: Array = torch.stack(rows).double().cpu().numpy()
        check_logits(logits, self.name)
        return logits

    def predict_proba(self, texts: Iterable[Encoding] | Iterable[Text], description: str | None = None) -> Array:
        """Return class probabilities, (n, C).

        Args:
            texts: encoded or not, in a list; a tuple of two strings is one pair, as for `explearn.explain`.
            description: text of a progress bar. None: no bar.

        Raises:
            ModelError: the model gave a logit that is not finite.
            ParamsError: a single text instead of a list.
            DataError: a text without words, or with an unusable one.
            UnsupportedError: a regression has no probabilities.
        """
        logits = self.predict_logits(self.encoded(texts), description)
        return self.probabilities(torch.from_numpy(logits)).numpy()

    def predict(self, texts: Iterable[Encoding] | Iterable[Text]) -> list[str]:
        """Return the name of each text's most probable class.

        Raises:
            UnsupportedError: this is a regression.
        """
        return [self.labels[i] for i in self.predict_proba(texts).argmax(-1)]

    def encoded(self, texts: Iterable[Encoding] | Iterable[Text]) -> Sequence[Encoding]:
        """Return texts encoded, as they are if they were."""
        listed: list[Any] = list(each_text(texts))
        if all(isinstance(text, Encoding) for text in listed):
            return listed
        return self.encode(listed)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return the classes' probabilities, (.., C), of logits (.., C).

        Raises:
            UnsupportedError: this is a regression.
        """
        if self.problem is Problem.MULTI_LABEL:
            return logits.sigmoid()
        return self.softmax_logits(logits).softmax(-1)

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Return the probabilities' natural logarithms, without rounding errors for a probability near 0."""
        if self.problem is Problem.MULTI_LABEL:
            return functional.logsigmoid(logits)
        return self.softmax_logits(logits).log_softmax(-1)

    def softmax_logits(self, logits: Tensor) -> Tensor:
        """Return numbers whose softmax is the classes' probabilities, for losses over one class of several.

        They are the logits; for a model with one logit z, half of -z and z, since its probability is sigmoid(z).

        Raises:
            UnsupportedError: the classes do not exclude each other.
        """
        if self.problem not in ONE_CLASS:
            raise UnsupportedError(self.why_not(ONE_CLASS))
        if self.problem is Problem.BINARY:
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
        if output == "logit" or (output == "probability" and self.problem is Problem.REGRESSION):
            return logits
        if output == "probability":
            return self.probabilities(logits)
        return self.log_probabilities(logits)

    # ---- other names, other outputs --------------------------------------------------------------------------------

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return a copy with new names for some classes, such as LABEL_0 -> negative.

        The fingerprint does not change.

        Args:
            names: class -> its new name.

        Raises:
            UnknownNameError: an unknown class.
            ParamsError: two classes would have the same name.
        """
        for label in names:
            if label not in self.labels:
                raise UnknownNameError("class", label, self.labels)
        labels = [names.get(label, label) for label in self.labels]
        if problem := label_problem(labels):
            raise ParamsError(f"names of classes: {problem}")
        before = {new: self.file_labels.get(old, old) for old, new in zip(self.labels, labels, strict=True)}
        other = copy.copy(self)
        other.labels = labels
        other.file_labels = before
        return other

    def named(self, name: str) -> Self:
        """Return a copy with another name for messages."""
        other = copy.copy(self)
        other.name = name
        return other

    def versus(self, other: int | str) -> Predictor:
        """Return a view whose values compare each other class A with the class `other`, B.

        The value of "A versus B" is the logit of A minus that of B; if a text has one class of several, this is log
        p(A) / p(B). Targets may be given as A; by default the largest value is explained, which is that of the
        predicted class unless that is B.

        Args:
            other: the class B, by name or index.

        Raises:
            UnknownNameError: an unknown class.
            UnsupportedError: the model is spread over several devices.
        """
        index = self.label_index(other)
        others = [i for i in range(len(self.labels)) if i != index]
        change = torch.eye(len(self.labels))[others]
        change[:, index] = -1
        if self.problem is Problem.BINARY:
            change /= 2
        classes = [self.labels[i] for i in others]
        labels = [f"{label} versus {self.labels[index]}" for label in classes]
        return self.with_outputs(labels, classes, lambda logits: logits @ change.to(logits).T, change)

    def explaining(
        self, output: Literal["probability", "log_probability"] | OutputFunction, name: str = ""
    ) -> Predictor:
        """Return a view with the same model in which methods explain other values than the classes' logits.

        Methods that take the head apart or need classes refuse such a view.

        Args:
            output: `probability` or `log_probability` of each class; or a function, differentiable for methods that
                take gradients, from logits (texts, C) to one value per text, (texts,).
            name: name of the function in attributions and pages, by which what is kept of it is found again: another
                function needs another. Empty: its own.

        Raises:
            UnsupportedError: probabilities of a regression; a model that is spread over several devices.
            ParamsError: any other output.
        """
        if callable(output):
            return self.with_outputs([name or getattr(output, "__name__", "value")], [], output)
        if output not in ("probability", "log_probability"):
            raise ParamsError(f"output: got {shown(output)}; expected probability, log_probability or a function")
        change = self.probabilities
        if output == "log_probability":
            change = self.log_probabilities
        change(torch.zeros(1, len(self.labels)))  # raises if there are no probabilities
        values = output.replace("_", "-")
        return self.with_outputs([f"{values} of {label}" for label in self.labels], self.labels, change)

    def with_outputs(
        self, labels: list[str], classes: list[str], change: OutputFunction, rows: Tensor | None = None
    ) -> Predictor:
        """Return a view that gives values instead of logits.

        Args:
            labels: names of the values.
            classes: the classes of the values; empty if they are not of classes.
            change: from logits, (texts, C), to values.
            rows: the matrix, (values, C), by which `change` multiplies. None: it does something else.
        """
        return ChangedOutputs(self, labels, classes, change)


def changed_logits(logits: Tensor, change: OutputFunction) -> Tensor:
    """Return values, (texts, values), of logits, (texts, C).

    Raises:
        ParamsError: `change` does not give a row for each text.
    """
    values = change(logits)
    if values.shape == logits.shape[:1]:
        values = values[:, None]
    if values.ndim != 2 or len(values) != len(logits):
        raise ParamsError(f"output: gave shape {tuple(values.shape)}; expected one value a text")
    return values


class HeldPredictor(Predictor):
    """Base of predictors that hold another one, and encode texts as it does.

    Attributes:
        held: the other predictor.
    """

    def __init__(self, held: Predictor) -> None:
        self.held = held
        self.name = held.name
        self.device = held.device
        self.dtype = held.dtype
        self.max_tokens = held.max_tokens
        self.costs_money = held.costs_money
        self.spread = held.spread

    @property
    def same_length(self) -> bool:  # type: ignore[override]
        """Whether all texts of a batch must have one length."""
        return self.held.same_length

    @property
    def max_length(self) -> int:
        return self.held.max_length

    @property
    def mask_token_id(self) -> int:
        return self.held.mask_token_id

    @property
    def pad_token_id(self) -> int:
        return self.held.pad_token_id

    def encode(self, texts: Sequence[Text], first: int = 1, whole: bool = False) -> list[Encoding]:
        return self.held.encode(texts, first, whole)

    def tokens(self, encoding: Encoding) -> tuple[str, ...]:
        return self.held.tokens(encoding)

    def gathered(self) -> contextlib.AbstractContextManager[object]:
        return self.held.gathered()

    def named(self, name: str) -> Self:
        other = super().named(name)
        other.held = self.held.named(name)
        return other


class ChangedOutputs(HeldPredictor):
    """A view of a predictor that gives values in place of logits (`Predictor.versus`, `Predictor.explaining`).

    Args:
        held: the predictor.
        labels: names of the values.
        classes: the classes of the values; empty if they are not of classes.
        change: from logits, (texts, C), to values, (texts,) or (texts, values).
    """

    def __init__(self, held: Predictor, labels: list[str], classes: list[str], change: OutputFunction) -> None:
        super().__init__(held)
        self.labels = labels
        self.problem = Problem.REGRESSION
        self.by_class = True
        self.short_names = {name: number for number, name in enumerate(classes)}
        self._change = change

    @property
    def fingerprint(self) -> str:
        return text_digest(repr((self.held.fingerprint, self.labels)))

    def logits(self, batch: Batch) -> Tensor:
        return changed_logits(self.held.logits(batch), self._change)

"""The protocol of everything that can be explained: texts in, a number for each class out."""

from __future__ import annotations

import copy
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from explearn.core.arguments import each_text
from explearn.core.arrays import Array
from explearn.core.errors import DataError, ModelError, ParamsError, UnknownNameError, UnsupportedError
from explearn.core.examples import Example, label_problem
from explearn.predictors.batching import run_batches
from explearn.predictors.encoding import Batch, collate
from explearn.predictors.labelled import Labelled, Use, check_logits, check_use
from explearn.show.blocks import several
from explearn.text.encoding import Encoding, PlainText, Text, read_texts


class Inside(NamedTuple):
    """Texts as the transformer inside a predictor reads them.

    Attributes:
        encodings: its input for each text.
        targets: index of the transformer's output that is explained for each text; None for the predicted classes.
        answers: the predictor's logits, float64, (n, C), and the index of the explained class for each text; None if
            they are the transformer's.
    """

    encodings: Sequence[Encoding]
    targets: Sequence[int] | None
    answers: tuple[Array, Sequence[int]] | None = None


class Predictor(Labelled, ABC):
    """Base of everything that can be explained: anything that gives a number for each class of a text.

    A subclass has `name`, `labels`, `problem` and `fingerprint`, splits texts into the units that can be left out
    (`encode`), and predicts for texts with or without some units (`logits`). `explearn.testing.check_predictor` checks
    it. Methods that need only predictions, and all metrics of faithfulness, use no more. Methods that look inside a
    model use its `transformer`.

    Attributes:
        name: name for messages.
        labels: names of the C classes.
        problem: how logits become probabilities.
        device: device of the logits.
        max_tokens: most padded sub-tokens in a batch.
        same_length: whether all texts of a batch must have one length.
        max_length: most units of a text; longer texts are cut or refused.
        transformer: the transformer inside (`explearn.TransformerPredictor`); None if there is none to look into.
        costs_money: whether each prediction costs money.
        compares_texts: whether it gives the similarity of two texts.
        fingerprint_kind: what the fingerprint is made from, for pages.

    Example:
        >>> import explearn
        >>> from explearn.testing import make_classifier
        >>> predictor = make_classifier()
        >>> predictor.labels, predictor.predict(["the quick brown fox"])
        (['no', 'yes'], ['no'])
        >>> explearn.versus(predictor, "no").labels
        ['yes versus no']
    """

    device: torch.device = torch.device("cpu")
    max_tokens: int = 2**16
    same_length: bool = False
    refuses: Mapping[Use, str] = {"windows": "it reads texts whole; leave out the windows"}
    costs_money: bool = False
    compares_texts: bool = False
    fingerprint_kind: str = "as its class states it"

    # ---- what a subclass defines -----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A text that differs if the predictions may: a hash of all that decides them, or a name with a version."""

    @abstractmethod
    def encode(self, texts: Sequence[PlainText]) -> list[Encoding]:
        """Split texts into the units that can be left out, and say which characters each covers.

        Args:
            texts: strings, or pairs of strings.

        Returns:
            An encoding of each text; `Encoding.of` and `Encoding.by_words` make one.

        Raises:
            DataError: a text that cannot be used; the message begins with "text N: ", N from 1.
        """

    @abstractmethod
    def logits(self, batch: Batch) -> Tensor:
        """Return logits, at least float32, (batch, C).

        They depend on `Encoding.key` alone: the ids, segments and marks. The words of an encoding may be other units.

        Args:
            batch: texts encoded to one length, as `batch` returns them.
        """

    # ---- what a subclass may have ----------------------------------------------------------------------------------

    @property
    def max_length(self) -> int:
        return sys.maxsize

    @property
    def mask_token_id(self) -> int:
        """Id that replaces a masked unit.

        Raises:
            ModelError: there is none.
        """
        raise ModelError(f"{self.name}: has no mask for a unit")

    def batch(self, encodings: Sequence[Encoding]) -> Batch:
        """Pad encodings to one length, on the predictor's device.

        Args:
            encodings: texts as this predictor encodes them.
        """
        return collate(encodings, 0, self.device)

    @property
    def transformer(self) -> Any:
        return None

    def tokens(self, encoding: Encoding) -> tuple[str, ...]:
        """Return the units of a text as text, without special ones: a tokenizer's tokens, or parts of words.

        Args:
            encoding: the text as this predictor encodes it.
        """
        texts = []
        for position in encoding.positions:
            start, end = encoding.characters[position]
            texts.append(encoding.words[encoding.word_ids[position]][start:end])
        return tuple(texts)

    def inside(self, encodings: Sequence[Encoding], targets: Sequence[int] | None = None) -> Inside:
        """Return texts as the transformer inside reads them.

        Args:
            encodings: the texts.
            targets: index of the class to explain for each text; None: the predicted classes.
        """
        return Inside(encodings, targets)

    def read(
        self, texts: Iterable[Text] | Iterable[Encoding], first: int = 1, whole: bool = False, labelled: bool = False
    ) -> list[Encoding]:
        """Encode texts of any kind, with their own words and ids.

        Args:
            texts: strings, pairs of strings, examples, or rows of a table; encodings are returned as they are.
            first: number of the first text, for error messages if `texts` is part of a longer stream.
            whole: do not cut texts longer than `max_length`, for `explearn.predictors.windows`.
            labelled: whether to read the examples as what the label says of them, to train and judge on.

        Raises:
            DataError: a text has no words, or an unusable one.
            ParamsError: a single text instead of a list.
            UnsupportedError: `whole`, of a predictor that refuses windows.
        """
        listed: list[Any] = list(each_text(texts))
        if listed and all(isinstance(text, Encoding) for text in listed):
            return listed
        if whole:
            check_use(self, "windows")
        return read_texts(self.encode, listed, first, self.name)

    # ---- predictions -----------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def predict_logits(self, encodings: Sequence[Encoding], description: str | None = None) -> Array:
        """Return logits, float64, (n, C).

        Args:
            encodings: the texts, whole or with units left out.
            description: text of a progress bar. None: no bar.

        Raises:
            ModelError: a logit is not finite, or there is not one for each class.
        """

        def run(indices: list[int]) -> tuple[Tensor, ...]:
            rows = self.logits(self.batch([encodings[i] for i in indices]))
            if rows.shape != (len(indices), len(self.labels)):
                raise ModelError(
                    f"{self.name}: gave logits of shape {tuple(rows.shape)} for {several(len(indices), 'text')}; "
                    f"expected one for each of its {len(self.labels)} classes"
                )
            return rows.unbind()

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
        logits = self.predict_logits(self.read(texts), description)
        return self.problem.probabilities(torch.from_numpy(logits)).numpy()

    def predict(self, texts: Iterable[Encoding] | Iterable[Text]) -> list[str]:
        """Return the name of each text's most probable class.

        Args:
            texts: the texts, or encodings of them.

        Raises:
            UnsupportedError: this is a regression.
        """
        return [self.labels[i] for i in self.predict_proba(texts).argmax(-1)]

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
        other = copy.copy(self)
        other.labels = labels
        return other

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, labels={self.labels})"


def transformer_of(classifier: Predictor) -> Any:
    """Return the transformer inside a predictor.

    Args:
        classifier: the predictor.

    Returns:
        The transformer, an `explearn.TransformerPredictor`.

    Raises:
        UnsupportedError: there is none.
    """
    if classifier.transformer is None:
        raise UnsupportedError(
            f"{classifier.name} has no model to look into; use a method that needs only predictions, such as "
            "occlusion, lime, shap, kernel_shap or solvex, or train reader for it"
        )
    return classifier.transformer


def reads_single_texts(classifier: Predictor) -> bool:
    """Return whether a predictor reads single texts; a prompt may have a place for a second segment.

    Args:
        classifier: the predictor.
    """
    try:
        classifier.encode(["A text."])
    except DataError:
        return False
    return True


def named(classifier: Predictor, name: str) -> Predictor:
    """Return a copy with another name for messages.

    Args:
        classifier: the predictor.
        name: the other name.
    """
    other = copy.copy(classifier)
    other.name = name
    if isinstance(other, HeldPredictor):
        other.held = named(other.held, name)
    return other


def read_labelled(classifier: Predictor, examples: Sequence[Example]) -> tuple[list[Encoding], list[int]]:
    """Return encodings to train and judge on, and the indices of the true classes.

    Args:
        classifier: the predictor.
        examples: texts with their classes.

    Raises:
        UnknownNameError: a label is none of the predictor's.
    """
    encodings = classifier.read(examples, labelled=True)
    return encodings, [classifier.label_index(example.label) for example in examples]


class HeldPredictor(Predictor):
    """Base of predictors that hold another one, and read texts as it does.

    Attributes:
        held: the other predictor.
    """

    def __init__(self, held: Predictor) -> None:
        self.held = held
        self.name = held.name
        self.device = held.device
        self.max_tokens = held.max_tokens
        self.refuses = held.refuses
        self.costs_money = held.costs_money

    @property
    def same_length(self) -> bool:  # type: ignore[override]
        """Whether all texts of a batch must have one length."""
        return self.held.same_length

    @property
    def fingerprint_kind(self) -> str:  # type: ignore[override]
        """What the fingerprint is made from."""
        return self.held.fingerprint_kind

    @property
    def max_length(self) -> int:
        return self.held.max_length

    @property
    def mask_token_id(self) -> int:
        return self.held.mask_token_id

    def encode(self, texts: Sequence[PlainText]) -> list[Encoding]:
        return self.held.encode(texts)

    def read(
        self, texts: Iterable[Text] | Iterable[Encoding], first: int = 1, whole: bool = False, labelled: bool = False
    ) -> list[Encoding]:
        return self.held.read(texts, first, whole, labelled)

    def batch(self, encodings: Sequence[Encoding]) -> Batch:
        return self.held.batch(encodings)

    def tokens(self, encoding: Encoding) -> tuple[str, ...]:
        return self.held.tokens(encoding)

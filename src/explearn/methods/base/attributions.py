"""Attributions of texts from the scores of their sub-tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from explearn.core.arrays import Array, Array32
from explearn.core.attribution import Aggregation, Attribution
from explearn.core.attribution_fields import FLOAT32_MAX, ClassProbability, certify
from explearn.core.errors import ExplearnError, MethodError, shown
from explearn.predictors.labelled import ONE_CLASS, Problem, check_logits, explained_by_default
from explearn.predictors.windows import Windowed
from explearn.show.blocks import several
from explearn.text.alignment import NO_WORD, aggregate
from explearn.text.encoding import Encoding
from explearn.text.units import in_phrases

if TYPE_CHECKING:
    # transformers takes seconds to import, and not every stage needs it.
    import torch

    from explearn.predictors.predictor import Predictor

SHOWN_CLASSES = 3
"""Most probable classes that an attribution holds, of as many or more."""


@dataclass(frozen=True, slots=True)
class BatchScores:
    """A method's result for a batch.

    Attributes:
        scores: (batch, tokens), one number per position; special tokens and padding are ignored.
        logits: (batch, C), from the same forward pass, so that texts are not classified twice.
        targets: int64, (batch,), the explained classes. None: the predicted ones.
        completeness_error: (batch,), for methods whose scores should add up to a known number: by how much they miss
            it, counting scores of special tokens. None for other methods.
        unread: number of words per text that the classifier reads but the method's own model does not. None: no word.
        certificates: (batch, 2), for methods that say how far their scores can be relied on (`explearn.Certificate`):
            bound, and 1 for a familiar text, else 0. None for other methods.

    Example:
        >>> import torch
        >>> from explearn import BatchScores
        >>> scores = torch.tensor([[0.0, 2.0, 0.0]])
        >>> logits = torch.tensor([[-1.0, 1.0]])
        >>> BatchScores(scores, logits).targets
        tensor([1])
    """

    scores: torch.Tensor
    logits: torch.Tensor
    targets: Any = None
    completeness_error: torch.Tensor | None = None
    unread: Sequence[int] | None = None
    certificates: Sequence[Sequence[float]] | None = None

    def __post_init__(self) -> None:
        if self.targets is None:
            object.__setattr__(self, "targets", self.logits.argmax(-1))


@dataclass(frozen=True, slots=True)
class TextScores:
    """A method's result for one text, or one window of it.

    Attributes:
        scores: float, (tokens,) of the text's encoding; special tokens are ignored.
        logits: float, (C,).
        target: index of the explained class.
        seconds: this text's share of the time.
        completeness_error: as in BatchScores.
        unread: as in BatchScores.
        certificate: as in BatchScores.
    """

    scores: NDArray[Any]
    logits: NDArray[Any]
    target: int
    seconds: float
    completeness_error: float | None = None
    unread: int = 0
    certificate: Sequence[float] | None = None


def check_scores(what: str, values: Any, expected: tuple[int, ...]) -> None:
    """Raise MethodError unless a method gave real numbers of the expected shape.

    Args:
        what: what the numbers are, for the message.
        values: array or tensor.
        expected: the shape.
    """
    if "complex" in str(values.dtype):
        raise MethodError(f"gave complex {what}; expected real numbers")
    if np.ma.is_masked(values):
        raise MethodError(f"gave masked {what}; expected a number for each")
    shape = tuple(values.shape)
    if shape != expected:
        raise MethodError(f"gave {what} of shape {shape}; expected {expected}")


def check_texts(
    scored: Sequence[TextScores], encodings: Sequence[Encoding], targets: Sequence[int] | None, classes: int
) -> None:
    """Check what a method gave for some texts.

    Scores that are not finite pass where the logits are not either: that is the classifier's fault.

    Args:
        scored: what it gave.
        encodings: the texts.
        targets: the classes that were to be explained. None: any.
        classes: number of classes.

    Raises:
        MethodError: a text does not have finite scores of its words' sub-tokens, one for each, logits of all
            classes, and the target that it was to explain.
    """
    if len(scored) != len(encodings):
        raise MethodError(f"gave scores of {several(len(scored), 'text')}; expected {len(encodings)}")
    for number, (text, encoding) in enumerate(zip(scored, encodings, strict=True)):
        scores = np.asanyarray(text.scores)
        check_scores("scores", scores, (len(encoding),))
        of_words = np.array(encoding.word_ids) != NO_WORD
        finite = np.abs(scores) <= FLOAT32_MAX
        if np.isfinite(text.logits).all() and not finite[of_words].all():
            raise MethodError(
                "gave a score that is not finite; the method is wrong, or the classifier's logits or gradients "
                "overflow in this precision"
            )
        check_scores("logits", np.asanyarray(text.logits), (classes,))
        if not isinstance(text.target, int | np.integer) or text.target not in range(classes):
            raise MethodError(f"explained class {shown(text.target)}; expected 0 to {classes - 1}")
        if targets is not None and text.target != targets[number]:
            raise MethodError(f"explained class {text.target}; expected class {targets[number]}, as asked")


def resolve_targets(logits: torch.Tensor, targets: torch.Tensor | None) -> torch.Tensor:
    """Return the classes to explain, int64, (batch,): `targets`, or the predicted ones of logits (batch, C)."""
    if targets is None:
        return logits.argmax(-1)
    return targets


def attribution_of(
    classifier: Predictor,
    text: Windowed,
    windows: Sequence[TextScores],
    method: str,
    aggregation: Aggregation,
    signed: bool,
    unit: str = "word",
    output: Any = "",
) -> Attribution:
    """Make a text's attribution from the scores of its windows.

    Args:
        classifier: the classifier.
        text: the text, whose words are the scored units; phrases are formed from words here.
        windows: the scores of each window.
        method: the method's name.
        aggregation: the method's aggregation of sub-token scores.
        signed: whether the method's scores below zero are evidence against the target.
        unit: name of the scored units.
        output: the output that scores are parts of, as in `Attribution`.

    Raises:
        ModelError: a logit is not finite.
    """
    encoding = text.whole
    first = windows[0]
    logits = np.array([window.logits for window in windows], dtype=np.float64)
    check_logits(logits, classifier.name)
    scores = text.join([window.scores for window in windows]).astype(np.float32)
    word_scores = _aggregate(scores, encoding, aggregation)
    if unit == "phrase":
        encoding = in_phrases(encoding, word_scores)
        word_scores = _aggregate(scores, encoding, aggregation)
    without_score = np.isnan(word_scores)
    # The words of an answer to a question have no score, but were read.
    without_score[slice(*(encoding.focus or (0, 0)))] = False
    target = classifier.labels[first.target]
    unread = 0
    completeness_error = None
    certificate = None
    if len(windows) == 1:
        unread = first.unread
        completeness_error = first.completeness_error
        # The bound was measured on words.
        if first.certificate is not None and unit == "word":
            certificate = certify(first.certificate, encoding.words, word_scores)
    return Attribution(
        words=encoding.words,
        scores=word_scores,
        tokens=classifier.tokens(text.whole),
        token_scores=scores[encoding.positions],
        target=target,
        method=method,
        aggregation=aggregation,
        signed=signed,
        unaligned=int(without_score.sum()) + unread,
        seconds=sum(window.seconds for window in windows),
        completeness_error=completeness_error,
        example_id=encoding.example_id,
        spans=encoding.spans,
        gaps=encoding.gaps,
        pair_start=encoding.pair_start,
        unit=unit,
        focus=encoding.focus,
        windows=len(windows),
        certificate=certificate,
        output=output,
        **answer_fields(classifier, logits, target),
    )


def _aggregate(scores: Array32, encoding: Encoding, aggregation: Aggregation) -> Array32:
    """Return the scores of an encoding's words, (words,), from those of its sub-tokens, (tokens,)."""
    word_scores = aggregate(scores, encoding.word_ids, len(encoding.words), aggregation)
    for word, other in encoding.shared:
        word_scores[word] = word_scores[other]
    return word_scores


def answer_fields(classifier: Predictor, logits: Array, target: str) -> dict[str, Any]:
    """Return the fields of an attribution about the prediction, from the windows' logits, (windows, C)."""
    index = classifier.labels.index(target)
    if classifier.problem is Problem.REGRESSION:
        return {"probability": math.nan, "predicted": target, "value": float(logits[:, index].mean())}
    probabilities = classifier.problem.probabilities_of(logits).mean(axis=0)
    predicted = classifier.labels[int(probabilities.argmax())]
    if classifier.problem is Problem.MULTI_LABEL and index in explained_by_default(classifier, probabilities):
        predicted = target
    classes = []
    if classifier.problem in ONE_CLASS and len(classifier.labels) >= SHOWN_CLASSES:
        for i in np.argsort(-probabilities, kind="stable")[:SHOWN_CLASSES].tolist():
            classes.append(ClassProbability(label=classifier.labels[i], probability=float(probabilities[i])))
    return {"probability": float(probabilities[index]), "predicted": predicted, "classes": tuple(classes)}


def without_words(classifier: Predictor, attribution: Attribution) -> dict[str, float]:
    """Return what a classifier says of a text without any word: class -> probability, for `Attribution.without_words`.

    Empty where it gives no probabilities, is asked about a part of the text or for money, or takes no such text.

    Args:
        classifier: the classifier.
        attribution: of any of its texts, which says whether it takes pairs.
    """
    if classifier.problem is Problem.REGRESSION or classifier.costs_money or attribution.focus is not None:
        return {}
    any_text: Any = "word" if attribution.pair_start is None else ("word", "word")
    try:
        (encoding,) = classifier.read([any_text])
        (row,) = classifier.predict_proba([encoding.delete(range(len(encoding.words)))]).tolist()
    except ExplearnError:
        return {}
    return dict(zip(classifier.labels, row, strict=True))

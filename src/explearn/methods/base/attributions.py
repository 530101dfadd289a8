"""Attributions of texts from the scores of their sub-tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from explearn.core.attribution import Aggregation, Attribution
from explearn.core.certificate import Certificate
from explearn.core.numeric_checks import check_logits
from explearn.methods.base.targets import joint_probabilities
from explearn.predictors.labelled import Problem
from explearn.predictors.windows import Windowed
from explearn.text.alignment import aggregate
from explearn.text.encoding import Encoding
from explearn.text.units import in_phrases

if TYPE_CHECKING:
    # transformers takes seconds to import, and not every stage needs it.
    import torch

    from explearn.predictors.predictor import Predictor


@dataclass(frozen=True, slots=True)
class BatchScores:
    """A method's result for a batch.

    Attributes:
        scores: (batch, tokens), one number per position; special tokens and padding are ignored.
        logits: (batch, C), from the same forward pass, so that texts are not classified twice.
        targets: int64, (batch,), the explained classes.
        completeness_error: (batch,), for methods whose scores should add up to a known number: by how much they miss
            it, counting scores of special tokens. None for other methods.
        unread: number of words per text that the classifier reads but the method's own model does not. None: no word.
        certificates: for each text how far its scores can be relied on, for methods that say so.

    Example:
        >>> import explearn, torch
        >>> logits = torch.tensor([[0.2, 1.5]])
        >>> explearn.BatchScores(torch.zeros(1, 4), logits, logits.argmax(dim=1)).targets
        tensor([1])
    """

    scores: torch.Tensor
    logits: torch.Tensor
    targets: torch.Tensor
    completeness_error: torch.Tensor | None = None
    unread: Sequence[int] | None = None
    certificates: Sequence[Certificate] | None = None


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
    certificate: Certificate | None = None


def resolve_targets(logits: torch.Tensor, targets: torch.Tensor | None) -> torch.Tensor:
    """Return the classes to explain, int64, (batch,): `targets`, or the predicted ones of logits (batch, C)."""
    return logits.argmax(-1) if targets is None else targets


def attribution_of(
    classifier: Predictor,
    text: Windowed,
    windows: Sequence[TextScores],
    method: str,
    aggregation: Aggregation,
    signed: bool,
    unit: str = "word",
) -> Attribution:
    """Make a text's attribution from the scores of its windows.

    Args:
        classifier: the predictor that is explained.
        text: the text; its words are the scored units, but phrases are formed from words here.
        windows: scores of each of the text's windows.
        method: registry name of the method.
        aggregation: how sub-token scores become word scores.
        signed: whether scores below zero are evidence against the target.
        unit: name of the scored units.

    Raises:
        ModelError: a logit is not finite.
        ExplearnError: a score is not finite.
    """
    encoding, first, whole = text.whole, windows[0], len(windows) == 1
    logits = np.array([window.logits for window in windows], dtype=np.float64)
    check_logits(logits, classifier.name)
    joined = first.scores[: len(encoding)] if whole else text.join([window.scores for window in windows])
    scores = np.asarray(joined, dtype=np.float32)
    word_scores = _aggregate(scores, encoding, aggregation)
    if unit == "phrase":
        encoding = in_phrases(encoding, word_scores)
        word_scores = _aggregate(scores, encoding, aggregation)
    # The words of an answer to a question have no score, but were read.
    answer = encoding.answer[1] - encoding.answer[0] if encoding.answer else 0
    target = classifier.labels[first.target]
    return Attribution(
        words=encoding.words,
        scores=word_scores,
        tokens=classifier.tokens(encoding),
        token_scores=scores[encoding.positions],
        target=target,
        method=method,
        aggregation=aggregation,
        signed=signed,
        unaligned=int(np.isnan(word_scores).sum()) + (first.unread if whole else 0) - answer,
        seconds=sum(window.seconds for window in windows),
        completeness_error=first.completeness_error if whole else None,
        example_id=encoding.example_id,
        spans=encoding.spans,
        pair_start=encoding.pair_start,
        unit=unit,
        token=encoding.token,
        windows=len(windows),
        certificate=first.certificate if whole else None,
        **answer_fields(classifier, logits, target),
    )


def _aggregate(scores: NDArray[np.float32], encoding: Encoding, aggregation: Aggregation) -> NDArray[np.float32]:
    """Return the scores of an encoding's words, (words,), from those of its sub-tokens, (tokens,)."""
    word_scores = aggregate(scores, encoding.word_ids, len(encoding.words), aggregation)
    for word, other in encoding.shared:
        word_scores[word] = word_scores[other]
    return word_scores


def answer_fields(classifier: Predictor, logits: NDArray[np.float64], target: str) -> dict[str, Any]:
    """Return the fields of an attribution about the prediction, from the windows' logits, (windows, C)."""
    index = classifier.labels.index(target)
    if classifier.problem is Problem.REGRESSION:
        return {"probability": math.nan, "predicted": target, "value": float(logits[:, index].mean())}
    probabilities = joint_probabilities(classifier.probabilities_of(logits))
    best = classifier.labels[int(probabilities.argmax())]
    predicted = target if index in classifier.default_targets(probabilities) else best
    return {"probability": float(probabilities[index]), "predicted": predicted}

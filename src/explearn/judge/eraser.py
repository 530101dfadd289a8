"""ERASER's agreement with human rationales (DeYoung et al. 2020, section 4.1), to the letter of its published scorer.

A rationale is a set of spans [start, end) of words, a text one (annotation, document). Spans are taken as given: those
that overlap are not merged, so that a text may have more hits than true spans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.errors import DataError
from explearn.judge.plausibility import check_scores

Span = tuple[int, int]
"""[start, end) in words."""

IOU_THRESHOLD = 0.5
"""Overlap from which a predicted span counts as a hit (ERASER 4.1)."""


@dataclass(frozen=True, slots=True)
class PrecisionRecallF1:
    """F1 is that of precision and recall for spans, a mean of the texts' own for tokens; all 0 where nothing fits."""

    precision: float
    recall: float
    f1: float


def spans_of_mask(mask: ArrayLike, boundary: int | None = None) -> list[Span]:
    """Runs of chosen words as spans.

    Args:
        mask: bool (n,).
        boundary: first word of a pair's second segment; no span crosses it.
    """
    chosen = np.asarray(mask, dtype=np.int8)
    change = np.diff(np.concatenate([[0], chosen, [0]]))
    spans: list[Span] = []
    for start, end in zip(np.flatnonzero(change == 1).tolist(), np.flatnonzero(change == -1).tolist(), strict=True):
        cuts = [start, boundary, end] if boundary is not None and start < boundary < end else [start, end]
        spans.extend(pairwise(cuts))
    return spans


def span_iou(first: Span, second: Span) -> float:
    """Words in both spans, divided by words in either."""
    both = min(first[1], second[1]) - max(first[0], second[0])
    either = first[1] - first[0] + second[1] - second[0] - max(0, both)
    return max(0, both) / either if either else 0.0


def span_counts(
    predicted: Sequence[Sequence[Span]], true: Sequence[Sequence[Span]], threshold: float = IOU_THRESHOLD
) -> NDArray[np.int64]:
    """Hits, predicted spans and true spans of each text, int64 (texts, 3).

    A predicted span is a hit where its best overlap with any true span of the text is at least `threshold`.
    Raises DataError where the numbers of texts differ or a span is empty or starts before the text.
    """
    _check_spans(predicted, true)
    counts = np.zeros((len(predicted), 3), dtype=np.int64)
    for row, (guesses, truths) in enumerate(zip(predicted, true, strict=True)):
        hits = sum(max((span_iou(guess, truth) for truth in truths), default=0.0) >= threshold for guess in guesses)
        counts[row] = hits, len(guesses), len(truths)
    return counts


def iou_f1(counts: NDArray[np.int64]) -> PrecisionRecallF1:
    """IOU F1, macro: F1 of the mean precision over texts with a prediction and the mean recall over those with a truth.

    Hits are counted on the predicted side for recall too, which may therefore exceed 1 in a text.
    `counts`: as `span_counts` gives them.
    """
    hits, predicted, true = counts.T
    return _of_means(_ratios(hits, predicted), _ratios(hits, true))


def micro_iou_f1(counts: NDArray[np.int64]) -> PrecisionRecallF1:
    """IOU F1 of the counts summed over all texts."""
    hits, predicted, true = (np.array([total]) for total in counts.sum(axis=0))
    return _of_means(_ratios(hits, predicted), _ratios(hits, true))


def token_f1(predicted: Sequence[Sequence[Span]], true: Sequence[Sequence[Span]]) -> PrecisionRecallF1:
    """Token precision, recall and F1, each a mean over the texts with predicted or true words.

    A text whose precision or recall is 0, or has no predicted (true) word to divide by, counts 0.
    Raises DataError as `span_counts` does.
    """
    _check_spans(predicted, true)
    rows = []
    for guesses, truths in zip(predicted, true, strict=True):
        chosen, marked = _words(guesses), _words(truths)
        if chosen or marked:
            both = len(chosen & marked)
            precision, recall = both / max(1, len(chosen)), both / max(1, len(marked))
            rows.append((precision, recall, 2 * both / (len(chosen) + len(marked))))
    return PrecisionRecallF1(*(np.mean(rows, axis=0).tolist() if rows else (0.0, 0.0, 0.0)))


def auprc_of_text(scores: ArrayLike, marked: ArrayLike) -> float | None:
    """Area under one text's precision-recall curve by the trapezoid rule, from (recall 0, precision 1) on.

    The curve has a point for every distinct score; unlike average precision, the area joins them by straight lines.
    None for a text without a marked word. Raises DataError for scores that are not finite or as many as the marks.
    """
    values, truth = check_scores(scores), np.asarray(marked, dtype=np.bool_)
    if values.shape != truth.shape:
        raise DataError(f"{values.size} scores and a mask of {truth.size} words; expected one length")
    if not truth.any():
        return None
    order = np.argsort(-values, kind="stable")
    # Of equal scores the last position: none of them can be taken without the others.
    last = np.flatnonzero(np.append(np.diff(values[order]) != 0, True))
    hits = np.cumsum(truth[order])[last]
    precision = np.concatenate([[1.0], hits / (last + 1)])
    recall = np.concatenate([[0.0], hits / truth.sum()])
    return float(np.trapezoid(precision, recall))


def auprc(scores: Sequence[ArrayLike], marked: Sequence[ArrayLike]) -> float | None:
    """Plain mean of `auprc_of_text` over the texts with a marked word; None where there is none.

    Scores are compared within a text only. Raises DataError where the numbers of texts differ.
    """
    if len(scores) != len(marked):
        raise DataError(f"{len(scores)} texts with scores and {len(marked)} with marked words; expected equal numbers")
    areas = [auprc_of_text(s, m) for s, m in zip(scores, marked, strict=True)]
    known = [area for area in areas if area is not None]
    return float(np.mean(known)) if known else None


def _check_spans(predicted: Sequence[Sequence[Span]], true: Sequence[Sequence[Span]]) -> None:
    if len(predicted) != len(true):
        raise DataError(
            f"{len(predicted)} texts with predicted spans and {len(true)} with true ones; expected equal numbers"
        )
    for row, spans in enumerate(zip(predicted, true, strict=True)):
        for start, end in (*spans[0], *spans[1]):
            if not 0 <= start < end:
                raise DataError(f"text {row}: span [{start}, {end}); expected 0 <= start < end")


def _words(spans: Sequence[Span]) -> set[int]:
    return {word for start, end in spans for word in range(start, end)}


def _ratios(hits: NDArray[np.int64], totals: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(hits[totals > 0] / totals[totals > 0])


def _of_means(precisions: NDArray[np.float64], recalls: NDArray[np.float64]) -> PrecisionRecallF1:
    precision = float(precisions.mean()) if precisions.size else 0.0
    recall = float(recalls.mean()) if recalls.size else 0.0
    both = precision + recall
    return PrecisionRecallF1(precision, recall, 2 * precision * recall / both if both else 0.0)

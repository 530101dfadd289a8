"""Plausibility: do the words a method chooses agree with the words people marked?

Everything is at word level, on one array a text: `scores` float (n,) and masks bool (n,). Definitions follow ExpNet
(arXiv 2026), appendix A.4 (binarisation) and B (precision, recall, F1, AUROC), and ERASER (DeYoung et al. 2020).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.errors import DataError
from explearn.judge.arrays import ratio
from explearn.judge.significance import Interval, percentile_interval

Mask = NDArray[np.bool_]

INDICES_PER_CHUNK = 1_000_000
"""Resampled indices held at once by `bootstrap_interval`: with the three counts they fetch, 32 MB of int64."""


def check_scores(scores: ArrayLike) -> NDArray[np.float64]:
    """Scores as float64, shape (n,); raises DataError unless there is at least one and all are finite."""
    array = np.asarray(scores, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise DataError(f"scores have shape {array.shape}; expected one score a word, for at least one word")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise DataError(f"word {bad[0]} has score {array[bad[0]]}; expected finite scores")
    return array


def ranking(scores: ArrayLike) -> NDArray[np.intp]:
    """Word indices from the highest signed score to the lowest, shape (n,); of equal scores the earlier word first."""
    return np.argsort(-check_scores(scores), kind="stable")


def select_top_k(scores: ArrayLike, k: int) -> Mask:
    """The k highest-scoring words, without those scored below zero.

    Equal scores at the cut go to the earlier word; a text of fewer than k words is chosen whole, whatever its signs
    (ExpNet A.4, steps 1 to 5).

    Returns a mask, bool (n,). Raises DataError for scores that are not finite, ValueError for k < 1.
    """
    if k < 1:
        raise ValueError(f"k is {k}; expected at least 1")
    values = check_scores(scores)
    if len(values) < k:
        return np.ones(len(values), dtype=np.bool_)
    mask = np.zeros(len(values), dtype=np.bool_)
    mask[ranking(values)[:k]] = True
    return mask & (values >= 0)


def rationale_k(mean_length: float | None) -> int:
    """K of the top-K rule: the mean rationale length in training, halves rounded up, at least 1 (ExpNet A.4)."""
    return max(1, math.floor((mean_length or 1.0) + 0.5))


def select_threshold(scores: ArrayLike, threshold: float) -> Mask:
    """Words that score at least `threshold`; where there is none, the single best word, the first of equals.

    ExpNet's own rule (3.4). Returns a mask, bool (n,), never empty. Raises DataError for scores that are not finite.
    """
    values = check_scores(scores)
    mask = values >= threshold
    if not mask.any():
        mask[int(values.argmax())] = True
    return mask


def select_positive_rate(scores: ArrayLike, positive_rate: float) -> Mask:
    """Words that score at least 1 - `positive_rate`; may be none.

    For scores drawn uniformly from [0, 1), so that each word is chosen with probability `positive_rate`.
    """
    return check_scores(scores) >= 1.0 - positive_rate


ROUNDING = 1e-6
"""How far beyond 0 and 1 a probability may lie. A word that was not read stands just below the lowest of its text."""


def select_expected_f1(probabilities: ArrayLike) -> Mask:
    """The k most probable words with the largest 2 sum_i p_i / (k + sum p), the F1 expected for them; at least one.

    The quotient of the expectations stands for the expectation of the quotient (Lewis 1995, "Evaluating and optimizing
    autonomous text classification systems"). `sum_i` runs over the k words, `sum` over all. Equals: the first.

    Args:
        probabilities: (n,), that each word is marked.

    Raises DataError for numbers that are no probabilities.
    """
    p = check_scores(probabilities)
    if p.min() < -ROUNDING or p.max() > 1 + ROUNDING:
        raise DataError(f"scores run from {p.min():.3g} to {p.max():.3g}; expected probabilities, 0 to 1")
    p = p.clip(0, 1)
    order = np.argsort(-p, kind="stable")
    hits = np.cumsum(p[order])
    expected = 2 * hits / (np.arange(1, len(p) + 1) + hits[-1])
    return select_top_k(p, int(expected.argmax()) + 1)


def binarise(scores: ArrayLike, rule: str, *, k: int, threshold: float | None, positive_rate: float) -> Mask:
    """Choose words by a method's own rule: one of `explearn.methods.info.Binarisation`.

    Raises ValueError for another rule, and as the rule's own function does.
    """
    if rule == "top_k":
        return select_top_k(scores, k)
    if rule == "threshold":
        if threshold is None:
            raise ValueError("binarisation rule 'threshold' without a threshold; expected the method's own")
        return select_threshold(scores, threshold)
    if rule == "positive_rate":
        return select_positive_rate(scores, positive_rate)
    if rule == "expected_f1":
        return select_expected_f1(scores)
    raise ValueError(f"binarisation rule {rule!r}; expected top_k, threshold, positive_rate or expected_f1")


@dataclass(frozen=True, slots=True)
class Agreement:
    """Pooled agreement of chosen with marked words; None where the quotient is 0 / 0."""

    precision: float | None
    recall: float | None
    f1: float | None


def rationale_counts(selected: Sequence[ArrayLike], gold: Sequence[ArrayLike]) -> NDArray[np.int64]:
    """Words chosen and marked (TP), chosen only (FP), marked only (FN) in each text: int64, shape (texts, 3).

    Raises DataError where the numbers of texts, or the lengths of a text's two masks, differ.
    """
    if len(selected) != len(gold):
        raise DataError(
            f"{len(selected)} texts with chosen words and {len(gold)} with marked words; expected equal numbers"
        )
    counts = np.zeros((len(gold), 3), dtype=np.int64)
    for row, (chosen, marked) in enumerate(zip(selected, gold, strict=True)):
        s, g = np.asarray(chosen, dtype=np.bool_), np.asarray(marked, dtype=np.bool_)
        if s.shape != g.shape:
            raise DataError(
                f"text {row}: mask of {s.size} chosen words and of {g.size} marked words; expected one length"
            )
        counts[row] = (s & g).sum(), (s & ~g).sum(), (~s & g).sum()
    return counts


def agreement_of_counts(counts: NDArray[np.int64]) -> Agreement:
    """Precision TP / (TP + FP), recall TP / (TP + FN) and F1 = 2 TP / (2 TP + FP + FN) of the counts summed over texts.

    Micro-averaged over words, ExpNet B.1, equations 4 and 5. `counts`: as `rationale_counts` returns them.
    """
    tp, fp, fn = (int(total) for total in counts.sum(axis=0))
    return Agreement(
        precision=tp / (tp + fp) if tp + fp else None,
        recall=tp / (tp + fn) if tp + fn else None,
        f1=2 * tp / (2 * tp + fp + fn) if tp + fp + fn else None,
    )


def precision_recall_f1(selected: Sequence[ArrayLike], gold: Sequence[ArrayLike]) -> Agreement:
    """Pooled (micro) precision, recall and F1 over all words of all texts; masks are bool (n,), one a text.

    Raises DataError as `rationale_counts` does.
    """
    return agreement_of_counts(rationale_counts(selected, gold))


def macro_f1(counts: NDArray[np.int64]) -> float | None:
    """Mean of the texts' own F1s (ERASER's token F1); a text with neither chosen nor marked words is left out.

    None when no text is left.
    """
    denominators = 2 * counts[:, 0] + counts[:, 1] + counts[:, 2]
    known = denominators > 0
    if not known.any():
        return None
    return float((2 * counts[known, 0] / denominators[known]).mean())


def auroc(scores: Sequence[ArrayLike], gold: Sequence[ArrayLike]) -> float | None:
    """Area under the ROC curve over the pooled words of all texts, raw scores compared across texts (ExpNet B.2).

    The chance that a marked word outscores an unmarked one, ties counted half. None unless both kinds of word occur.
    """
    # scikit-learn takes a second to load; importing this module should not.
    from sklearn.metrics import roc_auc_score

    values, marked = _pooled(scores, gold)
    return float(roc_auc_score(marked, values)) if _has_both_classes(marked) else None


def auprc(scores: Sequence[ArrayLike], gold: Sequence[ArrayLike]) -> float | None:
    """Area under the precision-recall curve over the pooled words: average precision, sklearn's step-wise sum.

    ERASER's own AUPRC is another number: a trapezoid a text, then the mean. None unless both kinds of word occur.
    """
    # scikit-learn takes a second to load; importing this module should not.
    from sklearn.metrics import average_precision_score

    values, marked = _pooled(scores, gold)
    return float(average_precision_score(marked, values)) if _has_both_classes(marked) else None


def bootstrap_interval(counts: NDArray[np.int64], samples: int, confidence: float, seed: int) -> Interval:
    """Percentile bootstrap interval of the pooled F1, texts being what is resampled.

    Args:
        counts: TP, FP, FN of each text, shape (texts, 3).
        samples: number of resamples; each draws as many texts as there are, with replacement.
        confidence: coverage in (0, 1); the bounds are the (1 -+ confidence) / 2 quantiles.
        seed: seeds the draws. Methods given one seed and one set of texts are resampled alike.

    Returns (low, high), or (None, None) when F1 is undefined in every resample. Resamples without any chosen or marked
    word are left out, for their F1 is 0 / 0.
    """
    texts = len(counts)
    if texts == 0:
        return None, None
    rng = np.random.default_rng(seed)
    rows = max(1, INDICES_PER_CHUNK // texts)
    sums = np.concatenate(
        [
            counts[rng.integers(0, texts, size=(min(rows, samples - start), texts))].sum(axis=1)
            for start in range(0, samples, rows)
        ]
    )
    f1 = ratio(2 * sums[:, 0], 2 * sums[:, 0] + sums[:, 1] + sums[:, 2])
    return percentile_interval(f1, confidence)


def _pooled(scores: Sequence[ArrayLike], gold: Sequence[ArrayLike]) -> tuple[NDArray[np.float64], Mask]:
    if len(scores) != len(gold):
        raise DataError(f"{len(scores)} texts with scores and {len(gold)} with marked words; expected equal numbers")
    values = [check_scores(text) for text in scores]
    marked = [np.asarray(mask, dtype=np.bool_) for mask in gold]
    for row, (text, mask) in enumerate(zip(values, marked, strict=True)):
        if text.shape != mask.shape:
            raise DataError(f"text {row}: {text.size} scores and a mask of {mask.size} words; expected one length")
    if not values:
        return np.empty(0), np.empty(0, dtype=np.bool_)
    return np.concatenate(values), np.concatenate(marked)


def _has_both_classes(marked: Mask) -> bool:
    return bool(marked.any() and not marked.all())

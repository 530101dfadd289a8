"""Plausibility: do the words that a method chooses agree with the marked words?

Everything is at word level, with one array per text: `scores` float (n,) and masks bool (n,). Definitions follow ExpNet
(arXiv 2026), appendix A.4 (binarisation) and B (precision, recall, F1, AUROC), and ERASER (DeYoung et al. 2020, section
4.1), exactly as in its published scorer: a rationale is a set of spans [start, end) of words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.arrays import Array, Counts, Mask
from explearn.core.errors import DataError
from explearn.core.words import Span
from explearn.metrics.arrays import check_scores, float_or_none, ratio
from explearn.metrics.base import Measurement, Metric, MetricFunction
from explearn.metrics.context import Context, Explanations
from explearn.metrics.significance import pooled_interval, resampled_areas, resampled_means
from explearn.text.marks import spans_from_mask

IOU_THRESHOLD = 0.5
"""Least overlap at which a predicted span counts as a hit (ERASER 4.1)."""


def ranking(scores: ArrayLike) -> NDArray[np.intp]:
    """Return word indices from the highest signed score to the lowest, (n,), the earlier of equal words first."""
    return np.argsort(-check_scores(scores), kind="stable")


def select_top_k(scores: ArrayLike, k: int) -> Mask:
    """Choose the k highest-scoring words, except words with a score below zero.

    Of equal scores at the cut, the earlier word is chosen. In a text of fewer than k words all are chosen, whatever
    their signs (ExpNet A.4, steps 1 to 5).

    Returns:
        The chosen words, bool (n,).

    Raises:
        DataError: a score is not finite.
    """
    values = check_scores(scores)
    if len(values) < k:
        return np.ones(len(values), dtype=np.bool_)
    mask = np.zeros(len(values), dtype=np.bool_)
    mask[ranking(values)[:k]] = True
    return mask & (values >= 0)


def rationale_k(mean_length: float | None) -> int:
    """Return K of the top-K rule: the mean rationale length in training, halves rounded up, at least 1 (ExpNet A.4)."""
    return max(1, math.floor((mean_length or 1.0) + 0.5))


def select_threshold(scores: ArrayLike, threshold: float) -> Mask:
    """Choose words that score at least `threshold`; if there is none, the single best word, the first of equal ones.

    This is ExpNet's rule (3.4).

    Returns:
        The chosen words, bool (n,), at least one.

    Raises:
        DataError: a score is not finite.
    """
    values = check_scores(scores)
    mask = values >= threshold
    if not mask.any():
        mask[int(values.argmax())] = True
    return mask


EVERY_WORD = "f1_every_word"
"""Name of the F1 of choosing every word, to compare a method's F1 with."""

ROUNDING = 1e-6
"""Tolerance for probabilities outside [0, 1]. A word that was not read scores just below the lowest of its text."""


def select_expected_f1(probabilities: ArrayLike) -> Mask:
    """Choose the k most probable words with the largest 2 sum_i p_i / (k + sum p), their expected F1; at least one.

    The quotient of the expectations approximates the expectation of the quotient (Lewis 1995, "Evaluating and
    optimizing autonomous text classification systems"). `sum_i` runs over the k words, `sum` over all. Of equal words
    or values of k, the first is taken.

    Args:
        probabilities: (n,), of each word being marked.

    Raises:
        DataError: a number is not a probability.
    """
    p = check_scores(probabilities)
    if p.min() < -ROUNDING or p.max() > 1 + ROUNDING:
        raise DataError(f"scores run from {p.min():.3g} to {p.max():.3g}; expected probabilities, 0 to 1")
    p = p.clip(0, 1)
    hits = np.cumsum(p[ranking(p)])
    expected = 2 * hits / (np.arange(1, len(p) + 1) + hits[-1])
    return select_top_k(p, int(expected.argmax()) + 1)


def binarise(scores: ArrayLike, rule: str, *, k: int, threshold: float | None, positive_rate: float) -> Mask:
    """Choose words by a method's own rule, one of `explearn.methods.info.Binarisation`.

    With the rule positive_rate, for scores drawn uniformly from [0, 1), each word is chosen with that probability.

    Args:
        scores: scores of the words, (n,).
        rule: the rule.
        k: number of words of the rule top_k.
        threshold: lowest score of a chosen word by the rule threshold.
        positive_rate: share of words that the rule positive_rate chooses.

    Returns:
        The chosen words, bool (n,).

    Raises:
        ValueError: there is no such rule.
        DataError: a score is not finite.
    """
    if rule == "top_k":
        return select_top_k(scores, k)
    if rule == "threshold" and threshold is not None:
        return select_threshold(scores, threshold)
    if rule == "positive_rate":
        return check_scores(scores) >= 1.0 - positive_rate
    if rule == "expected_f1":
        return select_expected_f1(scores)
    raise ValueError(f"binarisation rule {rule!r}, threshold {threshold}; expected a rule and what it needs")


def rationale_counts(selected: Sequence[ArrayLike], gold: Sequence[ArrayLike]) -> Counts:
    """Count words chosen and marked (TP), only chosen (FP), only marked (FN) in each text: int64, shape (texts, 3)."""
    counts = np.zeros((len(gold), 3), dtype=np.int64)
    for row, (chosen, marked) in enumerate(zip(selected, gold, strict=True)):
        s = np.asarray(chosen, dtype=np.bool_)
        g = np.asarray(marked, dtype=np.bool_)
        counts[row] = (s & g).sum(), (s & ~g).sum(), (~s & g).sum()
    return counts


class PooledAgreement(NamedTuple):
    """The agreement of chosen and marked words, pooled over texts; None for a quotient 0 / 0."""

    precision: float | None
    recall: float | None
    f1: float | None


def pooled_agreement(counts: Counts) -> PooledAgreement:
    """Compute precision TP / (TP + FP), recall TP / (TP + FN) and F1 = 2 TP / (2 TP + FP + FN).

    The counts, as `rationale_counts` returns them, are summed over texts: micro-averages over words, ExpNet B.1,
    equations 4 and 5.
    """
    tp, fp, fn = counts.sum(axis=0)
    quotients = ratio([tp, tp, 2 * tp], [tp + fp, tp + fn, 2 * tp + fp + fn])
    return PooledAgreement(*map(float_or_none, quotients))


def f1_of_texts(counts: Counts) -> Array:
    """Return each row's F1 = 2 TP / (2 TP + FP + FN), (texts,), NaN for 0 / 0. The mean is ERASER's token F1."""
    tp, fp, fn = counts.T
    return ratio(2 * tp, 2 * tp + fp + fn)


def spans_of_mask(mask: Mask, boundary: int) -> list[Span]:
    """Return runs of chosen words as spans.

    Args:
        mask: (n,).
        boundary: first word of a pair's second segment, which no span crosses; n if there is one segment.
    """
    chosen = mask.tolist()
    spans = spans_from_mask(chosen[:boundary])
    for start, end in spans_from_mask(chosen[boundary:]):
        spans.append((boundary + start, boundary + end))
    return spans


def span_counts(
    predicted: Sequence[Sequence[Span]], true: Sequence[Sequence[Span]], threshold: float = IOU_THRESHOLD
) -> Counts:
    """Count hits, predicted spans and true spans of each text, int64 (texts, 3).

    A predicted span is a hit if its largest overlap (words in both, divided by words in either) with any true span of
    the text is at least `threshold`. Overlapping spans are not merged, so a text may have more hits than true spans.
    """
    counts = np.zeros((len(predicted), 3), dtype=np.int64)
    for row, (guesses, truths) in enumerate(zip(predicted, true, strict=True)):
        hits = 0
        for guess in guesses:
            overlaps = [_overlap(guess, truth) for truth in truths]
            hits += max(overlaps, default=0.0) >= threshold
        counts[row] = hits, len(guesses), len(truths)
    return counts


def _overlap(first: Span, second: Span) -> float:
    """Return the words in both spans, divided by the words in either."""
    both = max(0, min(first[1], second[1]) - max(first[0], second[0]))
    return both / (first[1] - first[0] + second[1] - second[0] - both)


def iou_f1(counts: Counts, resamples: Counts) -> Array:
    """Return ERASER's macro IOU F1 of each resample of the texts, (samples,); 0 without a hit.

    It is the F1 of the mean precision over texts with predicted spans and the mean recall over texts with true spans.
    For recall, too, hits are predicted spans, so recall may exceed 1 in a text.

    Args:
        counts: as `span_counts` returns them.
        resamples: number of times that each text is in each resample, (samples, texts).
    """
    hits, predicted, true = counts.T
    precision = np.nan_to_num(resampled_means(ratio(hits, predicted), resamples))
    recall = np.nan_to_num(resampled_means(ratio(hits, true), resamples))
    return ratio(2 * precision * recall, precision + recall, undefined=0.0)


def auprc_of_text(scores: ArrayLike, marked: ArrayLike) -> float:
    """Return the area under a text's precision-recall curve by the trapezoid rule, as in ERASER; NaN without a mark."""
    # scikit-learn takes a second to load; importing this module should not.
    from sklearn.metrics import auc, precision_recall_curve

    if not np.any(marked):
        return math.nan
    precision, recall, _ = precision_recall_curve(marked, check_scores(scores))
    return float(auc(recall, precision))


def words_to_choose(context: Context) -> int:
    """Return K of the top-K rule: the context's, or from the mean number of marked words of its texts."""
    if context.k is not None:
        return context.k
    lengths = [int(mask.sum()) for mask in context.gold if mask.any()]
    return rationale_k(float(np.mean(lengths)) if lengths else None)


def share_of_marked(context: Context) -> float:
    """Return the share of marked words: the context's, or that of its texts with a marked word."""
    if context.positive_rate is not None:
        return context.positive_rate
    marked = [mask for mask in context.gold if mask.any()]
    return float(np.concatenate(marked).mean()) if marked else 0.0


def chosen_words(explanations: Explanations) -> list[Mask]:
    """Return the words that a method chooses by its own rule, bool (words,) for each text."""
    context = explanations.context
    k = context.shared(words_to_choose)
    positive_rate = context.shared(share_of_marked)
    chosen = []
    for text in explanations.attributions:
        mask = binarise(
            text.filled(), explanations.rule, k=k, threshold=explanations.run.threshold, positive_rate=positive_rate
        )
        # A word without a score is never chosen.
        chosen.append(text.read & mask)
    return chosen


def texts_with_marks(explanations: Explanations) -> list[int]:
    """Return the numbers of the texts with a marked word that the method's model classifies correctly.

    A text without a label (empty) counts as correct.
    """
    context = explanations.context
    texts = []
    for number, text in enumerate(explanations.attributions):
        label = context.examples[number].label
        if context.gold[number].any() and (not label or text.predicted == label):
            texts.append(number)
    return texts


def agreement_with_marks(explanations: Explanations) -> dict[str, Measurement]:
    """Compare the scores and chosen words of n texts, those of `texts_with_marks`, with their marked words.

    Returns:
        Name of a metric -> its values by text, (n,), and its figure: f1, f1_topk, iou_f1, auroc and auprc pooled over
        the texts, with intervals from the jackknife; precision, recall and EVERY_WORD pooled; means macro_f1 and
        eraser_auprc.
    """
    context = explanations.context
    k = context.shared(words_to_choose)
    scores = []
    chosen = []
    top_words = []
    all_read = []
    gold = []
    predicted = []
    true = []
    for number in explanations.shared(texts_with_marks):
        text = explanations.attributions[number]
        boundary = len(context.examples[number].words)
        scores.append(text.filled())
        chosen.append(explanations.shared(chosen_words)[number])
        top_words.append(text.read & select_top_k(scores[-1], k))
        all_read.append(text.read)
        gold.append(context.gold[number])
        predicted.append(spans_of_mask(chosen[-1], boundary))
        true.append(spans_of_mask(gold[-1], boundary))
    own_rule = rationale_counts(chosen, gold)
    top_k = rationale_counts(top_words, gold)
    every_word = rationale_counts(all_read, gold)
    spans = span_counts(predicted, true)
    hits, too_many, missed = own_rule.T
    agreement = pooled_agreement(own_rule)
    auprc_by_text = np.array([auprc_of_text(text, marked) for text, marked in zip(scores, gold, strict=True)])
    measurements = {
        "precision": Measurement(ratio(hits, hits + too_many), agreement.precision),
        "recall": Measurement(ratio(hits, hits + missed), agreement.recall),
        EVERY_WORD: Measurement(f1_of_texts(every_word), pooled_agreement(every_word).f1),
        "macro_f1": Measurement.of_mean(f1_of_texts(own_rule)),
        "eraser_auprc": Measurement.of_mean(auprc_by_text),
    }
    # All texts, then all but each one, then each one alone.
    texts = len(scores)
    alone = np.eye(texts, dtype=np.int64)
    draws = np.vstack([np.ones((1, texts), dtype=np.int64), 1 - alone, alone])
    auroc, auprc = resampled_areas(scores, gold, draws)
    pooled = {
        "f1": f1_of_texts(draws @ own_rule),
        "f1_topk": f1_of_texts(draws @ top_k),
        "iou_f1": iou_f1(spans, draws),
        "auroc": auroc,
        "auprc": auprc,
    }
    by_text = {"iou_f1": ratio(2 * spans[:, 0], spans[:, 1] + spans[:, 2]), "auprc": auprc_by_text}
    for name, figures in pooled.items():
        bounds = pooled_interval(figures[0], figures[1 : texts + 1], context.params.confidence)
        values = by_text.get(name, figures[texts + 1 :])
        measurements[name] = Measurement(values, float_or_none(figures[0]), bounds)
    return measurements


def _part(name: str) -> MetricFunction:
    """Return the function that takes one of the figures."""

    def take(explanations: Explanations) -> Measurement:
        values = np.full(len(explanations.attributions), np.nan)
        texts = explanations.shared(texts_with_marks)
        if not texts:
            return Measurement(values, None)
        measurement = explanations.shared(agreement_with_marks)[name]
        values[texts] = measurement.values
        return replace(measurement, values=values)

    return take


def _metric(name: str, heading: str, summary: str, by_text: str, **more: Any) -> Metric:
    more.setdefault("highest", 1.0)
    return Metric(
        name,
        heading,
        summary,
        "higher",
        _part(name),
        group="plausibility",
        reference="ExpNet (2026), appendix B",
        lowest=0.0,
        by_text=by_text,
        **more,
    )


METRICS = (
    _metric(
        "f1",
        "F1",
        "harmonic mean of precision and recall, {unit}s chosen by the method's own rule",
        "text_f1",
        compare_with=EVERY_WORD,
    ),
    _metric("precision", "Precision", "share of the chosen {unit}s that are marked", ""),
    _metric("recall", "Recall", "share of the marked {unit}s that are chosen", ""),
    _metric(
        "f1_topk",
        "F1 top-K",
        "agreement of the K highest-scoring {unit}s with the marked ones (F1), K being the mean number of marked ones",
        "text_f1_topk",
        compare_with=EVERY_WORD,
    ),
    _metric("macro_f1", "Macro F1", "F1 of each text, then the mean", "text_f1"),
    _metric(
        "iou_f1",
        "Span F1",
        "F1 of runs of {unit}s: a chosen run counts if it overlaps a marked one by half or more (ERASER)",
        "text_iou_f1",
        # Two chosen spans may hit one marked span, so that recall exceeds 1.
        highest=None,
    ),
    _metric(
        "auroc", "AUROC", "probability that a marked {unit} scores above an unmarked one; 0.5 is chance", "text_auroc"
    ),
    _metric("auprc", "AUPRC", "mean precision over the ranking of all {unit}s by score", "text_auprc"),
    _metric(
        "eraser_auprc",
        "AUPRC by text",
        "area under each text's precision-recall curve, then the mean (ERASER)",
        "text_auprc",
    ),
    Metric(
        EVERY_WORD,
        "Every word",
        "F1 of choosing every {unit}",
        None,
        _part(EVERY_WORD),
        group="none",
        reference="ExpNet (2026), appendix B",
        lowest=0.0,
        highest=1.0,
        by_text="",
    ),
)
"""Agreement with the marked words."""

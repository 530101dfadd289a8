"""One method's plausibility: pooled figures, ERASER's, their intervals, and the same text by text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explearn.core.records import Attribution
from explearn.judge import eraser, plausibility
from explearn.judge.arrays import ranks, ratio
from explearn.judge.columns import Columns
from explearn.judge.context import Context
from explearn.judge.params import EvaluateParams
from explearn.judge.significance import (
    area_intervals,
    bootstrap_counts,
    mean_interval,
    percentile_interval,
    resampled_means,
)

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Plausibility:
    """Figures by metric, None where undefined, with intervals as NAME_low and NAME_high; and the texts' own values.

    by_text: text_f1, text_f1_topk, text_iou_f1, text_auroc, text_auprc, each (n,), NaN on texts that are not judged.
    """

    metrics: dict[str, float | None]
    by_text: dict[str, Array]


def judge_plausibility(
    attributions: Sequence[Attribution],
    chosen: Sequence[Mask],
    gold: Sequence[Mask],
    judged: Mask,
    boundaries: Sequence[int | None],
    k: int,
    params: EvaluateParams,
    seed: int,
) -> Plausibility:
    """Compare one method's scores and chosen words with the marked words.

    Args:
        attributions: of n texts.
        chosen: words chosen by the method's own rule, one mask a text.
        gold: marked words, one mask a text.
        judged: texts that count, bool (n,).
        boundaries: first word of a text's second segment, or None; no span crosses it.
        k: words of the top-K rule.
        params, seed: of the bootstrap.

    Raises DataError where lengths differ or scores are not finite.
    """
    rows = np.flatnonzero(judged).tolist()
    texts = [attributions[i] for i in rows]
    scores = [text.filled() for text in texts]
    marked = [gold[i] for i in rows]
    own = plausibility.rationale_counts([chosen[i] for i in rows], marked)
    top = plausibility.rationale_counts(
        [text.read & plausibility.select_top_k(text.filled(), k) for text in texts], marked
    )
    pooled, pooled_top = plausibility.agreement_of_counts(own), plausibility.agreement_of_counts(top)
    spans = eraser.span_counts(
        [eraser.spans_of_mask(chosen[i], boundaries[i]) for i in rows],
        [eraser.spans_of_mask(gold[i], boundaries[i]) for i in rows],
    )
    text_f1 = _f1(own[:, 0], own[:, 0] + own[:, 1], own[:, 0] + own[:, 2])
    text_auprc = _numbers(eraser.auprc_of_text(s, m) for s, m in zip(scores, marked, strict=True))
    text_auroc = _numbers(_auroc_of_text(s, m) for s, m in zip(scores, marked, strict=True))

    counts = bootstrap_counts(len(rows), params.bootstrap_samples, seed)
    areas = area_intervals(scores, marked, counts, params.confidence)
    f1 = plausibility.bootstrap_interval(own, params.bootstrap_samples, params.confidence, seed)
    f1_topk = plausibility.bootstrap_interval(top, params.bootstrap_samples, params.confidence, seed)
    metrics: dict[str, float | None] = {
        "f1": pooled.f1,
        "precision": pooled.precision,
        "recall": pooled.recall,
        "f1_topk": pooled_top.f1,
        "macro_f1": plausibility.macro_f1(own),
        "iou_f1": eraser.iou_f1(spans).f1 if len(rows) else None,
        "auroc": plausibility.auroc(scores, marked),
        "auprc": plausibility.auprc(scores, marked),
        "eraser_auprc": float(np.nanmean(text_auprc)) if len(rows) else None,
    }
    for name, (low, high) in {
        "f1": f1,
        "f1_topk": f1_topk,
        "macro_f1": mean_interval(text_f1, counts, params.confidence),
        "iou_f1": percentile_interval(_resampled_iou_f1(spans, counts), params.confidence),
        "auroc": areas[0],
        "auprc": areas[1],
        "eraser_auprc": mean_interval(text_auprc, counts, params.confidence),
    }.items():
        metrics |= {f"{name}_low": low, f"{name}_high": high}
    by_text = {
        "text_f1": text_f1,
        "text_f1_topk": _f1(top[:, 0], top[:, 0] + top[:, 1], top[:, 0] + top[:, 2]),
        "text_iou_f1": _f1(*spans.T),
        "text_auroc": text_auroc,
        "text_auprc": text_auprc,
    }
    return Plausibility(metrics, {name: _spread(values, rows, len(judged)) for name, values in by_text.items()})


def _f1(hits: NDArray[np.int64], predicted: NDArray[np.int64], true: NDArray[np.int64]) -> Array:
    """2 hits / (predicted + true) text by text, NaN where there is neither."""
    return ratio(2 * hits, predicted + true)


def _resampled_iou_f1(spans: NDArray[np.int64], counts: NDArray[np.int64]) -> Array:
    """`eraser.iou_f1` of each resample, (samples,)."""
    hits, predicted, true = spans.T
    precision, recall = (np.nan_to_num(resampled_means(ratio(hits, total), counts)) for total in (predicted, true))
    return ratio(2 * precision * recall, precision + recall, undefined=0.0)


def _auroc_of_text(scores: NDArray[np.float32], marked: Mask) -> float | None:
    """By the rank sum of the marked words, hundreds of times as fast as scikit-learn on so few words."""
    positives = int(marked.sum())
    pairs = positives * (len(marked) - positives)
    if not pairs:
        return None
    return float(ranks(scores)[marked].sum() - positives * (positives + 1) / 2) / pairs


def _numbers(values: Iterable[float | None]) -> Array:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _spread(values: Array, rows: Sequence[int], texts: int) -> Array:
    found = np.full(texts, np.nan)
    found[rows] = values
    return found


def measure(context: Context) -> Columns:
    """Plausibility, over the texts with a marked word whose class the method's model gets right.

    A text whose label is not known (empty) counts as right.
    """
    columns = Columns()
    boundaries = [len(example.words) or None for example in context.examples]
    for method, texts in context.attributions.items():
        judged = np.array(
            [
                (text.predicted == example.label or not example.label) and mask.any()
                for text, example, mask in zip(texts, context.examples, context.gold, strict=True)
            ]
        )
        found = judge_plausibility(
            texts, context.chosen[method], context.gold, judged, boundaries, context.k, context.params, context.seed
        )
        columns.figures[method] |= found.metrics | {"plausibility_texts": int(judged.sum())}
        for name, values in found.by_text.items():
            columns.by_text[name][method] = values
    return columns

"""Figures of an explainer after training with more and more marked texts.

A curve is a JSON document of the study marks_curve: `points`, in the order of their `marks`, each with FIGURES, their
intervals NAME_low and NAME_high, and `by_draw`, NAME -> the figure of each draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.attribution import filled
from explearn.metrics.arrays import float_or_none
from explearn.metrics.plausibility import binarise, f1_of_texts, rationale_counts, select_top_k
from explearn.metrics.significance import pooled_interval, resampled_areas

FIGURES = ("f1_topk", "auroc", "f1")
"""F1 with the top K words, AUROC, and F1 by the explainer's own rule."""


def judge_draws(
    draws: Sequence[Sequence[ArrayLike]], marked: Sequence[ArrayLike], k: int, rule: str, confidence: float
) -> dict[str, Any]:
    """Average the draws of one number of marked texts, with intervals over texts (the jackknife) and draws.

    Args:
        draws: for each draw, scores of each text's words; NaN: the word was not read. Such words are never chosen and
            come last, as in `explearn.metrics.evaluate`.
        marked: masks of the same texts.
        k: number of words chosen by the top-K rule.
        rule: the explainer's own rule; one of `explearn.methods.info.Binarisation`.
        confidence: coverage of the intervals.

    Returns:
        FIGURES, NAME_low, NAME_high and by_draw; None where a figure is undefined.
    """
    # All texts as they are, then all but each one.
    counts = np.vstack([np.ones((1, len(marked)), np.int64), 1 - np.eye(len(marked), dtype=np.int64)])
    by_draw: dict[str, list[NDArray[np.float64]]] = {name: [] for name in FIGURES}
    for scores in draws:
        texts = [np.asarray(text, dtype=np.float32) for text in scores]
        values = [filled(text) for text in texts]
        by_rule = {
            "f1_topk": [select_top_k(text, k) for text in values],
            "f1": [binarise(text, rule, k=k, threshold=None, positive_rate=0.0) for text in values],
        }
        for name, masks in by_rule.items():
            chosen = [mask & ~np.isnan(text) for mask, text in zip(masks, texts, strict=True)]
            by_draw[name].append(f1_of_texts(counts @ rationale_counts(chosen, marked)))
        by_draw["auroc"].append(resampled_areas(values, marked, counts)[0])
    point: dict[str, Any] = {}
    figures: dict[str, list[float | None]] = {}
    for name, rows in by_draw.items():
        whole = [row[0] for row in rows]
        means = np.mean(rows, axis=0)
        variance = 0.0
        if len(rows) > 1:
            variance = float(np.var(whole, ddof=1)) / len(rows)
        low, high = pooled_interval(float(means[0]), means[1:], confidence, variance=variance)
        point |= {name: float_or_none(means[0]), f"{name}_low": low, f"{name}_high": high}
        figures[name] = [float_or_none(figure) for figure in whole]
    point["by_draw"] = figures
    return point

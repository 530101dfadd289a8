"""Figures of an explainer after training with more and more marked texts, and what the next ones would bring.

A curve is a JSON document of the study marks_curve: `points`, in the order of their `marks`, each with FIGURES, their
intervals NAME_low and NAME_high, and `by_draw`, NAME -> the figure of each draw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.records import filled
from explearn.judge.arrays import float_or_none
from explearn.judge.plausibility import binarise, f1_of_texts, rationale_counts, select_top_k
from explearn.judge.significance import pooled_interval, resampled_areas

Curve = Mapping[str, Any]

FIGURES = ("f1_topk", "auroc", "f1")
"""F1 with the top K words, AUROC, and F1 by the explainer's own rule."""

MORE = 10
"""Marked texts that a sentence on what the next ones bring speaks of."""


def judge_draws(
    draws: Sequence[Sequence[ArrayLike]], marked: Sequence[ArrayLike], k: int, rule: str, confidence: float
) -> dict[str, Any]:
    """Means over the draws of one number of marked texts, with intervals over texts (the jackknife) and draws.

    Args:
        draws: of each draw, scores of each text's words; NaN: the word was not read. Such words are never chosen and
            come last, as in `explearn.judge.evaluate`. marked: masks of the same texts.
        k: words chosen by the top-K rule. rule: the explainer's own; one of `explearn.methods.info.Binarisation`.
        confidence: coverage of the intervals.

    Returns FIGURES, NAME_low, NAME_high and by_draw; None where a figure is undefined.
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
    for name, rows in by_draw.items():
        means = np.mean(rows, axis=0)
        variance = float(np.var([row[0] for row in rows], ddof=1)) / len(rows) if len(rows) > 1 else 0.0
        low, high = pooled_interval(float(means[0]), means[1:], confidence, variance=variance)
        point |= {name: float_or_none(means[0]), f"{name}_low": low, f"{name}_high": high}
    point["by_draw"] = {name: [float_or_none(row[0]) for row in rows] for name, rows in by_draw.items()}
    return point


def expected(curve: Curve, figure: str, marks: float) -> float | None:
    """A figure at a number of marked texts: between points on a straight line over log(1 + marks), flat beyond.

    None where the curve has no value of the figure.
    """
    points = [point for point in curve["points"] if point[figure] is not None]
    if not points:
        return None
    places = np.log1p([point["marks"] for point in points])
    return float(np.interp(np.log1p(marks), places, [point[figure] for point in points]))


def gain(curve: Curve, figure: str, marks: int, more: int) -> float | None:
    """The rise of a figure from some marked texts to `more` texts more; None as of `expected`."""
    now, then = expected(curve, figure, marks), expected(curve, figure, marks + more)
    return None if now is None or then is None else then - now


def spread_of_gain(curve: Curve, figure: str, marks: int, more: int) -> float | None:
    """Standard error of `gain` over the draws, each with its own gain.

    None with fewer than two draws, or where one has no value. Test texts are the same for all draws: how much the gain
    differs between texts is no part of it.
    """
    points = curve["points"]
    rows = [point.get("by_draw", {}).get(figure, []) for point in points]
    draws = list(zip(*rows, strict=True)) if len({len(row) for row in rows}) == 1 else []
    if len(draws) < 2 or any(value is None for draw in draws for value in draw):
        return None
    places = np.log1p([point["marks"] for point in points])
    ends = np.log1p([marks, marks + more])
    gains = [float(np.diff(np.interp(ends, places, draw))[0]) for draw in draws]
    return float(np.std(gains, ddof=1) / np.sqrt(len(gains)))


def next_marks(curve: Curve, marks: int = 0, more: int = MORE) -> str:
    """F1 top-K with so many marked texts, and what more of them would bring; empty without a figure.

    Behind ± stands `spread_of_gain`, where there are draws to tell it from.
    """
    last = int(curve["points"][-1]["marks"])
    now, rest = expected(curve, "f1_topk", marks), max(0, last - marks)
    if now is None:
        return ""
    held = "Without a marked text" if not marks else f"With {marks} marked text{'s' if marks > 1 else ''}"
    if not rest:
        return f"{held} F1 top-K is {now:.3f}; all {last} that there are count in it."
    to_all = _change(curve, marks, rest)
    if more >= rest:
        return f"{held} F1 top-K is {now:.3f}; with all {last} that there are it changes by {to_all}."
    return (
        f"{held} F1 top-K is {now:.3f}; {more} more change it by {_change(curve, marks, more)}, "
        f"all {last} that there are by {to_all}."
    )


def _change(curve: Curve, marks: int, more: int) -> str:
    rise, spread = gain(curve, "f1_topk", marks, more), spread_of_gain(curve, "f1_topk", marks, more)
    return f"{rise:+.3f}" if spread is None else f"{rise:+.3f} ± {spread:.3f}"

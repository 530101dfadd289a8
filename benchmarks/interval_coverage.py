"""Simulate how often the intervals of figures hold the truth.

    python benchmarks/interval_coverage.py --draws 1000 --texts 10,20,60

Texts are drawn from a known distribution, a figure and its interval are computed as `explearn.metrics` does, and the
share of draws is counted in which the interval holds the figure of the distribution.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from explearn.metrics.arrays import correlation, ranks
from explearn.metrics.consistency import consistency, padded
from explearn.metrics.plausibility import f1_of_texts
from explearn.metrics.significance import mean_interval, pooled_interval, resampled_areas

Rng = np.random.Generator
MANY = 20_000
"""Texts whose pooled figure stands for that of the distribution."""


def binary(rng: Rng, texts: int) -> NDArray[np.float64]:
    return (rng.random(texts) < 0.1).astype(np.float64)


def skewed(rng: Rng, texts: int) -> NDArray[np.float64]:
    """Values as AOPC has: a few texts fall far, most hardly."""
    return rng.beta(0.6, 2.5, size=texts) - 0.05


def mixed(rng: Rng, texts: int) -> NDArray[np.float64]:
    """Six texts in ten do not move, the others fall by a half."""
    return np.where(rng.random(texts) < 0.6, rng.normal(0, 0.02, texts), rng.beta(2, 2, texts))


MEANS: dict[str, tuple[Callable[[Rng, int], NDArray[np.float64]], float]] = {
    "mean of 0 and 1": (binary, 0.1),
    "mean, skewed": (skewed, 0.6 / 3.1 - 0.05),
    "mean, mixed": (mixed, 0.4 * 0.5),
}
"""Name -> draw of values by text, and their mean."""


def corpus(rng: Rng, texts: int) -> tuple[list[NDArray[np.float64]], list[NDArray[np.bool_]]]:
    """Scores and marks of texts of 8 to 30 words; how well scores find marks differs from text to text."""
    scores, marked = [], []
    for _ in range(texts):
        words = int(rng.integers(8, 31))
        marks = rng.random(words) < rng.beta(2, 5)
        marks[rng.integers(words)] = True
        scores.append(np.round(marks * rng.gamma(1.5, 0.7) + rng.normal(size=words), 2))
        marked.append(marks)
    return scores, marked


def pooled(rng: Rng, texts: int, jackknife: bool = True) -> dict[str, NDArray[np.float64]]:
    """F1, AUROC and AUPRC of a draw: of all its texts, then of all but each one."""
    scores, marked = corpus(rng, texts)
    draws = np.ones((1, texts), dtype=np.int64)
    if jackknife:
        draws = np.vstack([draws, 1 - np.eye(texts, dtype=np.int64)])
    chosen = [of_text >= np.quantile(of_text, 0.75) for of_text in scores]
    counts = np.array([((c & m).sum(), (c & ~m).sum(), (~c & m).sum()) for c, m in zip(chosen, marked, strict=True)])
    auroc, auprc = resampled_areas(scores, marked, draws)
    return {"F1, pooled": f1_of_texts(draws @ counts), "AUROC, pooled": auroc, "AUPRC, pooled": auprc}


def rare_hits(rng: Rng, texts: int) -> NDArray[np.float64]:
    """F1 where a text's three chosen words hit one of three marked ones in 5 % of the texts: of all, of all but one."""
    hits = (rng.random(texts) < 0.05).astype(np.int64)
    counts = np.stack([hits, 3 - hits, 3 - hits], -1)
    draws = np.vstack([np.ones((1, texts), dtype=np.int64), 1 - np.eye(texts, dtype=np.int64)])
    return f1_of_texts(draws @ counts)


def followed(rng: Rng, texts: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """States of six numbers, and scores of eight words that follow them with noise."""
    states = rng.normal(size=(texts, 6))
    mixed = np.random.default_rng(0).normal(size=(6, 8)) / 2
    return states, states @ mixed + rng.normal(size=(texts, 8))


def coverage(texts: int, draws: int, confidence: float = 0.95) -> dict[str, float]:
    """Share of draws whose interval holds the truth, by kind of figure."""
    truth = {name: float(values[0]) for name, values in pooled(np.random.default_rng(0), MANY, False).items()}
    states, scores = followed(np.random.default_rng(0), MANY // 10)
    consistent = float(correlation(ranks(pdist(states)), ranks(pdist(padded([*scores])))))
    truth["F1, rare hits"] = 0.05 / 3
    held = dict.fromkeys((*MEANS, *truth, "consistency"), 0)
    for draw in range(draws):
        rng = np.random.default_rng([draw, texts])
        intervals: dict[str, tuple[tuple[float | None, float | None], float]] = {
            name: (mean_interval(make(rng, texts), confidence), mean) for name, (make, mean) in MEANS.items()
        }
        for name, values in {**pooled(rng, texts), "F1, rare hits": rare_hits(rng, texts)}.items():
            intervals[name] = pooled_interval(float(values[0]), values[1:], confidence), truth[name]
        states, scores = followed(rng, texts)
        result = consistency(states, {"": [*scores]}, confidence=confidence)[""]
        intervals["consistency"] = result.bounds, consistent
        for name, ((low, high), true) in intervals.items():
            held[name] += low is not None and high is not None and low <= true <= high
    return {name: count / draws for name, count in held.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--texts", default="10,20,60")
    arguments = parser.parse_args()
    for texts in map(int, arguments.texts.split(",")):
        shares = coverage(texts, arguments.draws)
        print(f"{texts} texts: " + ", ".join(f"{name} {share:.3f}" for name, share in shares.items()))


if __name__ == "__main__":
    main()

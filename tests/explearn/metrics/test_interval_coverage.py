"""Intervals hold the truth as often as they say: on texts drawn from distributions whose figures are known.

`pytest tests/explearn/metrics/test_interval_coverage.py --trials 1000 -s` prints the shares that
docs/explearn/metrics.md names.
"""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from scipy.stats import binom

from explearn.metrics.arrays import correlation, ranks
from explearn.metrics.consistency import consistency, padded
from explearn.metrics.plausibility import f1_of_texts, rationale_counts
from explearn.metrics.significance import mean_interval, pooled_interval, resampled_areas

TEXTS = 20
MANY = 20_000
"""Texts whose pooled figure stands for that of the distribution."""


def binary(rng):
    return (rng.random(TEXTS) < 0.1).astype(np.float64)


def skewed(rng):
    """Values as AOPC has: a few texts fall far, most hardly."""
    return rng.beta(0.6, 2.5, size=TEXTS) - 0.05


def mixed(rng):
    """Six texts in ten do not move, the others fall by a half."""
    return np.where(rng.random(TEXTS) < 0.6, rng.normal(0, 0.02, TEXTS), rng.beta(2, 2, TEXTS))


MEANS = {
    "mean of 0 and 1": (binary, 0.1),
    "mean, skewed": (skewed, 0.6 / 3.1 - 0.05),
    "mean, mixed": (mixed, 0.4 * 0.5),
}
"""Name -> draw of values by text, and their mean."""


def corpus(rng, texts):
    """Draw scores and marks of texts of 8 to 30 words; how well scores find marks differs from text to text."""
    scores = []
    marked = []
    for _ in range(texts):
        words = int(rng.integers(8, 31))
        marks = rng.random(words) < rng.beta(2, 5)
        marks[rng.integers(words)] = True
        scores.append(np.round(marks * rng.gamma(1.5, 0.7) + rng.normal(size=words), 2))
        marked.append(marks)
    return scores, marked


def all_and_all_but_one(texts):
    return np.vstack([np.ones((1, texts), dtype=np.int64), 1 - np.eye(texts, dtype=np.int64)])


def pooled(rng, texts, draws):
    """Return F1, AUROC and AUPRC of each draw of texts."""
    scores, marked = corpus(rng, texts)
    chosen = [values >= np.quantile(values, 0.75) for values in scores]
    auroc, auprc = resampled_areas(scores, marked, draws)
    f1 = f1_of_texts(draws @ rationale_counts(chosen, marked))
    return {"F1, pooled": f1, "AUROC, pooled": auroc, "AUPRC, pooled": auprc}


def rare_hits(rng):
    """Return F1 where a text's three chosen words hit one of three marked ones in 5 % of the texts."""
    hits = (rng.random(TEXTS) < 0.05).astype(np.int64)
    counts = np.stack([hits, 3 - hits, 3 - hits], axis=-1)
    return f1_of_texts(all_and_all_but_one(TEXTS) @ counts)


def followed(rng, texts):
    """Draw states of six numbers, and scores of eight words that follow them with noise."""
    states = rng.normal(size=(texts, 6))
    weights = np.random.default_rng(0).normal(size=(6, 8)) / 2
    return states, states @ weights + rng.normal(size=(texts, 8))


@pytest.fixture(scope="module")
def truth():
    """The distributions' own figures."""
    rng = np.random.default_rng(0)
    found = {name: mean for name, (_, mean) in MEANS.items()}
    for name, values in pooled(rng, MANY, np.ones((1, MANY), dtype=np.int64)).items():
        found[name] = float(values[0])
    states, scores = followed(np.random.default_rng(0), MANY // 10)
    found["consistency"] = float(correlation(ranks(pdist(states)), ranks(pdist(padded([*scores])))))
    found["F1, rare hits"] = 0.05 / 3
    return found


def draw_intervals(rng):
    """Return the 95 % interval of each figure on texts drawn anew."""
    intervals = {name: mean_interval(make(rng), 0.95) for name, (make, _) in MEANS.items()}
    figures = pooled(rng, TEXTS, all_and_all_but_one(TEXTS))
    figures["F1, rare hits"] = rare_hits(rng)
    for name, values in figures.items():
        intervals[name] = pooled_interval(float(values[0]), values[1:], 0.95)
    states, scores = followed(rng, TEXTS)
    intervals["consistency"] = consistency(states, {"": [*scores]}, confidence=0.95)[""].bounds
    return intervals


def test_intervals_hold_the_truth_as_often_as_they_say(truth, trials):
    draws = trials(60)
    held = dict.fromkeys(truth, 0)
    for draw in range(draws):
        for name, (low, high) in draw_intervals(np.random.default_rng([draw, TEXTS])).items():
            held[name] += low is not None and low <= truth[name] <= high
    print({name: count / draws for name, count in held.items()})
    # So many hold, with a chance of 99 %, at a coverage of 93 %.
    fewest = binom.ppf(0.01, draws, 0.93)
    assert {name: count for name, count in held.items() if count < fewest} == {}

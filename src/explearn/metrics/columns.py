"""The metrics of a task gathered method by method, and those that compare all its texts with each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.records import Attribution
from explearn.core.sections import EvaluateParams
from explearn.metrics.catalogue import METRICS
from explearn.metrics.consistency import consistency
from explearn.metrics.significance import Counts, mean_interval
from explearn.metrics.stability import levels, lexical_similarity, nearest, semantic_similarity, stability

Array = NDArray[np.float64]
MethodMetrics = dict[str, int | float | None]


@dataclass(frozen=True, slots=True)
class Columns:
    """Values by text and figures of a task's methods, as the metrics give them.

    Attributes:
        counts: resamples of all texts, (samples, texts), for intervals.
        by_text: metric -> method -> value on each text, (texts,), NaN where undefined.
        means: method -> metric -> figure.
    """

    counts: Counts
    by_text: defaultdict[str, dict[str, Array]] = field(default_factory=lambda: defaultdict(dict))
    means: defaultdict[str, MethodMetrics] = field(default_factory=lambda: defaultdict(dict))

    def add(self, method: str, metric: str, values: Array) -> None:
        """A metric whose figure is the mean over the texts where it is defined."""
        self.by_text[metric][method] = values
        known = values[~np.isnan(values)]
        self.means[method][metric] = float(known.mean()) if known.size else None

    def add_all(self, method: str, values: Mapping[str, Array]) -> None:
        for metric, of_texts in values.items():
            self.add(method, metric, of_texts)

    def figures(self, method: str, confidence: float) -> MethodMetrics:
        """Intervals of the means, for the metrics that have none of their own yet."""
        found: MethodMetrics = {}
        for metric in METRICS:
            values = self.by_text[metric].get(method)
            if values is not None and f"{metric}_low" not in self.means[method]:
                low, high = mean_interval(values, self.counts, confidence)
                found |= {f"{metric}_low": low, f"{metric}_high": high}
        return found


def add_stability(
    columns: Columns,
    ordered: Mapping[str, Sequence[Attribution]],
    words: Sequence[Sequence[str]],
    states: Array | None,
    params: EvaluateParams,
) -> None:
    near = {"lexical": nearest(lexical_similarity(words), params.neighbours)}
    if states is not None:
        near["semantic"] = nearest(semantic_similarity(states), params.neighbours)
    for method, texts in ordered.items():
        found = [levels(text.scores, text.signed) for text in texts]
        for kind, neighbours in near.items():
            columns.add(method, f"stability_{kind}", stability(found, words, neighbours))
            columns.add(method, f"stability_{kind}_content", stability(found, words, neighbours, content_words=True))


def add_consistency(
    columns: Columns,
    ordered: Mapping[str, Sequence[Attribution]],
    states: Array | None,
    params: EvaluateParams,
    seed: int,
) -> None:
    if states is None:
        return
    for method, texts in ordered.items():
        found = consistency(
            states,
            [text.scores for text in texts],
            params.consistency_batch,
            params.bootstrap_samples,
            params.confidence,
            seed,
        )
        columns.by_text["consistency"][method] = found.by_text
        columns.means[method] |= {
            "consistency": found.value,
            "consistency_low": found.low,
            "consistency_high": found.high,
        }


def add_simulatability(
    columns: Columns,
    ordered: Mapping[str, Sequence[Attribution]],
    embeddings: Sequence[ArrayLike],
    labels: Sequence[str],
    params: EvaluateParams,
    seed: int,
    task: str,
) -> None:
    # Imports torch.
    from explearn.metrics.simulatability import simulatability

    # Methods that explain a model of their own may see other classes given; their students foretell those.
    groups: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for method, texts in ordered.items():
        groups[tuple(labels.index(text.predicted) for text in texts)].append(method)
    for classes, methods in groups.items():
        if len(set(classes)) < 2:  # there is nothing to foretell
            continue
        found = simulatability(
            embeddings,
            classes,
            {method: [text.scores for text in ordered[method]] for method in methods},
            params.simulatability,
            seed,
            f"{task}: students",
        )
        for method, result in found.items():
            columns.add(method, "simulatability", result.gain)
            columns.means[method]["student_accuracy"] = float(result.with_explanations.mean())
            columns.means[method]["student_accuracy_without"] = float(result.without.mean())

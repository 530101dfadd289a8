"""Figures of a task's methods, metric by metric, as each family of metrics gives them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from explearn.judge.catalogue import METRICS
from explearn.judge.significance import Counts, mean_interval

Array = NDArray[np.float64]
MethodMetrics = dict[str, int | float | None]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Values by text and figures of a task's methods.

    Attributes:
        by_text: metric -> method -> value on each text, (texts,), NaN where undefined.
        figures: method -> metric -> figure; an interval of its own as METRIC_low and METRIC_high.
        classes: method -> index of the class that its top words alone are given, (texts,).
    """

    by_text: defaultdict[str, dict[str, Array]] = field(default_factory=lambda: defaultdict(dict))
    figures: defaultdict[str, MethodMetrics] = field(default_factory=lambda: defaultdict(dict))
    classes: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    def add(self, method: str, metric: str, values: Array) -> None:
        """A metric whose figure is the mean over the texts where it is defined."""
        self.by_text[metric][method] = values
        known = values[~np.isnan(values)]
        self.figures[method][metric] = float(known.mean()) if known.size else None

    def add_all(self, method: str, values: Mapping[str, Array]) -> None:
        for metric, of_texts in values.items():
            self.add(method, metric, of_texts)

    def join(self, other: Columns) -> None:
        """Add what another family gave."""
        for metric, methods in other.by_text.items():
            self.by_text[metric] |= methods
        for method, figures in other.figures.items():
            self.figures[method] |= figures
        self.classes.update(other.classes)

    def intervals(self, method: str, counts: Counts, confidence: float) -> MethodMetrics:
        """Intervals of the means, for the metrics that have none of their own yet.

        Args:
            counts: resamples of all texts, (samples, texts), as of `explearn.judge.significance.bootstrap_counts`.
        """
        found: MethodMetrics = {}
        for metric in METRICS:
            values = self.by_text[metric].get(method)
            if values is not None and f"{metric}_low" not in self.figures[method]:
                low, high = mean_interval(values, counts, confidence)
                found |= {f"{metric}_low": low, f"{metric}_high": high}
        return found

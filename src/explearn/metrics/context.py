"""Input and output of families of metrics: a task's texts with all methods' explanations, and columns of figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.attribution import Attribution
from explearn.core.examples import Example
from explearn.metrics.arrays import float_or_none
from explearn.metrics.params import EvaluateParams
from explearn.metrics.predictions import Predictions
from explearn.metrics.runs import MethodRun

if TYPE_CHECKING:
    # explearn.predictors imports torch, which takes seconds; reading results does not need it.
    from explearn.predictors.encoding import Encoding
    from explearn.predictors.transformer import TransformerPredictor

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
MethodMetrics = dict[str, int | float | None]


@dataclass(frozen=True, slots=True, eq=False)
class ExplainedModel:
    """A classifier, and the methods that explain it.

    Attributes:
        classifier: the model.
        attributions: by method, of the n texts in the order of `Context.examples`.
        encodings: by example id, the unchanged texts in this model's encoding.
        states: the texts' aggregate hidden states, (n, d); None if the model has none.
        predictions: shared by all metrics, so that each input is classified once.
    """

    classifier: TransformerPredictor
    attributions: Mapping[str, Sequence[Attribution]]
    encodings: Mapping[str, Encoding]
    states: Array | None
    predictions: Predictions


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """One task, checked and in one order.

    Attributes:
        task: name, for messages.
        examples: the n texts.
        attributions: by method, one for each text, in the order of `examples`.
        runs: by method, how the attributions were made.
        gold: marked words of each text, bool (words,); all False for a text that nobody marked.
        chosen: by method, the words that it chooses in each text by its own rule, bool (words,).
        models: each classifier that is explained, with its methods.
        labels: class names of the task's classifier.
        embeddings: of each text's words, (words, d); None where the task's classifier has none.
        k: words chosen a text by the top-K rule.
        params: of all metrics.
        seed: of all draws.
    """

    task: str
    examples: Sequence[Example]
    attributions: Mapping[str, Sequence[Attribution]]
    runs: Mapping[str, MethodRun]
    gold: Sequence[Mask]
    chosen: Mapping[str, Sequence[Mask]]
    models: Sequence[ExplainedModel]
    labels: Sequence[str]
    embeddings: Sequence[ArrayLike] | None
    k: int
    params: EvaluateParams
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class MetricColumns:
    """Values by text and figures of a task's methods, filled by families of metrics.

    Attributes:
        by_text: metric -> method -> value on each text, (texts,), NaN where undefined.
        figures: method -> metric -> figure; its interval, if any, as METRIC_low and METRIC_high.
    """

    by_text: defaultdict[str, dict[str, Array]] = field(default_factory=lambda: defaultdict(dict))
    figures: defaultdict[str, MethodMetrics] = field(default_factory=lambda: defaultdict(dict))

    def add(self, method: str, metric: str, values: Array) -> None:
        """Add a metric whose figure is the mean over the texts where it is defined."""
        self.by_text[metric][method] = values
        self.figures[method][metric] = mean_where_defined(values)


def mean_where_defined(values: Array) -> float | None:
    """Return the mean without NaN; None if all values are NaN."""
    known = values[~np.isnan(values)]
    return float_or_none(known.mean()) if known.size else None

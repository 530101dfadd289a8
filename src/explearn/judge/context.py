"""What every family of metrics may read: the texts of a task, their marks, all methods' explanations, the models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.records import Attribution, Example
from explearn.judge.params import EvaluateParams
from explearn.judge.predictions import Predictions

if TYPE_CHECKING:
    # explearn.model imports torch, which takes seconds; reading results does not need it.
    from explearn.model.classifier import Classifier
    from explearn.model.encoding import Encoding

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class ExplainedModel:
    """A classifier, and the methods that explain it.

    Attributes:
        classifier: the model.
        attributions: by method, of the n texts in the order of `Context.examples`.
        encodings: by example id, the unchanged texts in this model's encoding.
        states: the texts' aggregate hidden states, (n, d); None where they are not known.
        predictions: shared by all metrics, so that the model is asked about each input once.
    """

    classifier: Classifier
    attributions: Mapping[str, Sequence[Attribution]]
    encodings: Mapping[str, Encoding]
    states: NDArray[np.float64] | None
    predictions: Predictions


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """One task, checked and in one order.

    Attributes:
        task: name, for messages.
        examples: the n texts.
        attributions: by method, one for each text, in the order of `examples`.
        gold: marked words of each text, bool (words,); one False for a text that nobody marked.
        chosen: by method, the words that it chooses in each text by its own rule, bool (words,).
        models: each classifier that is explained, with its methods.
        labels: class names of the task's classifier.
        embeddings: of each text's words, (words, d); None where they are not known.
        costs: by method, as of `explearn.judge.evaluate.evaluate_task`.
        k: words chosen a text by the top-K rule.
        params: of all metrics.
        seed: of all draws.
    """

    task: str
    examples: Sequence[Example]
    attributions: Mapping[str, Sequence[Attribution]]
    gold: Sequence[Mask]
    chosen: Mapping[str, Sequence[Mask]]
    models: Sequence[ExplainedModel]
    labels: Sequence[str]
    embeddings: Sequence[ArrayLike] | None
    costs: Mapping[str, Mapping[str, float | None]]
    k: int
    params: EvaluateParams
    seed: int

    @property
    def ids(self) -> list[str]:
        """Example ids in the order of `examples`."""
        return [example.id for example in self.examples]

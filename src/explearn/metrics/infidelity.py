"""Infidelity (Yeh et al. 2019, definition 2.1) with words as input features.

Random sets of words are masked; a faithful explanation predicts, by the sum of the masked words' scores, how far the
class's probability falls. Unlike captum's function of that name, one set of perturbed inputs serves all methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.attribution import Attribution
from explearn.metrics.context import Context, MetricColumns
from explearn.metrics.plausibility import check_scores
from explearn.metrics.predictions import Predictions

if TYPE_CHECKING:
    from explearn.predictors.encoding import Encoding
    from explearn.predictors.transformer import TransformerPredictor


def draw_masks(words: int, samples: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Sets of words to mask, (samples, words): of each the size is drawn evenly from 1 to `words`, then the words."""
    sizes = rng.integers(1, words + 1, size=samples)
    order = np.argsort(rng.random((samples, words)), axis=1)
    return np.asarray(np.argsort(order, axis=1) < sizes[:, None])


def infidelity_of_text(scores: ArrayLike, masks: ArrayLike, drops: ArrayLike) -> float:
    """Mean over the samples of (b I^T scores - drop)^2, I the mask, in squared probabilities; smaller is better.

    Methods have units of their own, so b is the factor that suits the method best on this text, sum(I^T scores drop) /
    sum((I^T scores)^2), as captum does with normalize=True; 0 where all the sums are 0.

    Args:
        scores: (words,). masks: bool (samples, words). drops: p(x) - p(x masked), (samples,).
    """
    predicted = np.asarray(masks, dtype=np.float64) @ check_scores(scores)
    observed = np.asarray(drops, dtype=np.float64)
    square = float(predicted @ predicted)
    factor = float(predicted @ observed) / square if square > 0 else 0.0
    return float(((factor * predicted - observed) ** 2).mean())


def infidelity(
    classifier: TransformerPredictor,
    encodings: Mapping[str, Encoding],
    attributions: Mapping[str, Sequence[Attribution]],
    samples: int = 10,
    seed: int = 0,
    predictions: Predictions | None = None,
) -> dict[str, NDArray[np.float64]]:
    """Infidelity of every method on each of its texts, shape (texts,), in [0, 1].

    A text's masks depend on `seed` and its place in `encodings` alone, so that methods meet the same ones.

    Args:
        encodings: by example id, the unchanged texts. attributions: by method.
        samples: masks a text. predictions: to share evaluated inputs with other metrics.

    Raises DataError for scores that are not finite, ModelError for a probability that is not finite.
    """
    pool = predictions or Predictions(classifier)
    rng = np.random.default_rng(seed)
    masks = {i: draw_masks(len(encoding.words), samples, rng) for i, encoding in encodings.items()}
    rows: dict[str, list[int]] = {}
    for i, encoding in encodings.items():
        masked = (encoding.mask(np.flatnonzero(mask).tolist(), classifier.mask_token_id) for mask in masks[i])
        rows[i] = [pool.request(text) for text in (encoding, *masked)]
    pool.evaluate("infidelity")

    def of_text(attribution: Attribution) -> float:
        p = pool.probabilities[rows[attribution.example_id], classifier.labels.index(attribution.target)]
        return infidelity_of_text(attribution.filled(0.0), masks[attribution.example_id], p[0] - p[1:])

    return {method: np.array([of_text(text) for text in texts]) for method, texts in attributions.items()}


def measure(context: Context, columns: MetricColumns) -> None:
    """Add infidelity, unless `params.infidelity_samples` is 0."""
    samples = context.params.infidelity_samples
    if not samples:
        return
    for model in context.models:
        by_method = infidelity(
            model.classifier, model.encodings, model.attributions, samples, context.seed, model.predictions
        )
        for method, values in by_method.items():
            columns.add(method, "infidelity", values)

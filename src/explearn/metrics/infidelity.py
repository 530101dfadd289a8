"""Infidelity (Yeh et al. 2019, definition 2.1) with words as input features.

Random sets of words are masked; a faithful explanation predicts, by the sum of the masked words' scores, how far the
class's probability falls. Unlike captum's function of that name, one set of perturbed inputs serves all methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from explearn.core.arrays import Array, Mask
from explearn.core.attribution import Attribution
from explearn.metrics.arrays import check_scores
from explearn.metrics.base import Metric, measure_together
from explearn.metrics.context import Context
from explearn.metrics.protocols import mask_of
from explearn.predictors.cached import CachedPredictions

if TYPE_CHECKING:
    from explearn.predictors.encoding import Encoding
    from explearn.predictors.predictor import Predictor


def draw_masks(words: int, samples: int, rng: np.random.Generator) -> Mask:
    """Draw sets of words to mask, (samples, words): of each the size evenly from 1 to `words`, then the words."""
    sizes = rng.integers(1, words + 1, size=samples)
    order = np.argsort(rng.random((samples, words)), axis=1)
    return np.asarray(np.argsort(order, axis=1) < sizes[:, None])


def infidelity_of_text(scores: ArrayLike, masks: ArrayLike, drops: ArrayLike) -> float:
    """Return the mean of (b I^T scores - drop)^2 over the samples, I the mask, in squared probabilities.

    Methods have units of their own, so b is the factor that suits the method best on this text, sum(I^T scores drop) /
    sum((I^T scores)^2), as captum does with normalize=True; 0 where all the sums are 0.

    Args:
        scores: scores of the words, (words,).
        masks: masked words, bool (samples, words).
        drops: p(x) - p(x masked), (samples,).
    """
    predicted = np.asarray(masks, dtype=np.float64) @ check_scores(scores)
    observed = np.asarray(drops, dtype=np.float64)
    square = float(predicted @ predicted)
    factor = float(predicted @ observed) / square if square > 0 else 0.0
    return float(((factor * predicted - observed) ** 2).mean())


def infidelity(
    classifier: Predictor,
    encodings: Mapping[str, Encoding],
    attributions: Mapping[str, Sequence[Attribution]],
    samples: int = 10,
    seed: int = 0,
    predictions: CachedPredictions | None = None,
) -> dict[str, Array]:
    """Compute infidelity of every method on each of its texts.

    A text's masks depend on `seed` and its position in `encodings` alone, so all methods meet the same ones.

    Args:
        classifier: the explained model.
        encodings: example id -> unchanged text.
        attributions: method -> attributions of any number of texts.
        samples: masks per text.
        seed: seed of the masks.
        predictions: predictions whose evaluated inputs are shared with other metrics (default: none).

    Returns:
        Method -> infidelity of each text, (texts,), in [0, 1].

    Raises:
        DataError: a score is not finite.
        ModelError: the classifier gave a probability that is not finite.
    """
    pool = predictions or CachedPredictions(classifier)
    rng = np.random.default_rng(seed)
    masks = {i: draw_masks(len(encoding.words), samples, rng) for i, encoding in encodings.items()}
    rows: dict[str, list[int]] = {}
    for i, encoding in encodings.items():
        rows[i] = [pool.request(encoding)]
        for mask in masks[i]:
            masked = encoding.mask(np.flatnonzero(mask).tolist(), classifier.mask_token_id)
            rows[i].append(pool.request(masked))
    pool.evaluate("infidelity")
    values: dict[str, Array] = {}
    for method, texts in attributions.items():
        values[method] = np.zeros(len(texts))
        for number, text in enumerate(texts):
            target = classifier.labels.index(text.target)
            p = pool.values[rows[text.example_id], target]
            values[method][number] = infidelity_of_text(text.filled(0.0), masks[text.example_id], p[0] - p[1:])
    return values


def _all_methods(context: Context) -> dict[str, Array]:
    """Measure all methods; none if `params.infidelity_samples` is 0, or the classifier has no mask token."""
    samples = context.params.infidelity_samples
    if not samples or mask_of(context.classifier) is None:
        return {}
    attributions = context.attributions
    return infidelity(context.classifier, context.encodings, attributions, samples, context.seed, context.predictions)


METRICS = (
    Metric(
        "infidelity",
        "Infidelity",
        "squared error of predicting the effect of masking random {unit}s on p from the scores, after multiplying "
        "each text's scores by the factor, of either sign, that fits these masks best: only proportions count, which "
        "favours unsigned methods",
        "lower",
        measure_together(_all_methods),
        group="faithfulness",
        reference="Yeh et al. 2019, definition 2.1",
        lowest=0.0,
        highest=1.0,
        of_model=True,
        decimals=4,
    ),
)
"""Errors of scores in predicting the effect of masking."""

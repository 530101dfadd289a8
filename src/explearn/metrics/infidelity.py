"""Infidelity (Yeh et al. 2019, definition 2.1) with words as input features.

Random sets of words are masked; a faithful explanation predicts, by the sum of the masked words' scores, how far the
class's probability falls. Unlike captum's function of that name, one set of perturbed inputs serves all methods.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from explearn.core.arrays import Array, Mask
from explearn.metrics.arrays import check_scores
from explearn.metrics.base import Metric, computed_together
from explearn.metrics.context import Context
from explearn.metrics.protocols import mask_of


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


def infidelity(context: Context) -> dict[str, Array]:
    """Compute infidelity of every method on each of its texts.

    A text's masks depend on the seed and the text's position alone, so all methods meet the same ones.

    Returns:
        Method -> infidelity of each text, (texts,), in [0, 1]; empty if `params.infidelity_samples` is 0, or the
        classifier has no mask token.
    """
    samples = context.params.infidelity_samples
    mask_token = mask_of(context.classifier)
    if not samples or mask_token is None:
        return {}
    answers = context.answers
    rng = np.random.default_rng(context.seed)
    masks: dict[str, Mask] = {}
    rows: dict[str, list[int]] = {}
    for i, encoding in context.encodings.items():
        masks[i] = draw_masks(len(encoding.words), samples, rng)
        rows[i] = [answers.request(encoding)]
        for mask in masks[i]:
            rows[i].append(answers.request(encoding.mask(np.flatnonzero(mask).tolist(), mask_token)))
    answers.evaluate("infidelity")
    values: dict[str, Array] = {}
    for method, texts in context.attributions.items():
        values[method] = np.zeros(len(texts))
        for number, text in enumerate(texts):
            target = context.classifier.labels.index(text.target)
            p = answers.probabilities[rows[text.example_id], target]
            values[method][number] = infidelity_of_text(text.filled(0.0), masks[text.example_id], p[0] - p[1:])
    return values


METRICS = (
    Metric(
        "infidelity",
        "Infidelity",
        "squared error of predicting the effect of masking random {unit}s on p from the scores, after multiplying "
        "each text's scores by the factor, of either sign, that fits these masks best: only proportions count, which "
        "favours unsigned methods",
        "lower",
        computed_together(infidelity),
        group="faithfulness",
        reference="Yeh et al. 2019, definition 2.1",
        lowest=0.0,
        highest=1.0,
        of_model=True,
        decimals=4,
    ),
)
"""Errors of scores in predicting the effect of masking."""

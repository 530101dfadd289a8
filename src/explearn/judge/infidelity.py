"""Infidelity (Yeh et al. 2019, definition 2.1) with words as input features.

Random sets of words are masked; a faithful explanation predicts, by the sum of the masked words' scores, how far the
class's probability falls. Unlike captum's function of that name, one set of perturbed inputs serves all methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.errors import DataError, UnknownNameError
from explearn.core.records import Attribution
from explearn.judge.columns import Columns
from explearn.judge.context import Context
from explearn.judge.plausibility import check_scores
from explearn.judge.predictions import Predictions

if TYPE_CHECKING:
    from explearn.model.classifier import Classifier
    from explearn.model.encoding import Encoding

Array = NDArray[np.float64]


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
    classifier: Classifier,
    encodings: Mapping[str, Encoding],
    attributions: Mapping[str, Sequence[Attribution]],
    samples: int = 10,
    seed: int = 0,
    predictions: Predictions | None = None,
) -> dict[str, Array]:
    """Infidelity of every method on each of its texts, shape (texts,), in [0, 1].

    A text's masks depend on `seed` and its place in `encodings` alone, so that methods meet the same ones.

    Args:
        encodings: by example id, the unchanged texts. attributions: by method.
        samples: masks a text. predictions: to share evaluated inputs with other metrics.

    Raises DataError for a text without encoding or not one finite score a word, UnknownNameError for a target that the
    classifier has no class for, ModelError for a probability that is not finite.
    """
    if samples < 1:
        raise DataError(f"{samples} samples; expected at least one")
    pool = predictions or Predictions(classifier)
    rng = np.random.default_rng(seed)
    masks = {i: draw_masks(len(encoding.words), samples, rng) for i, encoding in encodings.items()}
    wanted = {attribution.example_id for texts in attributions.values() for attribution in texts}
    unknown = sorted(wanted - set(encodings))
    if unknown:
        raise DataError(f"example {unknown[0]!r}: the text has no encoding; expected one for every attribution")
    rows: dict[str, list[int]] = {}
    for i in (i for i in encodings if i in wanted):
        chosen = (np.flatnonzero(mask).tolist() for mask in masks[i])
        changed = (encodings[i].mask(words, classifier.mask_token_id) for words in chosen)
        rows[i] = [pool.request(encoding) for encoding in (encodings[i], *changed)]
    pool.evaluate("infidelity")
    found: dict[str, Array] = {}
    for method, texts in attributions.items():
        values = []
        for attribution in texts:
            i = attribution.example_id
            where = f"method {method!r}, example {i!r}"
            if attribution.target not in classifier.labels:
                raise UnknownNameError(f"target class ({where})", attribution.target, classifier.labels)
            if len(attribution.scores) != masks[i].shape[1]:
                raise DataError(f"{where}: {len(attribution.scores)} scores; expected {masks[i].shape[1]}, one a word")
            p = pool.probabilities[rows[i], classifier.labels.index(attribution.target)]
            values.append(infidelity_of_text(attribution.filled(0.0), masks[i], p[0] - p[1:]))
        found[method] = np.array(values)
    return found


def measure(context: Context) -> Columns:
    """Infidelity, unless `params.infidelity_samples` is 0."""
    columns = Columns()
    samples = context.params.infidelity_samples
    if not samples:
        return columns
    for model in context.models:
        found = infidelity(
            model.classifier, model.encodings, model.attributions, samples, context.seed, model.predictions
        )
        for method, values in found.items():
            columns.add(method, "infidelity", values)
    return columns

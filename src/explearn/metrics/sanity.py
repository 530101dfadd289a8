"""Do explanations depend on what they claim to explain? Checks that run methods again on perturbed models.

Model-parameter and label randomisation are those of Adebayo et al. 2018: a method whose scores stay the same when the
classifier's weights are redrawn, or when it has learned permuted labels, says nothing about the classifier.
Max-sensitivity is that of Yeh et al. 2019 (definition 2.5), with noise on the word embeddings.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.errors import DataError, ExplearnError, UnsupportedError
from explearn.core.examples import Example
from explearn.lens.perturb import noisy_embeddings, parts, randomised
from explearn.lens.words import table_weight
from explearn.metrics.arrays import correlation, ranks
from explearn.metrics.context import mean_where_defined
from explearn.metrics.params import SanityParams
from explearn.metrics.plausibility import check_scores, ranking
from explearn.metrics.protocols import top_count
from explearn.metrics.significance import mean_interval
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.units import Unit

logger = logging.getLogger(__name__)

Array = NDArray[np.float64]

CONFIDENCE = 0.95
"""Level of the intervals around rank correlations."""


@dataclass(frozen=True, slots=True)
class ScoreSimilarity:
    """The similarity of a method's scores before and after a change of the model, means over texts.

    spearman: rank correlation of the word scores, in [-1, 1], with its interval; None where no text has two
        different scores before and after. overlap: share of the top words in common, in [0, 1].
    """

    spearman: float | None
    spearman_low: float | None
    spearman_high: float | None
    overlap: float


@dataclass(frozen=True, slots=True)
class SanityResult:
    """One method's checks.

    Attributes:
        random_model: part of the model down to which weights were redrawn ("embeddings": all of them) -> how similar
            the scores are to those of the model as it is. Near 1: the method does not notice.
        random_labels: the same for the model fine-tuned on permuted labels; None where there is none.
        max_sensitivity: mean over texts, smaller is steadier; None where it was not measured.
        skipped: why the method could not be checked, empty where it could.
    """

    random_model: Mapping[str, ScoreSimilarity] = field(default_factory=dict)
    random_labels: ScoreSimilarity | None = None
    max_sensitivity: float | None = None
    skipped: str = ""


def rank_correlations(first: Sequence[ArrayLike], second: Sequence[ArrayLike]) -> Array:
    """Spearman's rho of each text's scores before and after: (texts,), NaN where all words of one score the same.

    Raises DataError for scores that are not finite.
    """
    return np.array(
        [correlation(*map(ranks, map(check_scores, pair))).item() for pair in zip(first, second, strict=True)]
    )


def top_overlaps(first: Sequence[ArrayLike], second: Sequence[ArrayLike], percent: int = 20) -> Array:
    """Share of each text's top words (`top_count` of them) in common before and after: (texts,); errors as above."""

    def overlap(before: ArrayLike, after: ArrayLike) -> float:
        count = top_count(np.size(before), percent)
        return len(np.intersect1d(ranking(before)[:count], ranking(after)[:count])) / count

    return np.array([overlap(before, after) for before, after in zip(first, second, strict=True)])


def max_sensitivity(scores: Sequence[ArrayLike], perturbed: Sequence[Sequence[ArrayLike]]) -> Array:
    """Return max over the draws of ||scores' - scores||_2 / ||scores||_2 for each text, (texts,); smaller is steadier.

    As captum's `sensitivity_max`; where all scores are 0 the difference is not divided.

    Args:
        scores: one array (words,) a text. perturbed: by draw of the noise, the same.
    """

    changes = np.zeros((len(perturbed), len(scores)))
    for draw, of_draw in enumerate(perturbed):
        for text, (before, after) in enumerate(zip(scores, of_draw, strict=True)):
            a, b = check_scores(before), check_scores(after)
            changes[draw, text] = np.linalg.norm(b - a) / (np.linalg.norm(a) or 1.0)
    return np.asarray(changes.max(axis=0))


def similarity(first: Sequence[ArrayLike], second: Sequence[ArrayLike], percent: int) -> ScoreSimilarity:
    """Rank correlation and overlap of scores before and after, with an interval over texts."""
    rho = rank_correlations(first, second)
    low, high = mean_interval(rho, CONFIDENCE)
    return ScoreSimilarity(mean_where_defined(rho), low, high, float(top_overlaps(first, second, percent).mean()))


def check_methods(
    explainers: Sequence[Any],
    classifier: TransformerPredictor,
    examples: Sequence[Example],
    params: SanityParams,
    seed: int,
    percent: int = 20,
    other_labels: Callable[[int], TransformerPredictor] | None = None,
    unit: Unit = "word",
) -> dict[str, SanityResult]:
    """Explain the same texts on the classifier and on perturbed copies of it, and compare.

    The explained class is always the one that the original classifier predicts. For a method that cannot explain a
    perturbed copy the reason is recorded, and other methods continue.

    Args:
        explainers: methods (`explearn.Explainer`) that are ready to explain; results are keyed by their `name`.
        classifier: the original model, which is not changed.
        examples: texts, at least one.
        params: cascade, noise_samples and noise_radius.
        seed: seed of weights and noise; all methods use the same copies.
        percent: share of the words that count as top words.
        other_labels: the same encoder fine-tuned on permuted labels, for a seed.
        unit: what is scored.

    Raises DataError if there is no text.
    """
    if not examples:
        raise DataError("there is no text to explain; expected at least one test example")
    names = list(parts(classifier))
    depths = range(1, len(names) + 1) if params.cascade else [len(names)]
    # Made one at a time: each holds a whole model.
    copies: dict[tuple[str, str], Callable[[], TransformerPredictor]] = {("as it is", ""): lambda: classifier}
    for depth in depths:
        copies["random down to", names[depth - 1]] = partial(randomised, classifier, seed, names[:depth])
    try:
        table_weight(classifier.model)
    except UnsupportedError as error:
        logger.warning("%s: no noise on its word embeddings: %s", classifier.name, error)
    else:
        for sample in range(params.noise_samples):
            copies["noise", str(sample)] = partial(noisy_embeddings, classifier, params.noise_radius, seed + sample)
    if other_labels is not None:
        copies["other labels", ""] = partial(other_labels, seed)

    targets = classifier.predict(examples)
    scores: dict[str, dict[tuple[str, str], list[NDArray[np.float32]]]] = {e.name: {} for e in explainers}
    skipped: dict[str, str] = {}
    for copy, make in copies.items():
        model = make()
        for explainer in explainers:
            if explainer.name in skipped:
                continue
            description = " ".join(("sanity,", *copy, explainer.name))
            try:
                attributions = explainer.explain(model, examples, targets, description=description, unit=unit)
                scores[explainer.name][copy] = [attribution.filled() for attribution in attributions]
            except ExplearnError as error:
                logger.warning("%s: %s", description, error)
                skipped[explainer.name] = str(error)
    results = {}
    for name, of_copies in scores.items():
        if name in skipped:
            results[name] = SanityResult(skipped=skipped[name])
            continue
        before = of_copies["as it is", ""]
        noisy = [after for (change, _), after in of_copies.items() if change == "noise"]
        relabelled = of_copies.get(("other labels", ""))
        results[name] = SanityResult(
            random_model={
                part: similarity(before, after, percent)
                for (change, part), after in of_copies.items()
                if change == "random down to"
            },
            random_labels=None if relabelled is None else similarity(before, relabelled, percent),
            max_sensitivity=float(max_sensitivity(before, noisy).mean()) if noisy else None,
        )
    return results

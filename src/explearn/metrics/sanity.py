"""Do explanations depend on what they claim to explain? Checks that run methods again on perturbed models.

Model-parameter and label randomisation are those of Adebayo et al. 2018: a method whose scores stay the same when the
classifier's weights are redrawn, or when it has learned permuted labels, says nothing about the classifier.
Max-sensitivity is that of Yeh et al. 2019 (definition 2.5), with noise on the word embeddings.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from explearn.core.arrays import Array, Array32
from explearn.core.errors import DataError, ExplearnError, UnsupportedError
from explearn.core.examples import Example
from explearn.metrics.arrays import check_scores, correlation, mean_of_known, mean_where_defined, ranks
from explearn.metrics.params import SanityParams
from explearn.metrics.plausibility import ranking
from explearn.metrics.protocols import top_count
from explearn.text.units import Unit

if TYPE_CHECKING:
    # It imports torch, which takes seconds; reading results does not need it.
    from explearn.predictors.predictor import Predictor

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ScoreSimilarity:
    """The similarity of a method's scores before and after a change of the model, means over texts.

    Attributes:
        spearman: rank correlation of the word scores, in [-1, 1]; None where no text has two different scores before
            and after.
        overlap: share of the top words in common, in [0, 1].
    """

    spearman: float | None
    overlap: float


@dataclass(frozen=True, slots=True)
class SanityResult:
    """One method's checks.

    Attributes:
        random_model: part of the model down to which weights were redrawn ("embeddings": all of them) -> how similar
            the scores are to those of the model as it is. Near 1: the method does not notice. A learned method keeps
            what it learned before, so for it near 1 does not mean that the scores ignore the model.
        random_labels: the same for the model fine-tuned on permuted labels; None where there is none.
        max_sensitivity: mean over texts, smaller is steadier; None where it was not measured.
        skipped: why the method could not be checked, empty where it could.
    """

    random_model: Mapping[str, ScoreSimilarity] = field(default_factory=dict)
    random_labels: ScoreSimilarity | None = None
    max_sensitivity: float | None = None
    skipped: str = ""


def rank_correlations(first: Sequence[ArrayLike], second: Sequence[ArrayLike]) -> Array:
    """Compute Spearman's rho of each text's scores before and after.

    Args:
        first: scores before, one array (words,) per text.
        second: scores after, likewise.

    Returns:
        (texts,), NaN where all words of a text score the same.

    Raises:
        DataError: a score is not finite.
    """
    pairs = zip(first, second, strict=True)
    return np.array([correlation(ranks(check_scores(a)), ranks(check_scores(b))) for a, b in pairs])


def top_overlaps(first: Sequence[ArrayLike], second: Sequence[ArrayLike], percent: int = 20) -> Array:
    """Compute the share of each text's top words (`top_count` of them) in common before and after, (texts,)."""
    overlaps = np.zeros(len(first))
    for text, (before, after) in enumerate(zip(first, second, strict=True)):
        count = top_count(np.size(before), percent)
        overlaps[text] = len(np.intersect1d(ranking(before)[:count], ranking(after)[:count])) / count
    return overlaps


def max_sensitivity(scores: Sequence[ArrayLike], perturbed: Sequence[Sequence[ArrayLike]]) -> Array:
    """Return max over the draws of ||scores' - scores||_2 / ||scores||_2 for each text, (texts,); smaller is steadier.

    As captum's `sensitivity_max`; where all scores are 0 the difference is not divided.

    Args:
        scores: one array (words,) per text.
        perturbed: for each draw of the noise, the same.
    """
    changes = np.zeros((len(perturbed), len(scores)))
    for draw, of_draw in enumerate(perturbed):
        for text, (before, after) in enumerate(zip(scores, of_draw, strict=True)):
            a = check_scores(before)
            difference = check_scores(after) - a
            changes[draw, text] = np.linalg.norm(difference) / (np.linalg.norm(a) or 1.0)
    return np.asarray(changes.max(axis=0))


def similarity(first: Sequence[ArrayLike], second: Sequence[ArrayLike], percent: int) -> ScoreSimilarity:
    """Return rank correlation and overlap of scores before and after, means over the texts."""
    rho = rank_correlations(first, second)
    return ScoreSimilarity(mean_where_defined(rho), float(top_overlaps(first, second, percent).mean()))


def check_methods(
    explainers: Sequence[Any],
    classifier: Predictor,
    examples: Sequence[Example],
    params: SanityParams,
    seed: int,
    percent: int = 20,
    other_labels: Callable[[int], Predictor] | None = None,
    unit: Unit = "word",
    own: Mapping[str, Predictor] = MappingProxyType({}),
) -> dict[str, SanityResult]:
    """Explain the same texts on the classifier and on perturbed copies of it, and compare.

    The explained class is always the one that the original classifier predicts. For a method that cannot explain a
    perturbed copy the reason is recorded, and other methods continue; for all, if there are no copies of the model.

    Args:
        explainers: methods (`explearn.Explainer`) that are ready to explain; results are keyed by their `name`.
        classifier: the original model, which is not changed.
        examples: texts, at least one.
        params: cascade, noise_samples, noise_radius, and the number of draws (`seeds`), whose means are returned.
        seed: seed of weights and noise in the first draw; all methods use the same copies.
        percent: share of the words that count as top words.
        other_labels: the same encoder fine-tuned on permuted labels, for a seed.
        unit: what is scored.
        own: method -> the classifier that it trained, and explains instead.

    Returns:
        Method -> its checks.

    Raises:
        DataError: there is no text.
    """
    if not examples:
        raise DataError("there is no text to explain; expected at least one test example")
    groups = []
    shared = [explainer for explainer in explainers if explainer.name not in own]
    if shared:
        groups.append((classifier, shared))
    for explainer in explainers:
        if explainer.name in own:
            groups.append((own[explainer.name], [explainer]))
    if other_labels is not None:
        other_labels = cache(other_labels)
    results = {}
    for model, group in groups:
        draws = []
        for draw in range(seed, seed + params.seeds):
            draws.append(_check(group, model, examples, params, draw, percent, other_labels, unit))
        for explainer in group:
            results[explainer.name] = over_draws([checks[explainer.name] for checks in draws])
    return {explainer.name: results[explainer.name] for explainer in explainers}


def over_draws(results: Sequence[SanityResult]) -> SanityResult:
    """Combine one method's checks over several draws: means.

    Skipped if it could not be checked in one of them.
    """
    for result in results:
        if result.skipped or len(results) == 1:
            return result
    random_model = {}
    for part in results[0].random_model:
        random_model[part] = _mean([result.random_model[part] for result in results])
    labels = [result.random_labels for result in results if result.random_labels is not None]
    return SanityResult(
        random_model=random_model,
        random_labels=_mean(labels) if labels else None,
        max_sensitivity=mean_of_known(result.max_sensitivity for result in results),
    )


def _mean(similarities: Sequence[ScoreSimilarity]) -> ScoreSimilarity:
    return ScoreSimilarity(
        spearman=mean_of_known(draw.spearman for draw in similarities),
        overlap=fmean(draw.overlap for draw in similarities),
    )


def _check(
    explainers: Sequence[Any],
    classifier: Predictor,
    examples: Sequence[Example],
    params: SanityParams,
    seed: int,
    percent: int,
    other_labels: Callable[[int], Predictor] | None,
    unit: Unit,
) -> dict[str, SanityResult]:
    """Check methods that explain one classifier, with one draw of weights and noise."""
    targets = classifier.predict(examples)
    scores: dict[str, dict[Change, list[Array32]]] = {explainer.name: {} for explainer in explainers}
    skipped: dict[str, str] = {}
    try:
        models = _changed_models(classifier, params, seed, other_labels)
    except UnsupportedError as error:
        return {name: SanityResult(skipped=str(error)) for name in scores}
    for change, make in models.items():
        model = make()
        for explainer in explainers:
            if explainer.name in skipped:
                continue
            description = " ".join(("sanity,", *change, explainer.name))
            try:
                attributions = explainer.explain(
                    model, examples, targets, description=description, unit=unit, other_models=True
                )
                scores[explainer.name][change] = [attribution.filled() for attribution in attributions]
            except ExplearnError as error:
                logger.warning("%s: %s", description, error)
                skipped[explainer.name] = str(error)
    results = {}
    for name, by_change in scores.items():
        if name in skipped:
            results[name] = SanityResult(skipped=skipped[name])
        else:
            results[name] = _compare(by_change, percent)
    return results


Change = tuple[str, str]
"""A change of the model, and its part or draw."""

UNCHANGED: Change = ("as it is", "")
RELABELLED: Change = ("other labels", "")
RANDOM = "random down to"
NOISE = "noise"


def _changed_models(
    classifier: Predictor,
    params: SanityParams,
    seed: int,
    other_labels: Callable[[int], Predictor] | None,
) -> dict[Change, Callable[[], Predictor]]:
    """Return functions that make the original and each perturbed model, one at a time: each holds a whole model."""
    # They import torch, which takes seconds; reading results does not need it.
    from explearn.lens.perturb import noisy_embeddings, parts, randomised
    from explearn.lens.words import table_weight
    from explearn.predictors.predictor import transformer_of

    models: dict[Change, Callable[[], Predictor]] = {UNCHANGED: lambda: classifier}
    names = list(parts(classifier))
    first = len(names)
    if params.cascade:
        first = 1
    for depth in range(first, len(names) + 1):
        models[RANDOM, names[depth - 1]] = partial(randomised, classifier, seed, names[:depth])
    try:
        table_weight(transformer_of(classifier).model)
    except UnsupportedError as error:
        logger.warning("%s: no noise on its word embeddings: %s", classifier.name, error)
    else:
        for sample in range(params.noise_samples):
            models[NOISE, str(sample)] = partial(noisy_embeddings, classifier, params.noise_radius, seed + sample)
    if other_labels is not None:
        models[RELABELLED] = partial(other_labels, seed)
    return models


def _compare(scores: Mapping[Change, list[Array32]], percent: int) -> SanityResult:
    """Compare a method's scores of the original model with those of the perturbed ones."""
    before = scores[UNCHANGED]
    random_model = {}
    noisy = []
    for (change, part), after in scores.items():
        if change == RANDOM:
            random_model[part] = similarity(before, after, percent)
        elif change == NOISE:
            noisy.append(after)
    result = SanityResult(random_model)
    if RELABELLED in scores:
        result = replace(result, random_labels=similarity(before, scores[RELABELLED], percent))
    if noisy:
        result = replace(result, max_sensitivity=float(max_sensitivity(before, noisy).mean()))
    return result

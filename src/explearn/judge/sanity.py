"""Do explanations depend on what they claim to explain? Checks that run methods again on perturbed models.

Model-parameter and label randomisation are those of Adebayo et al. 2018: a method whose scores stay the same when the
classifier's weights are redrawn, or when it has learned permuted labels, says nothing about the classifier.
Max-sensitivity is that of Yeh et al. 2019 (definition 2.5), with noise on the word embeddings.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.errors import DataError, ExplearnError, UnsupportedError
from explearn.core.records import Attribution, Example
from explearn.judge.arrays import ranks, ratio
from explearn.judge.params import SanityParams
from explearn.judge.plausibility import check_scores, ranking
from explearn.judge.protocols import top_count
from explearn.judge.significance import bootstrap_counts, mean_interval
from explearn.lens.perturb import noisy_embeddings, parts, randomised
from explearn.lens.words import table_weight
from explearn.model.classifier import Classifier

logger = logging.getLogger(__name__)

Array = NDArray[np.float64]
Scores = list[NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Similarity:
    """How similar a method's scores are before and after a change of the model, means over texts.

    spearman: rank correlation of the word scores, in [-1, 1], with its bootstrap interval; None where no text has two
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
        max_sensitivity: mean over texts, smaller is steadier; None where not asked for.
        skipped: why the method could not be checked, empty where it could.
    """

    random_model: Mapping[str, Similarity]
    random_labels: Similarity | None
    max_sensitivity: float | None
    skipped: str = ""


def rank_correlations(first: Sequence[ArrayLike], second: Sequence[ArrayLike]) -> Array:
    """Spearman's rho of each text's scores before and after: (texts,), NaN where all words of one score the same.

    Raises DataError where numbers of texts or words differ, or scores are not finite.
    """
    found = np.full(len(first), np.nan)
    for row, (before, after) in enumerate(_pairs(first, second)):
        a, b = (ranks(values) - (len(values) + 1) / 2 for values in (before, after))
        found[row] = ratio(a @ b, np.sqrt((a @ a) * (b @ b)))
    return found


def top_overlaps(first: Sequence[ArrayLike], second: Sequence[ArrayLike], percent: int = 20) -> Array:
    """Share of each text's top words (`top_count` of them) in common before and after: (texts,); errors as above."""
    found = np.zeros(len(first))
    for row, (before, after) in enumerate(_pairs(first, second)):
        count = top_count(len(before), percent)
        found[row] = len(np.intersect1d(ranking(before)[:count], ranking(after)[:count])) / count
    return found


def max_sensitivity(scores: Sequence[ArrayLike], perturbed: Sequence[Sequence[ArrayLike]]) -> Array:
    """max over the draws of ||scores' - scores||_2 / ||scores||_2 for each text, (texts,); smaller is steadier.

    As captum's `sensitivity_max`; where all scores are 0 the difference is not divided.

    Args:
        scores: one array (words,) a text. perturbed: by draw of the noise, the same.

    Raises DataError where numbers of texts or words differ, or scores are not finite.
    """
    found = np.zeros(len(scores))
    for draw in perturbed:
        for row, (before, after) in enumerate(_pairs(scores, draw)):
            norm = float(np.linalg.norm(before)) or 1.0
            found[row] = max(found[row], float(np.linalg.norm(after - before)) / norm)
    return found


def similarity(
    first: Sequence[ArrayLike], second: Sequence[ArrayLike], percent: int = 20, seed: int = 0, confidence: float = 0.95
) -> Similarity:
    """Rank correlation and overlap of scores before and after, with a bootstrap interval over texts."""
    rho = rank_correlations(first, second)
    known = rho[~np.isnan(rho)]
    low, high = mean_interval(rho, bootstrap_counts(len(rho), 1000, seed), confidence)
    return Similarity(
        spearman=float(known.mean()) if known.size else None,
        spearman_low=low,
        spearman_high=high,
        overlap=float(top_overlaps(first, second, percent).mean()),
    )


class Explains(Protocol):
    """What is asked of a method here; `explearn.Explainer` is one."""

    name: str

    def explain(
        self,
        classifier: Classifier,
        texts: Iterable[Example],
        targets: Iterable[int | str] | None = None,
        description: str | None = None,
    ) -> Iterator[Attribution]: ...


def _noises(classifier: Classifier, params: SanityParams) -> int:
    """Draws of noise on the word embeddings; none, with a warning, for a model that has no table of them."""
    try:
        table_weight(classifier.model)
    except UnsupportedError as error:
        logger.warning("%s: %s", classifier.name, error)
        return 0
    return params.noise_samples


def check_methods(
    explainers: Sequence[Explains],
    classifier: Classifier,
    examples: Sequence[Example],
    params: SanityParams,
    seed: int,
    percent: int = 20,
    other_labels: Classifier | None = None,
    known: Mapping[str, Scores] | None = None,
) -> dict[str, SanityResult]:
    """Explain the same texts on the classifier and on perturbed copies of it, and compare.

    The class explained is always the one that the classifier as it is predicts. A method that cannot explain a
    perturbed copy is noted with the reason, and the others go on.

    Args:
        explainers: ready to explain; results are by their `name`.
        classifier: the model as it is; stays so.
        examples: texts, at least one.
        params: cascade, noise_samples and noise_radius.
        seed: of weights, noise and bootstrap; all methods meet the same copies.
        percent: share of the words that counts as top.
        other_labels: the same encoder fine-tuned on permuted labels.
        known: by method, the scores of these texts on the classifier as it is, where they have been computed.

    Raises DataError where there is no text.
    """
    if not examples:
        raise DataError("there is no text to explain; expected at least one test example")
    targets = classifier.predict(examples)
    names = list(parts(classifier))
    depths = range(1, len(names) + 1) if params.cascade else [len(names)]
    # Made one at a time: each holds a whole model.
    copies: dict[tuple[str, str], Callable[[], Classifier]] = {("as it is", ""): lambda: classifier}
    for depth in depths:
        copies["random down to", names[depth - 1]] = partial(randomised, classifier, seed, names[:depth])
    for draw in range(_noises(classifier, params)):
        copies["noise", str(draw)] = partial(noisy_embeddings, classifier, params.noise_radius, seed + draw)
    if other_labels is not None:
        copies["other labels", ""] = lambda: other_labels

    scores: dict[str, dict[tuple[str, str], Scores]] = {explainer.name: {} for explainer in explainers}
    for name in scores.keys() & (known or {}).keys():
        scores[name]["as it is", ""] = (known or {})[name]
    skipped: dict[str, str] = {}
    for copy, make in copies.items():
        model = make()
        for explainer in explainers:
            if explainer.name in skipped or copy in scores[explainer.name]:
                continue
            said = " ".join(("sanity,", *copy, explainer.name))
            try:
                found = [a.filled() for a in explainer.explain(model, examples, targets, description=said)]
            except ExplearnError as error:
                logger.warning("%s: %s", said, error)
                skipped[explainer.name] = str(error)
            else:
                scores[explainer.name][copy] = found
    return {
        name: SanityResult({}, None, None, skipped[name]) if name in skipped else _result(of_copies, percent, seed)
        for name, of_copies in scores.items()
    }


def over_draws(results: Sequence[SanityResult]) -> SanityResult:
    """One method's checks over several draws: means, and intervals as wide as those of all draws together.

    A method that could not be checked in one draw was not checked. Raises DataError where there is no draw.
    """
    if not results:
        raise DataError("there is no draw of the sanity checks; expected at least one")
    for result in results:
        if result.skipped or len(results) == 1:
            return result
    sensitivity = [result.max_sensitivity for result in results if result.max_sensitivity is not None]
    labels = [result.random_labels for result in results if result.random_labels is not None]
    return SanityResult(
        random_model={
            part: _mean_similarity([result.random_model[part] for result in results])
            for part in results[0].random_model
        },
        random_labels=_mean_similarity(labels) if labels else None,
        max_sensitivity=fmean(sensitivity) if sensitivity else None,
    )


def _mean_similarity(found: Sequence[Similarity]) -> Similarity:
    known = [one.spearman for one in found if one.spearman is not None]
    return Similarity(
        spearman=fmean(known) if known else None,
        spearman_low=min((one.spearman_low for one in found if one.spearman_low is not None), default=None),
        spearman_high=max((one.spearman_high for one in found if one.spearman_high is not None), default=None),
        overlap=fmean(one.overlap for one in found),
    )


def _result(scores: Mapping[tuple[str, str], Scores], percent: int, seed: int) -> SanityResult:
    before = scores["as it is", ""]
    shaken = [found for (change, _), found in scores.items() if change == "noise"]
    relabelled = scores.get(("other labels", ""))
    return SanityResult(
        random_model={
            part: similarity(before, found, percent, seed)
            for (change, part), found in scores.items()
            if change == "random down to"
        },
        random_labels=None if relabelled is None else similarity(before, relabelled, percent, seed),
        max_sensitivity=float(max_sensitivity(before, shaken).mean()) if shaken else None,
    )


def _pairs(first: Sequence[ArrayLike], second: Sequence[ArrayLike]) -> list[tuple[Array, Array]]:
    if len(first) != len(second):
        raise DataError(f"scores of {len(first)} texts before and of {len(second)} after; expected equal numbers")
    pairs = [(check_scores(before), check_scores(after)) for before, after in zip(first, second, strict=True)]
    for row, (before, after) in enumerate(pairs):
        if before.shape != after.shape:
            raise DataError(f"text {row}: {before.size} scores before and {after.size} after; expected equal numbers")
    return pairs

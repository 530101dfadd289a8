"""Faithfulness: does the classifier itself depend on the words a method ranks highest?

Comprehensiveness and sufficiency are those of ERASER (DeYoung et al. 2020, section 4.2) and log-odds that of
Shrikumar et al. 2017 as used in AML; shares of k percent and their mean (AOPC) as in ERASER.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from explearn.data.records import Attribution
from explearn.errors import DataError, ModelError, UnknownNameError
from explearn.metrics.plausibility import ranking
from explearn.params import EvaluateParams

if TYPE_CHECKING:
    # explearn.models imports torch, which takes seconds that a reader of results need not spend.
    from explearn.models.classifier import Classifier
    from explearn.models.encoding import Encoding

logger = logging.getLogger(__name__)

EPSILON = float(np.finfo(np.float64).eps)
"""Probabilities are raised to this before their logarithm is taken, 2.2e-16, so that log-odds stay finite."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class FaithfulnessResult:
    """Faithfulness of one method on each of n texts; p is the probability of the attribution's target.

    Attributes:
        example_ids: ids of the texts, in the order of the arrays.
        probability: p(x), shape (n,).
        comprehensiveness: p(x) - p(x without the top words), shape (n,); larger is better.
        sufficiency: p(x) - p(the top words only), shape (n,); smaller is better.
        log_odds: log p(x with the top words masked) - log p(x), natural logarithm, shape (n,); smaller is better.
        comprehensiveness_by_percent, sufficiency_by_percent: shape (n, len(params.percents)).
        requested_inputs: inputs that this method asked the classifier about.
        distinct_inputs: inputs that were evaluated for all methods of the call together.

    Single values take `params.headline_percent` of the words; the AOPC is the mean over `params.percents`.
    """

    example_ids: tuple[str, ...]
    probability: Array
    comprehensiveness: Array
    sufficiency: Array
    log_odds: Array
    comprehensiveness_by_percent: Array
    sufficiency_by_percent: Array
    requested_inputs: int
    distinct_inputs: int

    @property
    def aopc_comprehensiveness(self) -> Array:
        """Mean over the shares, shape (n,)."""
        return np.asarray(self.comprehensiveness_by_percent.mean(axis=1))

    @property
    def aopc_sufficiency(self) -> Array:
        """Mean over the shares, shape (n,)."""
        return np.asarray(self.sufficiency_by_percent.mean(axis=1))

    def means(self) -> dict[str, float | None]:
        """Means over the texts, by metric name; None where there is no text."""
        names = ("comprehensiveness", "sufficiency", "log_odds", "aopc_comprehensiveness", "aopc_sufficiency")
        return {name: float(getattr(self, name).mean()) if self.example_ids else None for name in names}


def top_count(words: int, percent: int) -> int:
    """Number of words in the top `percent` of `words`: max(1, round(words percent / 100)), halves rounded up.

    In whole numbers, because Python's own `round` goes to the even neighbour (2.5 -> 2, 3.5 -> 4).
    """
    return max(1, (words * percent + 50) // 100)


class _Inputs:
    """Encodings to evaluate, each distinct one once."""

    def __init__(self) -> None:
        self.distinct: list[Encoding] = []
        self.requested = 0
        self._index: dict[object, int] = {}

    def add(self, encoding: Encoding) -> int:
        """Row of the encoding's prediction."""
        self.requested += 1
        row = self._index.setdefault(encoding.key, len(self.distinct))
        if row == len(self.distinct):
            self.distinct.append(encoding)
        return row


@dataclass(frozen=True, slots=True)
class _Plan:
    """Rows of predictions that one attribution needs: full (), without and only (len(percents) + 1,), masked ()."""

    target: int
    full: int
    without: list[int]
    only: list[int]
    masked: int


def faithfulness(
    classifier: Classifier,
    encodings: Mapping[str, Encoding],
    attributions: Mapping[str, Sequence[Attribution]],
    params: EvaluateParams,
) -> dict[str, FaithfulnessResult]:
    """Comprehensiveness, sufficiency, log-odds and their AOPC for all methods of a task together.

    Different methods and shares often ask about the same shortened text, so all inputs are collected first, those
    that look alike to the model (`Encoding.key`) are merged, and one `predict_proba` evaluates the distinct ones.

    For each share of k percent the top `top_count(n, k)` of n words, by highest signed score and then by position, are
    taken out (comprehensiveness) or left alone (sufficiency), by deletion or by the mask token as `params.removal`
    says. Log-odds always masks. The class is the attribution's target.

    Args:
        classifier: the model that was explained.
        encodings: by example id, the unchanged texts.
        attributions: by method; any number of texts each.
        params: removal, percents and headline_percent.

    Raises:
        DataError: an attribution of a text without encoding, of other words than its encoding's, or with scores that
            are not finite or not one a word.
        UnknownNameError: a target that the classifier has no class for.
        ModelError: the classifier gave a probability that is not finite.
    """
    shares = [*params.percents, params.headline_percent]
    inputs = _Inputs()
    plans: dict[str, list[_Plan]] = {}
    requested: dict[str, int] = {}
    for method, texts in attributions.items():
        before = inputs.requested
        plans[method] = [_plan(classifier, encodings, method, text, shares, params.removal, inputs) for text in texts]
        requested[method] = inputs.requested - before
    said = f"{len(inputs.distinct):,} distinct of {inputs.requested:,} inputs"
    logger.info("faithfulness of %d methods: %s", len(attributions), said)
    probabilities = np.zeros((0, len(classifier.labels)))
    if inputs.distinct:
        probabilities = classifier.predict_proba(inputs.distinct, description=f"faithfulness, {said}")
    if not np.isfinite(probabilities).all():
        raise ModelError("the classifier gave a probability that is not finite; expected values in [0, 1]")
    return {
        method: _result(
            attributions[method], plans[method], len(shares), probabilities, requested[method], len(inputs.distinct)
        )
        for method in attributions
    }


def _plan(
    classifier: Classifier,
    encodings: Mapping[str, Encoding],
    method: str,
    attribution: Attribution,
    shares: Sequence[int],
    removal: str,
    inputs: _Inputs,
) -> _Plan:
    where = f"method {method!r}, example {attribution.example_id!r}"
    encoding = encodings.get(attribution.example_id)
    if encoding is None:
        raise DataError(f"{where}: the text has no encoding; expected one for every attribution")
    if tuple(encoding.words) != tuple(attribution.words) or len(attribution.scores) != len(attribution.words):
        raise DataError(
            f"{where}: {len(attribution.scores)} scores over {len(attribution.words)} words; "
            f"expected one for each of the {len(encoding.words)} words of the text, in their order"
        )
    if attribution.target not in classifier.labels:
        raise UnknownNameError(f"target class ({where})", attribution.target, classifier.labels)
    try:
        order = [int(word) for word in ranking(attribution.scores)]
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
    mask_token_id = classifier.mask_token_id
    without: list[int] = []
    only: list[int] = []
    for share in shares:
        top, rest = order[: top_count(len(order), share)], order[top_count(len(order), share) :]
        if removal == "delete":
            without.append(inputs.add(encoding.delete(top)))
            only.append(inputs.add(encoding.keep(top)))
        else:
            without.append(inputs.add(encoding.mask(top, mask_token_id)))
            only.append(inputs.add(encoding.mask(rest, mask_token_id)))
    return _Plan(
        target=classifier.labels.index(attribution.target),
        full=inputs.add(encoding),
        without=without,
        only=only,
        # `shares` ends with the headline's.
        masked=inputs.add(encoding.mask(order[: top_count(len(order), shares[-1])], mask_token_id)),
    )


def _result(
    attributions: Sequence[Attribution],
    plans: Sequence[_Plan],
    shares: int,
    probabilities: Array,
    requested: int,
    distinct: int,
) -> FaithfulnessResult:
    full = np.array([probabilities[p.full, p.target] for p in plans])
    masked = np.array([probabilities[p.masked, p.target] for p in plans])
    without = np.array([probabilities[p.without, p.target] for p in plans]).reshape(len(plans), shares)
    only = np.array([probabilities[p.only, p.target] for p in plans]).reshape(len(plans), shares)
    return FaithfulnessResult(
        example_ids=tuple(a.example_id for a in attributions),
        probability=full,
        comprehensiveness=full - without[:, -1],
        sufficiency=full - only[:, -1],
        log_odds=np.log(np.maximum(masked, EPSILON)) - np.log(np.maximum(full, EPSILON)),
        comprehensiveness_by_percent=full[:, None] - without[:, :-1],
        sufficiency_by_percent=full[:, None] - only[:, :-1],
        requested_inputs=requested,
        distinct_inputs=distinct,
    )

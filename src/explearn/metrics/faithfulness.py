"""Faithfulness: does the classifier itself depend on the words that a method ranks highest?

Comprehensiveness and sufficiency are those of ERASER (DeYoung et al. 2020, section 4.2). Log-odds is that of Shrikumar
et al. 2017, as used in AML. The difference of log-odds and the agreement of predictions are those of L2E (section 4.4).
Shares of k percent and their mean (AOPC) are as in ERASER.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.attribution import Attribution
from explearn.core.errors import DataError
from explearn.metrics.catalogue import INPUTS
from explearn.metrics.context import Context, MetricColumns, mean_where_defined
from explearn.metrics.params import EvaluateParams
from explearn.metrics.plausibility import ranking
from explearn.metrics.predictions import Predictions
from explearn.metrics.protocols import FaithfulnessProtocol, as_sub_tokens, log_probability, top_count

if TYPE_CHECKING:
    # explearn.predictors imports torch, which takes seconds; reading results does not need it.
    from explearn.predictors.encoding import Encoding
    from explearn.predictors.transformer import TransformerPredictor

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class FaithfulnessResult:
    """The faithfulness of one method on each of n texts; p is the probability of the attribution's target.

    Attributes:
        values: by metric, shape (n,), NaN where undefined. Single values take `params.headline_percent` of the words;
            a word without a score is ranked last.
            comprehensiveness: p(x) - p(x without the top words); larger is better.
            sufficiency: p(x) - p(the top words only); smaller is better.
            log_odds: log p(x with the top words masked) - log p(x), natural logarithm; smaller is better.
            aopc_comprehensiveness, aopc_sufficiency: mean over the shares.
            delta_log_odds_positive: logit p(x) - logit p(x with the top words masked), but only those top words that
                are evidence for the target (score above 0; for an unsigned method all); larger is better.
            delta_log_odds_negative: the same with as many words from the other end, only those that are evidence
                against the target (score below 0), NaN for unsigned methods; smaller is better.
            prediction_agreement: 1 if the class predicted from only the top words is that of the whole text, else 0;
                larger is better.
            confidence_INPUT: largest class probability of each of INPUTS; for a multi-label classifier the larger of
                the probabilities of the target and of its absence.
        comprehensiveness_by_percent, sufficiency_by_percent: shape (n, len(params.percents)).
    """

    values: dict[str, Array]
    comprehensiveness_by_percent: Array
    sufficiency_by_percent: Array

    def means(self) -> dict[str, float | None]:
        """Return metric -> mean over the texts for which it is defined; None if there is no such text."""
        return {name: mean_where_defined(values) for name, values in self.values.items()}


def logit(probabilities: Array, targets: NDArray[np.int64]) -> Array:
    """Return log(p / (1 - p)), p the probability of the target: (n,) from probabilities (n, C) and targets (n,).

    1 - p is computed as the sum over the other classes, which stays precise if p is almost 1. Both are at least
    EPSILON.
    """
    rows = np.arange(len(targets))
    others = probabilities.copy()
    others[rows, targets] = 0.0
    return log_probability(probabilities[rows, targets]) - log_probability(others.sum(axis=1))


class _Rows(NamedTuple):
    """The rows of the predictions that one attribution needs.

    without, only: (len(percents) + 1,), the last one for the headline share. positive, negative: rows with the words
    for or against the target masked.
    """

    full: int
    without: list[int]
    only: list[int]
    masked: int
    positive: int
    negative: int
    kept: int


def faithfulness(
    classifier: TransformerPredictor,
    encodings: Mapping[str, Encoding],
    attributions: Mapping[str, Sequence[Attribution]],
    params: EvaluateParams,
    rationales: Mapping[str, Mapping[str, ArrayLike]] | None = None,
    predictions: Predictions | None = None,
) -> dict[str, FaithfulnessResult]:
    """Compute comprehensiveness, sufficiency, log-odds, their AOPC and L2E's metrics for all methods of a task.

    Different methods and shares often need the same shortened text. So all inputs are collected first, those that are
    equal for the model (`Encoding.key`) are merged, and one `predict_proba` evaluates the distinct ones.

    For each share of k percent the top words, by highest signed score and then by position, are removed
    (comprehensiveness) or kept alone (sufficiency), by deletion or by the mask token as `params.removal` says. Log-odds
    always masks. The class is the attribution's target. The number of words in k percent, the words of the single
    values and the average of the AOPC depend on `params.protocol` (`explearn.metrics.protocols`). Under `aml` all
    differences are 0 if a share is less than one sub-token; AML's paper deletes words. Under `eraser` the single values
    take `rationales`; ERASER leaves the number of words in a share to the maker of the predictions.

    L2E's metrics always take the top `top_count(n, params.headline_percent)` words; L2E itself takes 30 %.

    Args:
        classifier: the model that was explained.
        encodings: example id -> unchanged text.
        attributions: method -> attributions of any number of texts.
        params: protocol, removal, percents and headline_percent.
        rationales: method -> example id -> chosen words, bool (n,); needed only by protocol eraser.
        predictions: predictions whose evaluated inputs are shared with other metrics (default: none).

    Raises:
        DataError: scores that are not finite, or under protocol aml scores that are not one per sub-token.
        ModelError: the classifier gave a probability that is not finite.
    """
    protocol = FaithfulnessProtocol.of(params)
    pool = predictions or Predictions(classifier)
    rows = {
        method: [
            _request(pool, encodings[a.example_id], a, protocol, (rationales or {}).get(method, {})) for a in texts
        ]
        for method, texts in attributions.items()
    }
    pool.evaluate(f"faithfulness of {len(attributions)} methods")
    return {method: _result(texts, rows[method], protocol, pool) for method, texts in attributions.items()}


def _request(
    pool: Predictions,
    encoding: Encoding,
    attribution: Attribution,
    protocol: FaithfulnessProtocol,
    rationales: Mapping[str, ArrayLike],
) -> _Rows:
    mask = pool.classifier.mask_token_id
    # A word that is itself classified stays in every text.
    stays = encoding.in_question
    order = [word for word in ranking(attribution.filled()).tolist() if word not in stays]
    text, units = encoding, order
    if protocol.by_sub_token:
        if len(encoding.positions) != len(attribution.token_scores):
            raise DataError(
                f"method {attribution.method!r}, example {attribution.example_id!r}: {len(attribution.token_scores)} "
                f"sub-token scores; expected one for each of the text's {len(encoding.positions)}"
            )
        text = replace(as_sub_tokens(encoding), words=attribution.tokens)
        units = ranking(attribution.token_scores).tolist() if encoding.positions else []
        stays = text.in_question
        units = [unit for unit in units if unit not in stays]
    if protocol.protocol == "eraser":
        single = np.flatnonzero(rationales[attribution.example_id]).tolist()
    else:
        single = units[: protocol.count(len(units), protocol.headline_percent)]
    parts = [*(units[: protocol.count(len(units), percent)] for percent in protocol.percents), single]
    top = order[: top_count(len(order), protocol.headline_percent)]
    bottom = order[::-1][: len(top)]
    scores = attribution.scores
    positive = [word for word in top if scores[word] > 0 or not attribution.signed]
    negative = [word for word in bottom if scores[word] < 0 and attribution.signed]
    return _Rows(
        full=pool.request(encoding),
        without=[pool.request(protocol.without(text, part, mask)) for part in parts],
        only=[pool.request(protocol.only(text, part, set(units).difference(part), mask)) for part in parts],
        masked=pool.request(text.mask(single, mask)),
        positive=pool.request(encoding.mask(positive, mask)),
        negative=pool.request(encoding.mask(negative, mask)),
        kept=pool.request(protocol.only(encoding, top, order[len(top) :], mask)),
    )


def _result(
    attributions: Sequence[Attribution], rows: Sequence[_Rows], protocol: FaithfulnessProtocol, pool: Predictions
) -> FaithfulnessResult:
    explained = np.array([pool.classifier.labels.index(a.target) for a in attributions], dtype=np.int64)
    # If labels do not exclude each other, the two classes of a text are its target and the target's absence.
    by_label = pool.classifier.problem == "multi_label"
    targets = np.ones_like(explained) if by_label else explained

    def classes(inputs: Iterable[int]) -> Array:
        """Return the probabilities for one input per text, (n, C), or (n, 2) for a multi-label classifier."""
        p = pool.probabilities[np.array(list(inputs), dtype=np.intp)]
        if not by_label:
            return p
        of_label = np.take_along_axis(p, explained[:, None], axis=1)
        return np.concatenate([1 - of_label, of_label], axis=1)

    def of_target(p: Array) -> Array:
        return np.take_along_axis(p, targets[:, None], axis=1)[:, 0]

    full, masked, kept = (classes(getattr(r, name) for r in rows) for name in ("full", "masked", "kept"))
    without, only = (
        [classes(getattr(r, name)[share] for r in rows) for share in range(len(protocol.percents) + 1)]
        for name in ("without", "only")
    )
    comprehensiveness, sufficiency = (
        np.stack([of_target(full) - of_target(p) for p in of_shares], axis=1) for of_shares in (without, only)
    )
    signed = np.array([attribution.signed for attribution in attributions], dtype=np.bool_)
    logits = logit(full, targets)
    values = {
        "comprehensiveness": comprehensiveness[:, -1],
        "sufficiency": sufficiency[:, -1],
        "log_odds": log_probability(of_target(masked)) - log_probability(of_target(full)),
        "aopc_comprehensiveness": comprehensiveness[:, :-1].sum(axis=1) / protocol.aopc_steps,
        "aopc_sufficiency": sufficiency[:, :-1].sum(axis=1) / protocol.aopc_steps,
        "delta_log_odds_positive": logits - logit(classes(r.positive for r in rows), targets),
        "delta_log_odds_negative": np.where(signed, logits - logit(classes(r.negative for r in rows), targets), np.nan),
        "prediction_agreement": (kept.argmax(axis=1) == full.argmax(axis=1)).astype(np.float64),
    }
    for name, p in zip(INPUTS, (full, without[-1], only[-1], masked), strict=True):
        values[f"confidence_{name}"] = p.max(axis=1)
    return FaithfulnessResult(values, comprehensiveness[:, :-1], sufficiency[:, :-1])


def measure(context: Context, columns: MetricColumns) -> None:
    """Add the metrics of `FaithfulnessResult`, with the model that each method explains."""
    ids = [example.id for example in context.examples]
    rationales = {method: dict(zip(ids, masks, strict=True)) for method, masks in context.chosen.items()}
    for model in context.models:
        results = faithfulness(
            model.classifier, model.encodings, model.attributions, context.params, rationales, model.predictions
        )
        for method, result in results.items():
            for name, values in result.values.items():
                columns.add(method, name, values)

"""Faithfulness: does the classifier itself depend on the words a method ranks highest?

Comprehensiveness and sufficiency are those of ERASER (DeYoung et al. 2020, section 4.2), log-odds that of Shrikumar et
al. 2017 as used in AML, the difference of log-odds and the agreement of predictions those of L2E (section 4.4). Shares
of k percent and their mean (AOPC) are as in ERASER.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.errors import DataError, UnknownNameError
from explearn.core.records import Attribution
from explearn.judge.catalogue import INPUTS
from explearn.judge.columns import Columns
from explearn.judge.context import Context
from explearn.judge.params import EvaluateParams
from explearn.judge.plausibility import ranking
from explearn.judge.predictions import Predictions
from explearn.judge.protocols import FaithfulnessProtocol, as_sub_tokens, log_probability, top_count

if TYPE_CHECKING:
    # explearn.model imports torch, which takes seconds; reading results does not need it.
    from explearn.model.classifier import Classifier
    from explearn.model.encoding import Encoding

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
        aopc_comprehensiveness, aopc_sufficiency: mean over the shares, shape (n,).
        comprehensiveness_by_percent, sufficiency_by_percent: shape (n, len(params.percents)).
        delta_log_odds_positive: logit p(x) - logit p(x with the top words masked), of those words only the ones that
            speak for the target (score above 0; of an unsigned method all), shape (n,); larger is better.
        delta_log_odds_negative: the same with as many words from the other end, those that speak against the target
            (score below 0), shape (n,), NaN for unsigned methods; smaller is better.
        prediction: index of the class given for the top words only, int64, shape (n,); of a multi-label classifier 1
            where the target holds for them, else 0. Confidence and entropy then are of these two, too.
        prediction_agreement: 1 where that is the class given for the whole text, else 0, shape (n,); larger is better.
        confidence: largest class probability of each of INPUTS, shape (n, 4).
        entropy: of the class probabilities of each of INPUTS, in nats, shape (n, 4).
        requested_inputs: inputs that this method asked the classifier about.
        distinct_inputs: inputs that were evaluated for all methods of the call together.

    Single values take `params.headline_percent` of the words. A word without a score is ranked last.
    """

    example_ids: tuple[str, ...]
    probability: Array
    comprehensiveness: Array
    sufficiency: Array
    log_odds: Array
    aopc_comprehensiveness: Array
    aopc_sufficiency: Array
    comprehensiveness_by_percent: Array
    sufficiency_by_percent: Array
    delta_log_odds_positive: Array
    delta_log_odds_negative: Array
    prediction: NDArray[np.int64]
    prediction_agreement: Array
    confidence: Array
    entropy: Array
    requested_inputs: int
    distinct_inputs: int

    def values(self) -> dict[str, Array]:
        """Every metric's value on each text, by metric name, NaN where undefined."""
        names = (
            "comprehensiveness",
            "sufficiency",
            "log_odds",
            "aopc_comprehensiveness",
            "aopc_sufficiency",
            "delta_log_odds_positive",
            "delta_log_odds_negative",
            "prediction_agreement",
        )
        inputs = {
            f"{kind}_{name}": getattr(self, kind)[:, column]
            for kind in ("confidence", "entropy")
            for column, name in enumerate(INPUTS)
        }
        return {name: getattr(self, name) for name in names} | inputs

    def means(self) -> dict[str, float | None]:
        """Means over the texts where a metric is defined, by metric name; None where there is no such text."""
        defined = {name: values[~np.isnan(values)] for name, values in self.values().items()}
        return {name: float(values.mean()) if values.size else None for name, values in defined.items()}


def logit(probabilities: Array, targets: NDArray[np.int64]) -> Array:
    """log(p / (1 - p)), p the probability of the target; shape (n,) from probabilities (n, C) and targets (n,).

    1 - p is taken as the sum over the other classes, which keeps its digits where p is almost 1. Both are raised to
    EPSILON.
    """
    rows = np.arange(len(targets))
    others = probabilities.copy()
    others[rows, targets] = 0.0
    return log_probability(probabilities[rows, targets]) - log_probability(others.sum(axis=1))


def sub_token_units(encoding: Encoding, attribution: Attribution) -> tuple[Encoding, NDArray[np.float64]]:
    """The text with each sub-token a word of its own (special tokens excepted), and the scores of these.

    Raises DataError where the attribution has not one score for each.
    """
    count = len(encoding.positions)
    if count != len(attribution.token_scores):
        raise DataError(
            f"method {attribution.method!r}, example {attribution.example_id!r}: {len(attribution.token_scores)} "
            f"sub-token scores; expected one for each of the text's {count}"
        )
    text = replace(as_sub_tokens(encoding), words=attribution.tokens)
    return text, np.asarray(attribution.token_scores, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Rows of the predictions that one attribution needs.

    without, only: (len(percents) + 1,), the last of the headline. positive, negative: masked words for and against.
    """

    target: int
    full: int
    without: list[int]
    only: list[int]
    masked: int
    positive: int
    negative: int
    kept: int


def faithfulness(
    classifier: Classifier,
    encodings: Mapping[str, Encoding],
    attributions: Mapping[str, Sequence[Attribution]],
    params: EvaluateParams,
    rationales: Mapping[str, Mapping[str, ArrayLike]] | None = None,
    predictions: Predictions | None = None,
) -> dict[str, FaithfulnessResult]:
    """Comprehensiveness, sufficiency, log-odds, their AOPC and L2E's metrics for all methods of a task together.

    Different methods and shares often ask about the same shortened text, so all inputs are collected first, those
    that look alike to the model (`Encoding.key`) are merged, and one `predict_proba` evaluates the distinct ones.

    For each share of k percent the best words, by highest signed score and then by position, are taken out
    (comprehensiveness) or left alone (sufficiency), by deletion or by the mask token as `params.removal` says. Log-odds
    always masks. The class is the attribution's target. How many words k percent are, which words the single values
    take and how the AOPC is averaged depends on `params.protocol` (`explearn.judge.protocols`). Under `aml` all
    differences are 0 where a share is no sub-token at all; AML's paper deletes words. Under `eraser` the single values
    take `rationales`; how many words a share is, ERASER leaves to the maker of the predictions.

    L2E's metrics always take the top `top_count(n, params.headline_percent)` words; L2E itself takes 30 %.

    Args:
        classifier: the model that was explained.
        encodings: by example id, the unchanged texts.
        attributions: by method; any number of texts each.
        params: protocol, removal, percents and headline_percent.
        rationales: method -> example id -> chosen words, bool (n,); needed by protocol eraser alone.
        predictions: to share evaluated inputs with other metrics (default: none).

    Raises:
        DataError: an attribution of a text without encoding, of other words than its encoding's, or with scores that
            are not finite or not one a word; under protocol eraser, a text without chosen words' mask.
        UnknownNameError: a target that the classifier has no class for.
        ModelError: the classifier gave a probability that is not finite.
    """
    protocol = FaithfulnessProtocol.of(params)
    pool = predictions or Predictions(classifier)
    plans: dict[str, list[_Plan]] = {}
    requested: dict[str, int] = {}
    for method, texts in attributions.items():
        before = pool.requested
        chosen = (rationales or {}).get(method, {})
        plans[method] = [_plan(classifier, encodings, method, text, chosen, protocol, pool) for text in texts]
        requested[method] = pool.requested - before
    pool.evaluate(f"faithfulness of {len(attributions)} methods")
    return {
        method: _result(texts, plans[method], protocol, pool, requested[method])
        for method, texts in attributions.items()
    }


def _plan(
    classifier: Classifier,
    encodings: Mapping[str, Encoding],
    method: str,
    attribution: Attribution,
    chosen: Mapping[str, ArrayLike],
    protocol: FaithfulnessProtocol,
    pool: Predictions,
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
    unscored = set(np.flatnonzero(~attribution.read).tolist()).intersection(encoding.word_ids)
    if unscored:
        raise DataError(f"{where}: word {min(unscored)} has score nan; expected a number, for the classifier reads it")
    try:
        order = ranking(attribution.filled()).tolist()
    except DataError as error:
        raise DataError(f"{where}: {error}") from error

    full = pool.request(encoding)
    mask = classifier.mask_token_id
    text, units = encoding, order
    if protocol.by_sub_token:
        text, token_scores = sub_token_units(encoding, attribution)
        units = ranking(token_scores).tolist() if len(token_scores) else []
    if protocol.protocol == "eraser":
        single = _chosen_words(chosen, attribution, where)
    else:
        single = units[: protocol.count(len(units), protocol.headline_percent)]
    top = order[: top_count(len(order), protocol.headline_percent)]

    of_text = pool.changed(text)
    of_words = of_text if text is encoding else pool.changed(encoding)

    def without(words: list[int]) -> int:
        return of_text(f"without, {protocol.removal}", words, lambda: protocol.without(text, words, mask))

    def only(words: list[int]) -> int:
        if protocol.by_sub_token and not words:
            return full  # the unchanged text, which is asked about already

        def make() -> Encoding:
            return protocol.only(text, words, set(units).difference(words), mask)

        return of_text(f"only, {protocol.removal}", words, make)

    def masked(words: list[int]) -> int:
        return of_words("mask", words, lambda: encoding.mask(words, mask))

    parts = [*(units[: protocol.count(len(units), percent)] for percent in protocol.percents), single]
    scores = attribution.scores
    return _Plan(
        target=classifier.labels.index(attribution.target),
        full=full,
        without=[without(words) for words in parts],
        only=[only(words) for words in parts],
        masked=of_text("mask", single, lambda: text.mask(single, mask)),
        positive=masked([w for w in top if scores[w] > 0 or not attribution.signed]),
        negative=masked([w for w in order[::-1][: len(top)] if scores[w] < 0 and attribution.signed]),
        kept=of_words(f"only, {protocol.removal}", top, lambda: protocol.only(encoding, top, order[len(top) :], mask)),
    )


def _chosen_words(chosen: Mapping[str, ArrayLike], attribution: Attribution, where: str) -> list[int]:
    mask = chosen.get(attribution.example_id)
    if mask is None or np.shape(mask) != (len(attribution.words),):
        raise DataError(
            f"{where}: protocol eraser takes the chosen words, and got {'none' if mask is None else np.shape(mask)}; "
            f"expected a mask over the {len(attribution.words)} words"
        )
    return [int(word) for word in np.flatnonzero(np.asarray(mask, dtype=np.bool_))]


def _result(
    attributions: Sequence[Attribution],
    plans: Sequence[_Plan],
    protocol: FaithfulnessProtocol,
    pool: Predictions,
    requested: int,
) -> FaithfulnessResult:
    # scipy takes a while to load; importing this module should not.
    from scipy.special import entr

    asked = np.array([plan.target for plan in plans], dtype=np.int64)
    # Labels that do not exclude each other: each text's target, and its absence, are the two classes.
    by_label = pool.classifier.problem == "multi_label"
    targets = np.ones_like(asked) if by_label else asked

    def rows_at(places: Sequence[int]) -> Array:
        """Probabilities of one input a text, (n, C), or (n, 2) by label."""
        found = pool.probabilities[np.array(places, dtype=np.intp)]
        if not by_label:
            return found
        p = np.take_along_axis(found, asked[:, None], axis=1)
        return np.concatenate([1 - p, p], axis=1)

    def rows(name: str) -> Array:
        return rows_at([getattr(plan, name) for plan in plans])

    def differences(name: str) -> Array:
        found = np.array([pool.probabilities[getattr(plan, name), plan.target] for plan in plans])
        return np.asarray(full_p[:, None] - found.reshape(len(plans), len(protocol.percents) + 1))

    full, masked, kept = rows("full"), rows("masked"), rows("kept")
    full_p = np.take_along_axis(full, targets[:, None], axis=1)[:, 0]
    masked_p = np.take_along_axis(masked, targets[:, None], axis=1)[:, 0]
    comprehensiveness, sufficiency = differences("without"), differences("only")
    signed = np.array([attribution.signed for attribution in attributions], dtype=np.bool_)
    noted = [
        full,
        rows_at([plan.without[-1] for plan in plans]),
        rows_at([plan.only[-1] for plan in plans]),
        masked,
    ]
    prediction = kept.argmax(axis=1)
    return FaithfulnessResult(
        example_ids=tuple(a.example_id for a in attributions),
        probability=full_p,
        comprehensiveness=comprehensiveness[:, -1],
        sufficiency=sufficiency[:, -1],
        log_odds=log_probability(masked_p) - log_probability(full_p),
        aopc_comprehensiveness=comprehensiveness[:, :-1].sum(axis=1) / protocol.aopc_steps,
        aopc_sufficiency=sufficiency[:, :-1].sum(axis=1) / protocol.aopc_steps,
        comprehensiveness_by_percent=comprehensiveness[:, :-1],
        sufficiency_by_percent=sufficiency[:, :-1],
        delta_log_odds_positive=logit(full, targets) - logit(rows("positive"), targets),
        delta_log_odds_negative=np.where(signed, logit(full, targets) - logit(rows("negative"), targets), np.nan),
        prediction=prediction,
        prediction_agreement=(prediction == full.argmax(axis=1)).astype(np.float64),
        confidence=np.stack([p.max(axis=1) for p in noted], axis=1),
        entropy=np.stack([entr(p).sum(axis=1) for p in noted], axis=1),
        requested_inputs=requested,
        distinct_inputs=pool.distinct,
    )


def measure(context: Context) -> Columns:
    """The metrics of `FaithfulnessResult`, each model being asked about the texts of the methods that explain it."""
    columns = Columns()
    rationales = {method: dict(zip(context.ids, masks, strict=True)) for method, masks in context.chosen.items()}
    for model in context.models:
        found = faithfulness(
            model.classifier, model.encodings, model.attributions, context.params, rationales, model.predictions
        )
        for method, result in found.items():
            columns.add_all(method, result.values())
            columns.classes[method] = result.prediction
    return columns

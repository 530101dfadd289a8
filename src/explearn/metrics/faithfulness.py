"""Faithfulness: does the classifier itself depend on the words that a method ranks highest?

Comprehensiveness and sufficiency are those of ERASER (DeYoung et al. 2020, section 4.2). Log-odds is that of Shrikumar
et al. 2017, as used in AML. The difference of log-odds and the agreement of predictions are those of L2E (section 4.4).
Shares of k percent and their mean (AOPC) are as in ERASER.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from explearn.core.arrays import Array, Counts
from explearn.core.attribution import Attribution
from explearn.core.errors import DataError
from explearn.metrics.arrays import mean_where_defined
from explearn.metrics.base import Direction, Metric, MetricFunction, computed_together
from explearn.metrics.context import Context
from explearn.metrics.params import EvaluateParams
from explearn.metrics.plausibility import chosen_words, ranking
from explearn.metrics.protocols import (
    aopc_steps,
    as_sub_tokens,
    by_sub_token,
    log_probability,
    mask_of,
    only,
    top_count,
    unit_count,
    without,
)
from explearn.predictors.answers import Answers

if TYPE_CHECKING:
    # explearn.predictors imports torch, which takes seconds; reading results does not need it.
    from explearn.predictors.encoding import Encoding
    from explearn.predictors.predictor import Predictor


INPUTS = {
    "full": "whole text",
    "without": "without the top words",
    "only": "only the top words",
    "masked": "top words masked",
}
"""The inputs whose confidence is recorded, with their names in the report: the text, and the shortened texts of
comprehensiveness, sufficiency and log-odds."""


class FaithfulnessResult(NamedTuple):
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
        comprehensiveness_by_percent: by share of the words, (n, len(params.percents)).
        sufficiency_by_percent: likewise.
    """

    values: dict[str, Array]
    comprehensiveness_by_percent: Array
    sufficiency_by_percent: Array

    def means(self) -> dict[str, float | None]:
        """Return metric -> mean over the texts for which it is defined; None if there is no such text."""
        return {name: mean_where_defined(values) for name, values in self.values.items()}


def logit(probabilities: Array, targets: Counts) -> Array:
    """Return log(p / (1 - p)), p the probability of the target: (n,) from probabilities (n, C) and targets (n,).

    1 - p is computed as the sum over the other classes, which stays precise if p is almost 1. Both are at least
    EPSILON.
    """
    rows = np.arange(len(targets))
    others = probabilities.copy()
    others[rows, targets] = 0.0
    return log_probability(probabilities[rows, targets]) - log_probability(others.sum(axis=1))


def faithfulness(
    classifier: Predictor,
    encodings: Mapping[str, Encoding],
    attributions: Mapping[str, Sequence[Attribution]],
    params: EvaluateParams,
    rationales: Mapping[str, Mapping[str, ArrayLike]] | None = None,
    answers: Answers | None = None,
) -> dict[str, FaithfulnessResult]:
    """Compute comprehensiveness, sufficiency, log-odds, their AOPC and L2E's metrics for all methods of a task.

    Different methods and shares often need the same shortened text. So all inputs are collected first, those that are
    equal for the model (`Encoding.key`) are merged, and one `predict_proba` evaluates the distinct ones.

    For each share of k percent the top words, by highest signed score and then by position, are removed
    (comprehensiveness) or kept alone (sufficiency), by deletion or by the mask token as `params.removal` says. Log-odds
    always masks: it is NaN for a predictor without a mask token. The class is the attribution's target. The number of
    words in k percent, the words of the single values and the average of the AOPC depend on `params.protocol`
    (`explearn.metrics.protocols`). Under `aml` all differences are 0 if a share is less than one sub-token; AML's paper
    deletes words. Under `eraser` the single values take `rationales`; ERASER leaves the number of words in a share to
    the maker of the predictions.

    L2E's metrics always take the top `top_count(n, params.headline_percent)` words; L2E itself takes 30 %.

    Args:
        classifier: the model that was explained.
        encodings: example id -> unchanged text.
        attributions: method -> attributions of any number of texts.
        params: protocol, removal, percents and headline_percent.
        rationales: method -> example id -> chosen words, bool (n,); needed only by protocol eraser.
        answers: answers that are shared with other metrics (default: none).

    Returns:
        Method -> its values.

    Raises:
        DataError: a score is not finite, or protocol aml did not get one score for each sub-token.
        ModelError: the classifier gave a probability that is not finite, or has no mask token to remove words by.
    """
    answers = answers or Answers(classifier)
    rows: dict[str, list[dict[str, int]]] = {}
    for method, texts in attributions.items():
        chosen = (rationales or {}).get(method, {})
        rows[method] = [_request(answers, encodings[text.example_id], text, params, chosen) for text in texts]
    answers.evaluate(f"faithfulness of {len(attributions)} methods")
    return {method: _result(texts, rows[method], params, answers) for method, texts in attributions.items()}


def _request(
    answers: Answers,
    encoding: Encoding,
    attribution: Attribution,
    params: EvaluateParams,
    rationales: Mapping[str, ArrayLike],
) -> dict[str, int]:
    """Request what an attribution needs; return rows of the predictions.

    Returns:
        The row of the whole text (`full`); of it without the top words, and with only these, for each share (`without
        20`, `only 20`) and for the words of single values (`without`, `only`), which are also masked (`masked`); with
        the words for the target masked (`positive`), and those against it (`negative`); and of the top words alone that
        L2E keeps (`kept`). Without a mask token those that are masked are missing.
    """
    mask = mask_of(answers.predictor)
    if params.removal == "mask":
        mask = answers.predictor.mask_token_id
    # A word that is itself classified stays in every text.
    order = [word for word in ranking(attribution.filled()).tolist() if word not in encoding.fixed_words]
    text = encoding
    units = order
    if by_sub_token(params):
        text, units = _sub_tokens(encoding, attribution)
    tops = {f" {percent}": units[: unit_count(params, len(units), percent)] for percent in params.percents}
    tops[""] = units[: unit_count(params, len(units), params.headline_percent)]
    if params.protocol == "eraser":
        tops[""] = np.flatnonzero(rationales[attribution.example_id]).tolist()
    rows = {"full": answers.request(encoding)}
    for share, part in tops.items():
        rows[f"without{share}"] = answers.request(without(params, text, part, mask))
    for share, part in tops.items():
        rows[f"only{share}"] = answers.request(only(params, text, part, set(units).difference(part), mask))
    top = order[: top_count(len(order), params.headline_percent)]
    bottom = order[::-1][: len(top)]
    scores = attribution.scores
    positive = [word for word in top if scores[word] > 0 or not attribution.signed]
    negative = [word for word in bottom if scores[word] < 0 and attribution.signed]
    if mask is not None:
        rows["masked"] = answers.request(text.mask(tops[""], mask))
        rows["positive"] = answers.request(encoding.mask(positive, mask))
        rows["negative"] = answers.request(encoding.mask(negative, mask))
    rows["kept"] = answers.request(only(params, encoding, top, order[len(top) :], mask))
    return rows


def _sub_tokens(encoding: Encoding, attribution: Attribution) -> tuple[Encoding, list[int]]:
    """Return the text with its sub-tokens as units, and the units from the best to the worst.

    Raises:
        DataError: the attribution does not have one score for each sub-token.
    """
    if len(encoding.positions) != len(attribution.token_scores):
        raise DataError(
            f"method {attribution.method!r}, example {attribution.example_id!r}: {len(attribution.token_scores)} "
            f"sub-token scores; expected one for each of the text's {len(encoding.positions)}"
        )
    text = as_sub_tokens(encoding)
    if not encoding.positions:
        return text, []
    return text, [unit for unit in ranking(attribution.token_scores).tolist() if unit not in text.fixed_words]


def _result(
    attributions: Sequence[Attribution],
    rows: Sequence[Mapping[str, int]],
    params: EvaluateParams,
    answers: Answers,
) -> FaithfulnessResult:
    explained = np.array([answers.predictor.labels.index(text.target) for text in attributions], dtype=np.int64)
    by_label = answers.predictor.problem == "multi_label"
    # If labels do not exclude each other, the two classes of a text are its target's absence and its target.
    targets = np.ones_like(explained) if by_label else explained

    def classes(name: str) -> Array:
        """Return the probabilities of two or more classes, (n, C), for one input per text; NaN without a mask token."""
        if any(name not in of_text for of_text in rows):
            return np.full_like(classes("full"), np.nan)
        p = answers.probabilities[np.array([of_text[name] for of_text in rows], dtype=np.intp)]
        if not by_label:
            return p
        target = np.take_along_axis(p, explained[:, None], axis=1)
        return np.concatenate([1 - target, target], axis=1)

    def target_p(name: str) -> Array:
        """Return the target's probability for one input per text, (n,)."""
        return np.take_along_axis(classes(name), targets[:, None], axis=1)[:, 0]

    def logits(name: str) -> Array:
        """Return the target's logit for one input per text, (n,)."""
        return logit(classes(name), targets)

    p = target_p("full")
    comprehensiveness = np.stack([p - target_p(f"without {percent}") for percent in params.percents], axis=1)
    sufficiency = np.stack([p - target_p(f"only {percent}") for percent in params.percents], axis=1)
    signed = np.array([attribution.signed for attribution in attributions], dtype=np.bool_)
    kept = classes("kept")
    same = np.where(np.isnan(kept).any(axis=1), np.nan, kept.argmax(axis=1) == classes("full").argmax(axis=1))
    values = {
        "comprehensiveness": p - target_p("without"),
        "sufficiency": p - target_p("only"),
        "log_odds": log_probability(target_p("masked")) - log_probability(p),
        "aopc_comprehensiveness": comprehensiveness.sum(axis=1) / aopc_steps(params),
        "aopc_sufficiency": sufficiency.sum(axis=1) / aopc_steps(params),
        "delta_log_odds_positive": logits("full") - logits("positive"),
        "delta_log_odds_negative": np.where(signed, logits("full") - logits("negative"), np.nan),
        "prediction_agreement": same.astype(np.float64),
    }
    for name in INPUTS:
        values[f"confidence_{name}"] = classes(name).max(axis=1)
    return FaithfulnessResult(values, comprehensiveness, sufficiency)


def _all_methods(context: Context) -> dict[str, FaithfulnessResult]:
    rationales: dict[str, dict[str, ArrayLike]] = {}
    if context.params.protocol == "eraser":
        ids = [example.id for example in context.examples]
        for method, explanations in context.methods.items():
            rationales[method] = dict(zip(ids, explanations.shared(chosen_words), strict=True))
    return faithfulness(
        context.classifier, context.encodings, context.attributions, context.params, rationales, context.answers
    )


def _value(name: str) -> MetricFunction:
    """Return the function that takes one of `FaithfulnessResult.values`."""
    return computed_together(_all_methods, lambda result: result.values[name])


def _metric(
    name: str, heading: str, summary: str, direction: Direction, limits: tuple[float | None, float | None], **more: Any
) -> Metric:
    lowest, highest = limits
    return Metric(
        name,
        heading,
        summary,
        direction,
        _value(name),
        group="faithfulness",
        reference="ERASER (DeYoung et al. 2020), section 4.2; L2E (Situ et al. 2021), section 4.4",
        lowest=lowest,
        highest=highest,
        of_model=True,
        **more,
    )


DIFFERENCE = (-1.0, 1.0)
"""Limits of a difference of two probabilities."""

NO_LIMITS = (None, None)

METRICS = (
    _metric(
        "comprehensiveness",
        "Comprehensiveness",
        "how much the label's probability falls without the {top} of the {unit}s",
        "higher",
        DIFFERENCE,
    ),
    _metric(
        "sufficiency",
        "Sufficiency",
        "how much the label's probability falls if only those {unit}s are kept",
        "lower",
        DIFFERENCE,
    ),
    _metric("log_odds", "Log-odds", "change of log p when those {unit}s are masked", "lower", NO_LIMITS),
    _metric(
        "aopc_comprehensiveness",
        "AOPC compr.",
        "how much the label's probability falls without the top {unit}s, mean over the top {percents} %",
        "higher",
        DIFFERENCE,
    ),
    _metric(
        "aopc_sufficiency",
        "AOPC suff.",
        "how much the label's probability falls if only the top {unit}s are kept, mean over the same shares",
        "lower",
        DIFFERENCE,
    ),
    _metric(
        "delta_log_odds_positive",
        "Δ log-odds +",
        "how much logit p falls when the {unit}s of the {top} that are evidence for the label are masked",
        "higher",
        NO_LIMITS,
    ),
    _metric(
        "delta_log_odds_negative",
        "Δ log-odds −",
        "the same for as many {unit}s that are evidence against it; only for signed methods",
        "lower",
        NO_LIMITS,
    ),
    _metric(
        "prediction_agreement",
        "Prediction kept",
        "share of texts whose predicted label stays if only the {top} are kept",
        "higher",
        (0.0, 1.0),
    ),
)
"""Agreement with the model."""


OPTIMISED = (
    Metric("difference", "Difference", "comprehensiveness - sufficiency", "higher", of_model=True),
    Metric("aopc_difference", "AOPC difference", "aopc_comprehensiveness - aopc_sufficiency", "higher", of_model=True),
    Metric(
        "agreement",
        "Agreement",
        "share of texts whose class stays if only the words of an explanation are kept (L2E)",
        "higher",
        of_model=True,
    ),
)
"""Figures that methods optimise or report of their training; `explearn.evaluate` does not measure them."""

BY_NAME = {metric.name: metric for metric in (*METRICS, *OPTIMISED)}
"""For methods that optimise one: they depend on no other metric's code."""


def _confidence(name: str, inputs: str) -> Metric:
    return Metric(
        f"confidence_{name}",
        f"Confidence, {inputs}",
        f"largest class probability, {inputs}",
        None,
        _value(f"confidence_{name}"),
        group="none",
        lowest=0.0,
        highest=1.0,
        of_model=True,
    )


CONFIDENCE = tuple(_confidence(name, inputs) for name, inputs in INPUTS.items())
"""The classifier's confidence on the inputs of faithfulness metrics."""

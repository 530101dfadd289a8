"""Can a language model's own reasons be believed? What happens without the words that it names.

From one copy of each text the words that the reason names are taken out, from another as many other words, drawn at
random. Two questions are put to these copies:

* Does the probability of the answer fall more without the named words (Madsen, Chandar and Reddy 2024, "Are
  self-explanations from Large Language Models faithful?")?
* Does a second model, the simulator, predict the classifier's answers to the copies better if it knows the reason (Hase
  and Bansal 2020, "Evaluating Explainable AI: Which Algorithmic Explanations Help Users Predict Model Behavior?")?
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import chain, combinations
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from explearn.core.arrays import Array
from explearn.core.attribution import Attribution
from explearn.metrics.arrays import ratio
from explearn.metrics.base import Metric, MetricFunction
from explearn.metrics.context import Explanations, example_of, numbered
from explearn.metrics.params import EvaluateParams
from explearn.metrics.significance import FEWEST_TEXTS, mean_interval, signed_rank_test
from explearn.predictors.answers import Answers
from explearn.text.marks import spans_from_mask

if TYPE_CHECKING:
    # They import torch, which takes seconds; reading results does not need it.
    from explearn.predictors.encoding import Encoding
    from explearn.predictors.llm.classifier import LLMClassifier
    from explearn.predictors.llm.reasons import Simulation
    from explearn.predictors.predictor import Predictor

METHOD = "llm_rationale"
"""The method whose scores are the model's own reasons: words that score above 0 are named."""

WORTH = 0.05
"""Least margin, and least gain, for which a reason is worth having. Our own threshold."""

Simulator = Callable[[Sequence["Simulation"]], Sequence[str | None]]
"""Predicts a classifier's label for each of n changed texts; None where it cannot."""

Trust = Literal["trusted", "not trusted", "undecided"]


class ReasonResult(NamedTuple):
    """What the named words are worth, by text, (texts,); NaN where the classifier gives no answer to a changed text.

    Attributes:
        margin: p of the answer without the other words, minus p without the named ones.
        informed: share of the two changed texts whose answer the simulator predicts if it knows the reason.
        uninformed: the same if it does not.
    """

    margin: Array
    informed: Array
    uninformed: Array

    @property
    def gain(self) -> Array:
        """informed - uninformed."""
        return self.informed - self.uninformed


def judge_reasons(
    classifier: Predictor,
    attributions: Sequence[Attribution],
    simulator: Simulator,
    encodings: Sequence[Encoding] | None = None,
    seed: int = 13,
    answers: Answers | None = None,
) -> ReasonResult:
    """Take the named words out of each text, and as many others, and let a simulator predict the answers.

    Where a text has too few other words, some of the named ones are drawn, too, so that naming all words gains nothing.

    Args:
        classifier: the classifier.
        attributions: the reasons, of any method: words that score above 0 are named.
        simulator: predicts the classifier's answers.
        encodings: the texts as the classifier reads them. None: it encodes their words.
        seed: seed of the draw.
        answers: what the classifier has answered before. None: nothing.

    Example:
        >>> import explearn
        >>> from explearn.metrics.reasons import judge_reasons
        >>> def predict_proba(texts):
        ...     good = [0.9 if "good" in text else 0.2 for text in texts]
        ...     return [[1 - p, p] for p in good]
        >>> classifier = explearn.FunctionPredictor(predict_proba, ["negative", "positive"])
        >>> reason = explearn.explain(classifier, "a good film", "occlusion")
        >>> def believe(simulations):
        ...     labels = []
        ...     for seen in simulations:
        ...         gone = seen.reason and seen.reason[0] not in seen.changed
        ...         labels.append("negative" if gone else seen.answer)
        ...     return labels
        >>> result = judge_reasons(classifier, [reason], believe)
        >>> result.margin.round(2), result.informed, result.uninformed
        (array([0.7]), array([1.]), array([0.5]))
    """
    from explearn.predictors.llm.reasons import Simulation

    if encodings is None:
        encodings = classifier.read([example_of(text) for text in numbered(attributions)])
    answers = answers or Answers(classifier)
    rng = np.random.default_rng(seed)
    rows: list[int] = []
    simulations: list[Simulation] = []
    for text, encoding in zip(attributions, encodings, strict=True):
        is_named = text.filled(0.0) > 0
        named = np.flatnonzero(is_named)
        # Without a reason there is nothing to know: both simulations are the same.
        reason = tuple(" ".join(encoding.words[start:end]) for start, end in spans_from_mask(is_named.tolist())) or None
        drawn = np.concatenate([rng.permutation(np.flatnonzero(~is_named)), rng.permutation(named)])
        whole = _text_without(encoding, ())
        rows.append(answers.request(encoding))
        for left_out in (named.tolist(), drawn[: len(named)].tolist()):
            rows.append(answers.request(encoding.delete(left_out)))
            changed = _text_without(encoding, left_out)
            simulations.append(Simulation(whole, text.predicted, reason, changed))
            simulations.append(Simulation(whole, text.predicted, None, changed))
    answers.evaluate("reasons")
    texts = len(attributions)
    p = answers.probabilities[rows].reshape(texts, 3, len(classifier.labels))
    targets = [classifier.labels.index(text.target) for text in attributions]
    p_answer = p[np.arange(texts), :, targets]
    answered = np.array(classifier.labels)[p[:, 1:].argmax(-1)]
    predicted = np.array(simulator(simulations), dtype=object).reshape(texts, 2, 2)
    right = (predicted == answered[:, :, None]).mean(1)
    right[np.isnan(p).any(axis=(1, 2))] = np.nan  # the classifier gives no answer
    return ReasonResult(p_answer[:, 2] - p_answer[:, 1], right[:, 0], right[:, 1])


def _text_without(encoding: Encoding, left_out: Collection[int]) -> str:
    """Return a text without some of its words, for a reader; the second text of a pair on a line of its own."""
    kept = []
    for index, word in enumerate(encoding.words):
        if index == encoding.pair_start:
            kept.append("\n")
        if index not in left_out:
            kept.append(word)
    return " ".join(kept)


def judge_trust(margin: Array, gain: Array, params: EvaluateParams) -> Trust:
    """Say whether reasons can be trusted, from their margin and gain by text, (texts,).

    They are trusted if the margin is significantly above 0 (Wilcoxon's signed-rank test) and the gain's whole interval,
    too; not trusted if the interval of either lies below WORTH; otherwise, and with fewer than FEWEST_TEXTS texts,
    undecided.

    Args:
        margin: `ReasonResult.margin`.
        gain: `ReasonResult.gain`.
        params: level of the test and of the intervals.
    """
    margin = margin[~np.isnan(margin)]
    gain = gain[~np.isnan(gain)]
    if len(margin) < FEWEST_TEXTS:
        return "undecided"
    low, high = mean_interval(gain, params.confidence, -1.0, 1.0)
    _, margin_high = mean_interval(margin, params.confidence, -1.0, 1.0)
    assert low is not None and high is not None and margin_high is not None  # with a range and enough texts
    significant = signed_rank_test(margin[None])[0] < params.significance
    if significant and margin.mean() > 0 and low > 0:
        return "trusted"
    if min(high, margin_high) < WORTH:
        return "not trusted"
    return "undecided"


def _prompt_of(explanations: Explanations) -> LLMClassifier | None:
    """Return the language model, if the explanations are its own reasons."""
    if explanations.method != METHOD:
        return None
    from explearn.predictors.llm.classifier import LLMClassifier

    if not isinstance(explanations.classifier, LLMClassifier):
        return None
    return explanations.classifier


def _result(explanations: Explanations) -> ReasonResult | None:
    classifier = _prompt_of(explanations)
    if classifier is None:
        return None
    from explearn.predictors.llm.reasons import simulate

    context = explanations.context
    return judge_reasons(
        classifier,
        explanations.attributions,
        partial(simulate, classifier),
        list(context.encodings.values()),
        context.seed,
        context.answers,
    )


def _part(name: str) -> MetricFunction:
    """Return the function that takes one of a ReasonResult's arrays."""

    def take(explanations: Explanations) -> Array | None:
        result = explanations.shared(_result)
        if result is None:
            return None
        values: Array = getattr(result, name)
        return values

    return take


def _agreement(explanations: Explanations) -> Array | None:
    """Return how far reasons agree if they are asked for in other words (`paraphrases` of the prompt), (texts,).

    It is the mean of |A and B| / |A or B| over all pairs of the reason and those with the paraphrases, A and B the
    named words; NaN where none names a word, or the server refuses to be asked.
    """
    classifier = _prompt_of(explanations)
    context = explanations.context
    # Quotes are put on words.
    if classifier is None or any(example.unit != "word" for example in context.examples):
        return None
    from explearn.predictors.llm.reasons import named_words

    attributions = explanations.attributions
    targets = [classifier.labels.index(text.target) for text in attributions]
    named = [[set(np.flatnonzero(text.filled(0.0) > 0).tolist()) for text in attributions]]
    refused = np.zeros(len(attributions), dtype=bool)
    encodings = list(context.encodings.values())
    for question in classifier.params.paraphrases:
        by_text = []
        for number, places in enumerate(named_words(classifier, encodings, targets, question)):
            refused[number] |= places is None
            by_text.append(set(chain.from_iterable(range(start, end) for start, end in places or ())))
        named.append(by_text)
    shares = []
    for first, second in combinations(named, 2):
        both = [len(a & b) for a, b in zip(first, second, strict=True)]
        either = [len(a | b) for a, b in zip(first, second, strict=True)]
        shares.append(ratio(both, either))
    return np.where(refused, np.nan, ratio(np.nansum(shares, axis=0), (~np.isnan(shares)).sum(axis=0)))


def _empty(explanations: Explanations) -> Array | None:
    if _prompt_of(explanations) is None:
        return None
    return np.array([float(not (text.filled(0.0) > 0).any()) for text in explanations.attributions])


_metric = partial(Metric, group="reasons", highest=1.0, tested=False, of_model=True)

METRICS = (
    _metric(
        "reason_margin",
        "Margin over other words",
        "fall of the answer's probability without the {unit}s that the model's own reason names, minus that without as "
        "many others",
        "higher",
        _part("margin"),
        reference="Madsen, Chandar and Reddy 2024",
        lowest=-1.0,
    ),
    _metric(
        "reason_gain",
        "Gain for a simulator",
        "accuracy of a second model at predicting the answer to a changed text with the model's own reason, minus that "
        "without",
        "higher",
        _part("gain"),
        reference="Hase and Bansal 2020",
        lowest=-1.0,
    ),
    _metric(
        "reason_agreement",
        "Agreement over paraphrases",
        "share of the {unit}s of two reasons that both name, if the question is asked in other words",
        "higher",
        _agreement,
        lowest=0.0,
    ),
    _metric(
        "reason_empty",
        "Empty reasons",
        "share of texts of which the model's own reason quotes no {unit}",
        "lower",
        _empty,
        lowest=0.0,
    ),
)
"""What the model's own reasons are worth, for `llm_rationale` alone."""

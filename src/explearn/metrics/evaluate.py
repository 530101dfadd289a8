"""Evaluating all metrics of a task's methods, on objects in memory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from explearn.core.attribution import Attribution
from explearn.core.errors import DataError, UnsupportedError
from explearn.core.examples import Example
from explearn.lens.representations import aggregate_states, word_embeddings
from explearn.metrics import (
    consistency,
    costs,
    faithfulness,
    importance,
    infidelity,
    plausibility,
    simulatability,
    stability,
)
from explearn.metrics.agreement import rank_agreement
from explearn.metrics.catalogue import METRICS
from explearn.metrics.context import Array, Context, ExplainedModel, MethodMetrics, MetricColumns
from explearn.metrics.params import EvaluateParams
from explearn.metrics.predictions import Predictions
from explearn.metrics.runs import MethodRun
from explearn.metrics.significance import PairedTests, compare_methods, mean_interval
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.encoding import Encoding

logger = logging.getLogger(__name__)

FAMILIES: tuple[Callable[[Context, MetricColumns], None], ...] = (
    plausibility.measure,
    importance.measure,
    faithfulness.measure,
    infidelity.measure,
    stability.measure,
    consistency.measure,
    simulatability.measure,
    costs.measure,
)
"""Function that measures each family of the catalogue."""


@dataclass(frozen=True, slots=True, eq=False)
class TaskEvaluation:
    """The evaluation of a task's methods.

    Attributes:
        metrics: by method, its figures; see `evaluate_task`.
        example_ids: the n texts.
        by_text: metric -> method -> value on each text, (n,), NaN where undefined. Names are those of
            `explearn.metrics.catalogue.Metric.by_text`, and confidence_*.
        comparisons: by metric of the catalogue, the paired tests, the best methods and ties. Methods with their own
            classifier are only compared in metrics that do not depend on the classifier (`Metric.of_model`).
        agreement: `rank_agreement` of every two methods, in the order of `metrics`, (methods, methods).
    """

    metrics: dict[str, MethodMetrics]
    example_ids: tuple[str, ...]
    by_text: dict[str, dict[str, Array]]
    comparisons: dict[str, PairedTests]
    agreement: Array


def evaluate_task(
    task: str,
    runs: Mapping[str, MethodRun],
    examples: Mapping[str, Example],
    gold: Mapping[str, ArrayLike],
    classifier: TransformerPredictor,
    *,
    rules: Mapping[str, str],
    k: int,
    positive_rate: float,
    params: EvaluateParams,
    seed: int,
    own: Mapping[str, TransformerPredictor] | None = None,
    predictions: Predictions | None = None,
    encodings: Mapping[str, Encoding] | None = None,
) -> TaskEvaluation:
    """Evaluate every method of a task on the same texts.

    Plausibility is taken over the texts that have at least one marked word and that the classifier gets right, or whose
    label is not known (empty); all else over all texts. `f1`, its interval, precision, recall, macro_f1 and iou_f1
    choose words by the method's own rule (`rules`), `f1_topk` by the top K for every method, so that no method gains
    from the rule. Stability by meaning and consistency are None where a classifier gives no hidden states,
    simulatability where it has no embeddings.

    Args:
        task: name, for messages.
        runs: by method; all methods must explain the same examples, in any order.
        examples: by id, those explained among them.
        gold: by id, marked words, bool (n,) over `Example.all_words`. Texts nobody marked may be missing or all False.
        classifier: the model that was explained, by all methods that are not in `own`.
        rules: method -> its own rule to choose words (`explearn.metrics.plausibility.binarise`).
        k: words chosen a text by the top-K rule: the mean rationale length in training, rounded.
        positive_rate: share of marked words in training, in [0, 1].
        params: of all metrics.
        seed: of all draws.
        own: method -> the model that it trained for itself and explains instead; its metrics ask that one.
        predictions: what `classifier` has been asked before (default: nothing).
        encodings: by example id, the texts as `classifier` reads them; needed where examples are of other units than
            words (`explearn.text.units`), which then are judged in their place.

    Returns:
        Its `metrics` hold for each method every metric that a family of `explearn.metrics.catalogue` measures; those of
        METRICS with an interval, NAME_low and NAME_high; texts, plausibility_texts, unaligned_words, and the students'
        accuracy. None where a value is undefined, never NaN. What a run cost (`MethodRun.cost`) is no part of them.

    Raises DataError for methods that explain different examples, words or scores of another length than the example,
    and scores that are not finite.
    """
    if not runs:
        return TaskEvaluation({}, (), {}, {}, np.zeros((0, 0)))
    own = own or {}
    attributions = _in_one_order(task, runs, examples)
    texts = [examples[attribution.example_id] for attribution in next(iter(attributions.values()))]
    of_task = {method: texts for method, texts in attributions.items() if method not in own}
    encoded = classifier.encode(texts) if encodings is None else [encodings[example.id] for example in texts]
    models = [_explained(task, classifier, of_task, texts, encoded, predictions)] if of_task else []
    models += [
        _explained(task, own[m], {m: attributions[m]}, texts, own[m].encode(texts), None) for m in runs if m in own
    ]
    context = Context(
        task=task,
        examples=texts,
        attributions=attributions,
        runs=runs,
        gold=[np.asarray(gold.get(e.id, np.zeros(len(e.all_words))), dtype=np.bool_) for e in texts],
        chosen={
            # A word without a score is never chosen.
            method: [
                text.read
                & plausibility.binarise(
                    text.filled(), rules[method], k=k, threshold=runs[method].threshold, positive_rate=positive_rate
                )
                for text in of_method
            ]
            for method, of_method in attributions.items()
        },
        models=models,
        labels=classifier.labels,
        embeddings=_inside(task, classifier, lambda: word_embeddings(classifier, encoded)),
        k=k,
        params=params,
        seed=seed,
    )
    columns = MetricColumns()
    for measure in FAMILIES:
        measure(context, columns)
    metrics: dict[str, MethodMetrics] = {}
    for method in runs:
        known = columns.figures[method]
        figures = {f"{name}{end}": None for name in METRICS for end in ("", "_low", "_high")} | known
        # Intervals of the means, for metrics that have none of their own yet.
        for metric in METRICS.keys() & columns.by_text.keys():
            if f"{metric}_low" not in known and method in columns.by_text[metric]:
                low, high = mean_interval(columns.by_text[metric][method], params.confidence)
                figures |= {f"{metric}_low": low, f"{metric}_high": high}
        metrics[method] = figures
    scores = {method: [text.filled() for text in of_method] for method, of_method in attributions.items()}
    return TaskEvaluation(
        metrics=metrics,
        example_ids=tuple(example.id for example in texts),
        by_text=dict(columns.by_text),
        comparisons=compare_methods(metrics, columns.by_text, own, params.significance),
        agreement=rank_agreement(scores),
    )


def _in_one_order(
    task: str, runs: Mapping[str, MethodRun], examples: Mapping[str, Example]
) -> dict[str, list[Attribution]]:
    """Check each method's attributions, and return them in the order of the first one's."""
    ordered: dict[str, list[Attribution]] = {}
    ids: list[str] = []
    for method, run in runs.items():
        by_id = {attribution.example_id: attribution for attribution in run.attributions}
        ids = ids or list(by_id)
        if odd := by_id.keys() ^ set(ids):
            raise DataError(
                f"task {task!r}, method {method!r}: example {min(odd)!r} is not explained by all methods; expected all "
                "on the same examples"
            )
        ordered[method] = [by_id[i] for i in ids]
        for attribution in ordered[method]:
            where = f"task {task!r}, method {method!r}, example {attribution.example_id!r}"
            example = examples.get(attribution.example_id)
            if example is None or tuple(attribution.words) != example.all_words:
                raise DataError(f"{where}: {len(attribution.words)} words; expected those of an example of this task")
            if len(attribution.scores) != len(attribution.words) or np.isinf(attribution.scores).any():
                raise DataError(f"{where}: {len(attribution.scores)} scores; expected a finite one for each word")
    return ordered


def _explained(
    task: str,
    model: TransformerPredictor,
    attributions: Mapping[str, Sequence[Attribution]],
    texts: Sequence[Example],
    encodings: Sequence[Encoding],
    predictions: Predictions | None,
) -> ExplainedModel:
    return ExplainedModel(
        model,
        attributions,
        {example.id: encoding for example, encoding in zip(texts, encodings, strict=True)},
        _inside(task, model, lambda: aggregate_states(*model.inside(encodings), f"{task}: states")),
        predictions or Predictions(model),
    )


def _inside(task: str, model: TransformerPredictor, compute: Callable[[], Any]) -> Any:
    """Compute something inside a model; None for a function of texts, and, with a warning, where it is unsupported."""
    if not model.has_model:
        return None
    try:
        return compute()
    except UnsupportedError as error:
        logger.warning("%s: %s, and stay empty", task, error)
        return None

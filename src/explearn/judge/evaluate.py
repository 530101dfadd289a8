"""All metrics of a task's methods side by side."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.errors import DataError
from explearn.core.records import Attribution, Example
from explearn.judge import plausibility
from explearn.judge.agreement import prediction_overlap, rank_agreement, top_overlap
from explearn.judge.catalogue import FAMILIES, METRICS
from explearn.judge.columns import Columns, MethodMetrics
from explearn.judge.context import Context, ExplainedModel
from explearn.judge.params import EvaluateParams
from explearn.judge.predictions import Predictions
from explearn.judge.significance import PairedTests, bootstrap_counts, paired_tests
from explearn.methods.info import Binarisation

if TYPE_CHECKING:
    from explearn.model.classifier import Classifier

Array = NDArray[np.float64]

_NOTHING = np.zeros(1, dtype=np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class TaskEvaluation:
    """How the methods of a task did.

    Attributes:
        metrics: by method, its figures; see `evaluate_task`.
        example_ids: the n texts.
        by_text: metric -> method -> value on each text, (n,), NaN where undefined. Names are those of
            `explearn.judge.catalogue.Metric.by_text`, and confidence_* and entropy_*.
        comparisons: by metric of the catalogue, the paired tests, the best and who ties with them. Methods with a
            classifier of their own take part in those that do not ask the classifier (`Metric.of_model`).
        agreement: rank_agreement, top_overlap and prediction_overlap of every two methods, in the order of `metrics`,
            (methods, methods); see `explearn.judge.agreement`.
    """

    metrics: dict[str, MethodMetrics]
    example_ids: tuple[str, ...]
    by_text: dict[str, dict[str, Array]]
    comparisons: dict[str, PairedTests]
    agreement: dict[str, Array]


@dataclass(frozen=True, slots=True, eq=False)
class OwnModel:
    """The classifier that a method trained for itself, and explains.

    states: by example id, the text's aggregate hidden state in it, (d,); see `evaluate_task`.
    """

    classifier: Classifier
    states: Mapping[str, ArrayLike] | None = None


def evaluate_task(
    task: str,
    attributions: Mapping[str, Sequence[Attribution]],
    costs: Mapping[str, Mapping[str, float | None]],
    examples: Mapping[str, Example],
    gold: Mapping[str, ArrayLike],
    k: int,
    positive_rate: float,
    classifier: Classifier,
    params: EvaluateParams,
    seed: int,
    binarisation: Mapping[str, Binarisation],
    thresholds: Mapping[str, float],
    states: Mapping[str, ArrayLike] | None = None,
    embeddings: Mapping[str, ArrayLike] | None = None,
    own: Mapping[str, OwnModel] | None = None,
    predictions: Predictions | None = None,
) -> TaskEvaluation:
    """Judge every method of a task on the same texts.

    Plausibility is taken over the texts that have at least one marked word and that the classifier gets right, or whose
    label is not known (empty); all else over all texts. `f1`, its interval, precision, recall, macro_f1 and iou_f1
    choose words by the method's own rule (`binarisation`), `f1_topk` by the top K for every method, so that no method
    gains from the rule.

    Args:
        task: name, for errors.
        attributions: by method; all methods must explain the same examples, in any order.
        costs: by method, passes for one text, `forward_passes` and `backward_passes`. Times and memory, which differ
            from run to run, are no part of an evaluation; see `explearn_study.runs`.
        examples: by id, those explained among them.
        gold: by id, marked words, bool (n,) over `Example.all_words`. Texts nobody marked may be missing or all False.
        k: words chosen a text by the top-K rule: the mean rationale length in training, rounded.
        positive_rate: share of marked words in training, in [0, 1].
        classifier: the model that was explained, by all methods that are not in `own`.
        params: of all metrics.
        seed: of all draws.
        binarisation: method -> its own rule to choose words.
        thresholds: method -> score from which a word counts, for methods with that rule.
        states: by id, the text's aggregate hidden state, (d,); without them stability by meaning and consistency are
            None (`explearn.lens.representations.aggregate_states`).
        embeddings: by id, the words' embeddings, (words, d); without them simulatability is None
            (`explearn.lens.representations.word_embeddings`). All methods' students read the same ones.
        own: method -> the model that it explains instead; its metrics ask that one.
        predictions: what `classifier` has been asked before (default: nothing).

    Returns:
        Its `metrics` hold for each method every metric that a family of `explearn.judge.catalogue` measures; those of
        METRICS with an interval, NAME_low and NAME_high; texts, plausibility_texts, unaligned_words, and the students'
        accuracy. None where a value is undefined, never NaN.

    Raises:
        DataError: methods that cover different examples, an id that comes twice or is unknown, words, scores or marks
            of another length than the example, scores that are not finite, costs that are missing.
    """
    if not attributions:
        return TaskEvaluation({}, (), {}, {}, {})
    _check_k_and_costs(task, k, attributions, costs)
    ordered = _ordered(task, attributions, examples)
    texts = [examples[attribution.example_id] for attribution in next(iter(ordered.values()))]
    own = own or {}
    context = Context(
        task=task,
        examples=texts,
        attributions=ordered,
        gold=[_gold_mask(task, e.id, gold[e.id], e) if e.id in gold else _NOTHING for e in texts],
        chosen=_chosen(ordered, binarisation, k, thresholds, positive_rate),
        models=_models(OwnModel(classifier, states), own, ordered, texts, predictions),
        labels=classifier.labels,
        embeddings=None if embeddings is None else [embeddings[e.id] for e in texts],
        costs=costs,
        k=k,
        params=params,
        seed=seed,
    )
    columns = Columns()
    for family in FAMILIES:
        columns.join(_measure_of(family)(context))
    return _evaluation(context, columns, own)


def _check_k_and_costs(task: str, k: int, methods: Iterable[str], costs: Container[str]) -> None:
    if k < 1:
        raise DataError(f"task {task!r}: top-K with K = {k}; expected at least one word, is any training text marked?")
    for method in methods:
        if method not in costs:
            raise DataError(f"task {task!r}, method {method!r}: its costs are missing; expected its passes")


def _measure_of(family: str) -> Callable[[Context], Columns]:
    """What measures a family of metrics; imported by name, since some families load torch or scikit-learn."""
    found: Callable[[Context], Columns] = import_module(f"explearn.judge.{family}").measure
    return found


def _evaluation(context: Context, columns: Columns, own: Collection[str]) -> TaskEvaluation:
    """Figures with their intervals, and how the methods compare and agree. own: methods with a model of their own."""
    params, ordered = context.params, context.attributions
    counts = bootstrap_counts(len(context.examples), params.bootstrap_samples, context.seed)
    undefined = dict.fromkeys(f"{name}{end}" for name in METRICS for end in ("", "_low", "_high"))
    metrics: dict[str, MethodMetrics] = {
        method: {**undefined, **columns.figures[method], **columns.intervals(method, counts, params.confidence)}
        for method in ordered
    }
    scores = {method: [text.filled() for text in texts] for method, texts in ordered.items()}
    return TaskEvaluation(
        metrics=metrics,
        example_ids=tuple(context.ids),
        # Looking up a metric that no method has leaves an empty entry.
        by_text={name: dict(values) for name, values in columns.by_text.items() if values},
        comparisons={
            metric.name: paired_tests(
                metric.name,
                # Figures of different classifiers cannot be compared.
                {m: figures[metric.name] for m, figures in metrics.items() if not (metric.of_model and m in own)},
                columns.by_text[metric.by_text],
                metric.larger_is_better,
                params.significance,
            )
            for metric in METRICS.values()
        },
        agreement={
            "rank_agreement": rank_agreement(scores),
            "top_overlap": top_overlap(scores, params.headline_percent),
            "prediction_overlap": prediction_overlap({method: columns.classes[method] for method in ordered}),
        },
    )


def _ordered(
    task: str, attributions: Mapping[str, Sequence[Attribution]], examples: Mapping[str, Example]
) -> dict[str, list[Attribution]]:
    """Each method's attributions in one order of the texts, checked."""
    by_id = {method: _by_id(task, method, texts) for method, texts in attributions.items()}
    ids = _common_ids(task, by_id)
    ordered = {method: [texts[i] for i in ids] for method, texts in by_id.items()}
    for method, texts in ordered.items():
        for attribution in texts:
            _check(task, method, attribution, examples)
    return ordered


def _chosen(
    ordered: Mapping[str, Sequence[Attribution]],
    binarisation: Mapping[str, Binarisation],
    k: int,
    thresholds: Mapping[str, float],
    positive_rate: float,
) -> dict[str, list[NDArray[np.bool_]]]:
    """The words that each method chooses in each text by its own rule; one without a score is never chosen."""
    return {
        method: [
            text.read
            & plausibility.binarise(
                text.filled(),
                binarisation[method],
                k=k,
                threshold=thresholds.get(method),
                positive_rate=positive_rate,
            )
            for text in texts
        ]
        for method, texts in ordered.items()
    }


def _models(
    shared: OwnModel,
    own: Mapping[str, OwnModel],
    ordered: Mapping[str, Sequence[Attribution]],
    examples: Sequence[Example],
    predictions: Predictions | None,
) -> list[ExplainedModel]:
    """The task's classifier with the methods that explain it, if any, and each method's own."""
    of_task = {method: texts for method, texts in ordered.items() if method not in own}
    models = [(shared, of_task)] if of_task else []
    models += [(own[method], {method: ordered[method]}) for method in ordered if method in own]
    return [
        ExplainedModel(
            classifier=model.classifier,
            attributions=of_model,
            encodings={
                example.id: encoding
                for example, encoding in zip(examples, model.classifier.encode(examples), strict=True)
            },
            states=_stacked(model.states, [example.id for example in examples]),
            predictions=predictions if predictions and model is shared else Predictions(model.classifier),
        )
        for model, of_model in models
    ]


def _by_id(task: str, method: str, attributions: Sequence[Attribution]) -> dict[str, Attribution]:
    found: dict[str, Attribution] = {}
    for attribution in attributions:
        if attribution.example_id in found:
            raise DataError(
                f"task {task!r}, method {method!r}: example {attribution.example_id!r} comes twice; expected each once"
            )
        found[attribution.example_id] = attribution
    return found


def _common_ids(task: str, by_id: Mapping[str, Mapping[str, Attribution]]) -> list[str]:
    ids = list(dict.fromkeys(i for texts in by_id.values() for i in texts))
    for method, texts in by_id.items():
        missing = next((i for i in ids if i not in texts), None)
        if missing is not None:
            raise DataError(
                f"task {task!r}, method {method!r}: example {missing!r} is not explained; "
                f"expected all methods on the same examples"
            )
    return ids


def _check(task: str, method: str, attribution: Attribution, examples: Mapping[str, Example]) -> None:
    where = f"task {task!r}, method {method!r}, example {attribution.example_id!r}"
    example = examples.get(attribution.example_id)
    if example is None:
        raise DataError(f"{where}: no such example; expected an id of this task")
    if tuple(attribution.words) != example.all_words or len(attribution.scores) != len(example.all_words):
        raise DataError(
            f"{where}: {len(attribution.scores)} scores over {len(attribution.words)} words; "
            f"expected one for each of the example's {len(example.all_words)} words, in their order"
        )
    try:
        plausibility.check_scores(attribution.filled())
    except DataError as error:
        raise DataError(f"{where}: {error}") from error


def _gold_mask(task: str, example_id: str, mask: ArrayLike, example: Example) -> NDArray[np.bool_]:
    array = np.asarray(mask, dtype=np.bool_)
    if array.shape != (len(example.all_words),):
        raise DataError(
            f"task {task!r}, example {example_id!r}: {array.size} marks; "
            f"expected one for each of its {len(example.all_words)} words"
        )
    return array


def _stacked(vectors: Mapping[str, ArrayLike] | None, ids: Sequence[str]) -> Array | None:
    return None if vectors is None else np.array([vectors[i] for i in ids], dtype=np.float64)

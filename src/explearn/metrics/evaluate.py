"""All metrics of a task's methods side by side, and the headline over the tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.errors import DataError
from explearn.core.records import Attribution, Binarisation, Example
from explearn.core.sections import EvaluateParams
from explearn.metrics import plausibility
from explearn.metrics.agreement import prediction_overlap, rank_agreement, top_overlap
from explearn.metrics.arrays import mean_of_known
from explearn.metrics.catalogue import METRICS
from explearn.metrics.columns import Columns, MethodMetrics, add_consistency, add_simulatability, add_stability
from explearn.metrics.faithfulness import faithfulness
from explearn.metrics.importance import important_share
from explearn.metrics.infidelity import infidelity
from explearn.metrics.judge import judge_plausibility
from explearn.metrics.predictions import Predictions
from explearn.metrics.significance import Comparison, bootstrap_counts, compare

if TYPE_CHECKING:
    from explearn.models.classifier import Classifier

Number = int | float | None
Array = NDArray[np.float64]

_NOTHING = np.zeros(1, dtype=np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class TaskEvaluation:
    """How the methods of a task did.

    Attributes:
        metrics: by method, its figures; see `evaluate_task`.
        example_ids: the n texts.
        by_text: metric -> method -> value on each text, (n,), NaN where undefined. Names are those of
            `explearn.metrics.catalogue.Metric.by_text`, and confidence_* and entropy_*.
        comparisons: by metric of the catalogue, the paired tests, the best and who ties with them. Methods with a
            classifier of their own take part in those that do not ask the classifier (`Metric.of_model`).
        agreement: rank_agreement, top_overlap and prediction_overlap of every two methods, in the order of `metrics`,
            (methods, methods); see `explearn.metrics.agreement`.
    """

    metrics: dict[str, MethodMetrics]
    example_ids: tuple[str, ...]
    by_text: dict[str, dict[str, Array]]
    comparisons: dict[str, Comparison]
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
    costs: Mapping[str, Mapping[str, float]],
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
) -> TaskEvaluation:
    """Judge every method of a task on the same texts.

    Plausibility is taken over the texts that have at least one marked word and that the classifier gets right;
    all else over all texts. `f1`, its interval, precision, recall, macro_f1 and iou_f1 choose words by the method's own
    rule (`binarisation`), `f1_topk` by the top K for every method, so that no method gains from the rule.

    Args:
        task: name, for errors.
        attributions: by method; all methods must explain the same examples, in any order.
        costs: by method, the fields of `explearn.pipeline.attribute.Cost`: `seconds` (classification included),
            `forward_seconds` (classification alone, same texts), `texts`, `peak_memory_mb`, `forward_passes`,
            `backward_passes`.
        examples: by id, those explained among them.
        gold: by id, marked words, bool (n,) over `Example.all_words`. Texts nobody marked may be missing or all False.
        k: words chosen a text by the top-K rule: the mean rationale length in training, rounded.
        positive_rate: share of marked words in training, in [0, 1].
        classifier: the model that was explained, by all methods that are not in `own`.
        params: of all metrics.
        seed: of the bootstrap, the masks of infidelity, the batches of consistency and the students.
        binarisation: method -> its own rule to choose words.
        thresholds: method -> score from which a word counts, for methods with that rule.
        states: by id, the text's aggregate hidden state, (d,); without them stability by meaning and consistency are
            None (`explearn.introspection.representations.aggregate_states`).
        embeddings: by id, the words' embeddings, (words, d); without them simulatability is None
            (`explearn.introspection.representations.word_embeddings`). All methods' students read the same ones.
        own: method -> the model that it explains instead; all that asks a model asks that one.

    Returns:
        Its `metrics` hold for each method: every metric of `explearn.metrics.catalogue.METRICS`, with its interval as
        NAME_low and NAME_high; precision and recall; confidence_* and entropy_* (of the classifier on the inputs that
        faithfulness made, `explearn.metrics.faithfulness.INPUTS`); throughput (texts a second), relative_throughput
        (plain forward seconds / the method's seconds), peak_memory_mb, forward_passes and backward_passes (for one
        text); important_words (share, `explearn.metrics.importance`); completeness_error (mean over the texts, for
        methods whose scores should add up); texts, plausibility_texts, unaligned_words (without a sub-token or not
        read).
        None where a value is undefined, never NaN.

    Raises:
        DataError: methods that cover different examples, an id that comes twice or is unknown, words, scores or marks
            of another length than the example, scores that are not finite, costs that are missing.
    """
    if not attributions:
        return TaskEvaluation({}, (), {}, {}, {})
    if k < 1:
        raise DataError(f"task {task!r}: top-K with K = {k}; expected at least one word, is any training text marked?")
    by_id = {method: _by_id(task, method, texts) for method, texts in attributions.items()}
    ids = _common_ids(task, by_id)
    ordered = {method: [texts[i] for i in ids] for method, texts in by_id.items()}
    for method, texts in ordered.items():
        for attribution in texts:
            _check(task, method, attribution, examples)
        if method not in costs:
            raise DataError(f"task {task!r}, method {method!r}: its costs are missing; expected seconds and memory")
    masks = [_gold_mask(task, i, gold[i], examples[i]) if i in gold else _NOTHING for i in ids]
    chosen = {
        method: [
            plausibility.binarise(
                text.scores,
                binarisation[method],
                k=k,
                threshold=thresholds.get(method),
                positive_rate=positive_rate,
            )
            for text in texts
        ]
        for method, texts in ordered.items()
    }
    columns = Columns(counts=bootstrap_counts(len(ids), params.bootstrap_samples, seed))
    for method, texts in ordered.items():
        judged = np.array(
            [a.predicted == examples[a.example_id].label and mask.any() for a, mask in zip(texts, masks, strict=True)]
        )
        boundaries = [len(examples[i].words) or None for i in ids]
        found = judge_plausibility(texts, chosen[method], masks, judged, boundaries, k, params, seed)
        columns.means[method] |= found.metrics | {"plausibility_texts": int(judged.sum())}
        for name, values in found.by_text.items():
            columns.by_text[name][method] = values

    for method, texts in ordered.items():
        columns.add(method, "important_words", np.array([important_share(text.scores) for text in texts]))
    rationales = {method: dict(zip(ids, masks_, strict=True)) for method, masks_ in chosen.items()}
    own = own or {}
    shared = {method: texts for method, texts in ordered.items() if method not in own}
    models = [(OwnModel(classifier, states), shared)] if shared else []
    models += [(own[method], {method: ordered[method]}) for method in ordered if method in own]
    prediction: dict[str, NDArray[np.int64]] = {}
    for model, of_model in models:
        predictions = Predictions(model.classifier)
        encodings = dict(zip(ids, model.classifier.encode([examples[i] for i in ids]), strict=True))
        for method, result in faithfulness(
            model.classifier, encodings, of_model, params, rationales, predictions
        ).items():
            columns.add_all(method, result.values())
            prediction[method] = result.prediction
        if params.infidelity_samples:
            found_infidelity = infidelity(
                model.classifier, encodings, of_model, params.infidelity_samples, seed, predictions
            )
            for method, values in found_infidelity.items():
                columns.add(method, "infidelity", values)
        stacked = _stacked(model.states, ids)
        add_stability(columns, of_model, [examples[i].all_words for i in ids], stacked, params)
        add_consistency(columns, of_model, stacked, params, seed)
    if params.simulatability.enabled and embeddings is not None and len(ids) >= params.simulatability.folds:
        add_simulatability(columns, ordered, [embeddings[i] for i in ids], classifier.labels, params, seed, task)

    metrics: dict[str, MethodMetrics] = {}
    for method, texts in ordered.items():
        metrics[method] = {
            **dict.fromkeys(f"{name}{end}" for name in METRICS for end in ("", "_low", "_high")),
            **columns.means[method],
            **columns.figures(method, params.confidence),
            **_costs(task, method, costs[method]),
            "completeness_error": mean_of_known([a.completeness_error for a in texts]),
            "texts": len(texts),
            "unaligned_words": sum(a.unaligned for a in texts),
        }
    scores = {method: [text.scores for text in texts] for method, texts in ordered.items()}
    return TaskEvaluation(
        metrics=metrics,
        example_ids=tuple(ids),
        # Looking up a metric that nobody has leaves an empty entry.
        by_text={name: dict(values) for name, values in columns.by_text.items() if values},
        comparisons={
            metric.name: compare(
                metric.name,
                # What a metric says of different classifiers does not compare.
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
            "prediction_overlap": prediction_overlap({method: prediction[method] for method in ordered}),
        },
    )


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
        plausibility.check_scores(attribution.scores)
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


def _costs(task: str, method: str, cost: Mapping[str, float]) -> MethodMetrics:
    for name in ("seconds", "forward_seconds", "texts", "peak_memory_mb", "forward_passes", "backward_passes"):
        if name not in cost:
            raise DataError(f"task {task!r}, method {method!r}: cost {name!r} is missing; got {', '.join(cost)}")
    seconds = cost["seconds"]
    return {
        "throughput": cost["texts"] / seconds if seconds > 0 else None,
        "relative_throughput": cost["forward_seconds"] / seconds if seconds > 0 else None,
        "peak_memory_mb": cost["peak_memory_mb"],
        "forward_passes": cost["forward_passes"],
        "backward_passes": cost["backward_passes"],
    }

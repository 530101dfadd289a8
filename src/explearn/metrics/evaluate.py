"""All metrics of a task's methods side by side, and the headline over the tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.data.records import Attribution, Example
from explearn.errors import DataError
from explearn.metrics import plausibility
from explearn.metrics.faithfulness import faithfulness
from explearn.params import EvaluateParams, Params
from explearn.registry import get_info

if TYPE_CHECKING:
    from explearn.models.classifier import Classifier

Number = int | float | None
MethodMetrics = dict[str, Number]

HEADLINE_METRICS = ("f1", "f1_topk", "auroc", "aopc_comprehensiveness", "aopc_sufficiency", "relative_throughput")


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
    thresholds: Mapping[str, float],
) -> dict[str, MethodMetrics]:
    """Judge every method of a task on the same texts.

    Plausibility is taken over the texts that have at least one marked word and that the classifier gets right;
    faithfulness over all texts. `f1`, its interval, precision, recall and macro_f1 choose words by the method's own
    rule (MethodInfo.binarisation), `f1_topk` by the top K for every method, so that no method gains from the rule.

    Args:
        task: name, for errors.
        attributions: by method; all methods must explain the same examples, in any order.
        costs: by method, the fields of `explearn.attribute.Cost`: `seconds` (classification included),
            `forward_seconds` (classification alone, same texts), `texts`, `peak_memory_mb`, `forward_passes`,
            `backward_passes`.
        examples: by id, those explained among them.
        gold: by id, marked words, bool (n,) over `Example.all_words`. Texts nobody marked may be missing or all False.
        k: words chosen a text by the top-K rule: the mean rationale length in training, rounded.
        positive_rate: share of marked words in training, in [0, 1].
        classifier: the model that was explained.
        params: resamples, confidence, removal and shares.
        seed: of the bootstrap.
        thresholds: method -> score from which a word counts, for methods with that rule.

    Returns:
        For each method: f1, f1_low, f1_high, precision, recall, f1_topk, macro_f1, auroc, auprc, comprehensiveness,
        sufficiency, log_odds, aopc_comprehensiveness, aopc_sufficiency, throughput (texts a second),
        relative_throughput (plain forward seconds / the method's seconds), peak_memory_mb, forward_passes and
        backward_passes (for one text), completeness_error (mean over the texts, for methods whose scores should add
        up), texts, plausibility_texts, unaligned_words (words without a sub-token). None where a value is undefined,
        never NaN.

    Raises:
        DataError: methods that cover different examples, an id that comes twice or is unknown, words, scores or marks
            of another length than the example, scores that are not finite, costs that are missing.
    """
    if not attributions:
        return {}
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
    masks = {i: _gold_mask(task, i, gold[i], examples[i]) for i in ids if i in gold}
    encodings = dict(zip(ids, classifier.encode([examples[i] for i in ids]), strict=True))
    faithful = faithfulness(classifier, encodings, ordered, params)
    metrics: dict[str, MethodMetrics] = {}
    for method, texts in ordered.items():
        judged = [
            a for a in texts if a.predicted == examples[a.example_id].label and masks.get(a.example_id, _NOTHING).any()
        ]
        metrics[method] = {
            **_plausibility(method, judged, masks, k, positive_rate, thresholds.get(method), params, seed),
            **faithful[method].means(),
            **_costs(task, method, costs[method]),
            "completeness_error": _mean([a.completeness_error for a in texts]),
            "texts": len(texts),
            "plausibility_texts": len(judged),
            "unaligned_words": sum(a.unaligned for a in texts),
        }
    return metrics


def headline(
    params: Params, tasks_metrics: Mapping[str, Mapping[str, Mapping[str, Number]]]
) -> dict[str, Number | str]:
    """The explainer under study in a handful of numbers, for `dvc metrics show` and `dvc exp show`.

    Each of HEADLINE_METRICS is the mean over the tasks where it is defined, and so are random_f1 and random_f1_topk,
    the floor that every method must clear. Its rivals are compared on the tasks where its own F1 is defined, and only
    those rivals that have an F1 on all of them: `best_other` among all other methods, `best_baseline` among the
    baselines alone (no learned ones). `tasks_won_f1` and `tasks_won_f1_baselines` count the tasks on which its F1 is at
    least that of every such rival.
    """
    own = {task: methods[params.explainer] for task, methods in tasks_metrics.items() if params.explainer in methods}
    result: dict[str, Number | str] = {"explainer": params.explainer, "tasks": len(tasks_metrics)}
    for name in HEADLINE_METRICS:
        result[name] = _mean([metrics.get(name) for metrics in own.values()])
    for name in ("f1", "f1_topk"):
        result[f"random_{name}"] = _mean([methods.get("random", {}).get(name) for methods in tasks_metrics.values()])
    f1s = {task: f1 for task, metrics in own.items() if (f1 := metrics.get("f1")) is not None}
    result["tasks_with_f1"] = len(f1s)
    others = sorted({m for task in f1s for m in tasks_metrics[task]} - {params.explainer})
    baselines = {*params.baselines.quick, *params.baselines.costly}
    for suffix, label, rivals in (
        ("", "best_other", others),
        ("_baselines", "best_baseline", [name for name in others if name in baselines]),
    ):
        table = {m: values for m in rivals if (values := _f1_on(tasks_metrics, m, f1s)) is not None}
        best = max(table, key=lambda m: (fmean(table[m].values()), m), default=None)
        result[label] = best
        result[f"{label}_f1"] = None if best is None else fmean(table[best].values())
        result[f"tasks_won_f1{suffix}"] = (
            sum(all(f1 >= values[task] for values in table.values()) for task, f1 in f1s.items()) if table else None
        )
    return result


_NOTHING = np.zeros(1, dtype=np.bool_)


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


def _plausibility(
    method: str,
    judged: Sequence[Attribution],
    masks: Mapping[str, NDArray[np.bool_]],
    k: int,
    positive_rate: float,
    threshold: float | None,
    params: EvaluateParams,
    seed: int,
) -> MethodMetrics:
    rule = get_info(method).binarisation
    marked = [masks[a.example_id] for a in judged]
    own = [plausibility.binarise(a.scores, rule, k=k, threshold=threshold, positive_rate=positive_rate) for a in judged]
    counts = plausibility.rationale_counts(own, marked)
    pooled = plausibility.agreement_of_counts(counts)
    low, high = plausibility.bootstrap_interval(counts, params.bootstrap_samples, params.confidence, seed)
    top_k = plausibility.precision_recall_f1([plausibility.select_top_k(a.scores, k) for a in judged], marked)
    scores = [a.scores for a in judged]
    return {
        "f1": pooled.f1,
        "f1_low": low,
        "f1_high": high,
        "precision": pooled.precision,
        "recall": pooled.recall,
        "f1_topk": top_k.f1,
        "macro_f1": plausibility.macro_f1(counts),
        "auroc": plausibility.auroc(scores, marked),
        "auprc": plausibility.auprc(scores, marked),
    }


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


def _mean(values: Sequence[Number]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _f1_on(
    tasks_metrics: Mapping[str, Mapping[str, Mapping[str, Number]]], method: str, tasks: Mapping[str, float]
) -> dict[str, float] | None:
    """F1 of `method` on each of `tasks`; None unless it has one on all of them."""
    found = {task: tasks_metrics[task].get(method, {}).get("f1") for task in tasks}
    known = {task: value for task, value in found.items() if value is not None}
    return known if len(known) == len(found) and known else None

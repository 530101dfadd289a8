"""Evaluating methods: every metric of every method on the same texts, with intervals and paired tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from explearn.core.arguments import inputs_left_as_they_came, options_of
from explearn.core.arrays import Array, Array32, Mask
from explearn.core.attribution import Attribution, text_numbers
from explearn.core.errors import ParamsError, UnknownNameError
from explearn.core.examples import Example
from explearn.core.seeds import hash_order
from explearn.evaluation.result import Evaluation, Figures, in_table_order
from explearn.methods.info import MethodInfo
from explearn.methods.registry import get_info
from explearn.metrics.arrays import check_scores, correlation, ranks, ratio
from explearn.metrics.base import Metric
from explearn.metrics.context import Context, Explanations, by_method, gold_masks, in_one_order
from explearn.metrics.mosaics import MOSAICS, Mosaics, mosaic_figures, shares_of_methods
from explearn.metrics.params import EvaluateParams, SanityParams
from explearn.metrics.plausibility import texts_with_marks
from explearn.metrics.registry import CATALOGUE, get_metric, list_metrics
from explearn.metrics.runs import MethodRun
from explearn.metrics.sanity import SanityResult, check_methods
from explearn.metrics.significance import PairedTests, paired_tests
from explearn.predictors.answers import Answers
from explearn.text.units import Unit, unit_name

if TYPE_CHECKING:
    # It imports torch, which takes seconds; reading results does not need it.
    from explearn.predictors.predictor import Predictor
    from explearn.text.encoding import Encoding


def rank_agreement(scores: Mapping[str, Sequence[ArrayLike]]) -> Array:
    """Compute Spearman's rho of two methods' word scores in a text, mean over texts.

    A text in which one of the two methods gives all words the same score has no rho and is left out for that pair; NaN
    if no text is left. The diagonal is 1.

    Args:
        scores: method -> one array (words,) per text; the texts in the same order for all methods.

    Returns:
        (methods, methods), in [-1, 1].

    Raises:
        DataError: a score is not finite.
    """
    total = np.zeros((len(scores), len(scores)))
    texts = np.zeros_like(total)
    for of_text in zip(*scores.values(), strict=True):
        ranked = ranks([check_scores(of_method) for of_method in of_text])
        rho = correlation(ranked[:, None], ranked[None, :])
        total += np.nan_to_num(rho)
        texts += ~np.isnan(rho)
    return ratio(total, texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateOptions:
    """Further settings of `explearn.evaluate`.

    Attributes:
        params: settings of the metrics.
        seed: seed of all draws.
        task: name of the texts, for messages.
        rules: method -> its own rule to choose words (default: that of the method, or the top K).
        k: number of words that the top-K rule chooses (default: the mean number of marked words).
        positive_rate: share of marked words in training, for methods that choose at random (default: that of the
            texts).
        own: method -> the classifier that it trained, and explains instead.
        answers: what the classifier has answered before (default: nothing).
        encodings: example id -> the text as the classifier reads it. Needed for other units than words.
        unit: what is scored.
        infos: method -> its facts (default: those that the registry knows).
        explainers: methods that are ready to explain further texts: mosaics, and those of the sanity checks.
        mosaics: mosaics that they explain (default: none).
        checked: texts of the sanity checks (default: none, and no checks), by words.
        unchecked: methods that the sanity checks leave out.
        sanity: settings of the sanity checks.
        other_labels: the classifier fine-tuned on permuted labels, for a seed; checked, too, if given.
        shown: number of texts that are kept in the result, with their explanations.
        facts: further fields of the `Evaluation`, such as `marks` or `left_out`.

    Example:
        >>> import explearn
        >>> from explearn.testing.tiny import classifier, TEXTS
        >>> attributions = explearn.get_explainer("random").explain(classifier(), TEXTS)
        >>> marks = [[True] + [False] * (len(text.words) - 1) for text in attributions]
        >>> options = explearn.EvaluateOptions(k=1)
        >>> evaluation = explearn.evaluate(classifier(), attributions, marks, ["f1_topk"], options=options)
        >>> evaluation.figures["random"]["plausibility_texts"]
        5
    """

    params: EvaluateParams = field(default_factory=EvaluateParams)
    seed: int = 13
    task: str = "texts"
    rules: Mapping[str, str] = field(default_factory=dict)
    k: int | None = None
    positive_rate: float | None = None
    own: Mapping[str, Predictor] = field(default_factory=dict)
    answers: Answers | None = None
    encodings: Mapping[str, Encoding] | None = None
    unit: Unit = "word"
    infos: Mapping[str, MethodInfo] = field(default_factory=dict)
    explainers: Mapping[str, Any] = field(default_factory=dict)
    mosaics: Mosaics = field(default_factory=lambda: Mosaics([], []))
    checked: Sequence[Example] = ()
    unchecked: Collection[str] = ()
    sanity: SanityParams = field(default_factory=SanityParams)
    other_labels: Callable[[int], Predictor] | None = None
    shown: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)


@inputs_left_as_they_came
def evaluate(
    classifier: Any,
    attributions: Mapping[str, Sequence[Attribution] | MethodRun] | Iterable[Attribution],
    rationales: Any = None,
    metrics: Iterable[str | Metric] | None = None,
    *,
    texts: Iterable[Example] | None = None,
    options: EvaluateOptions | None = None,
) -> Evaluation:
    """Evaluate methods by their attributions of the same texts.

    Plausibility is taken over the texts that have at least one marked word and that the classifier gets right, or whose
    label is not known; all else over all texts. Stability by meaning and consistency are None where a classifier gives
    no hidden states, simulatability where it has no embeddings.

    Args:
        classifier: the explained classifier, or what `explearn.explain` takes for one.
        attributions: a list, of one or more methods (`Attribution.method`); or method -> its attributions, or the
            MethodRun that holds them. All methods explain the same texts, in any order. A text may have several
            targets: see `Metric.measure`.
        rationales: the marked words: example id -> mask over the words; or a list of Rationales, of one or
            more annotators; or a list of masks, one for each text. None: agreement with them is not measured.
        metrics: names of metrics (`explearn.list_metrics()`), or metrics. None: all.
        texts: the texts as examples, whose labels say which of them the classifier gets right. None: texts without
            labels.
        options: further settings.

    Returns:
        Figures with intervals, values by text, and paired tests.

    Raises:
        DataError: methods explain different texts or words, a score is not finite, or no rationale is of a text.
        ParamsError: a metric is not computed from attributions, or the options are not `EvaluateOptions`.
        UnknownNameError: there is no such metric.

    Example:
        >>> import explearn
        >>> from explearn.testing.tiny import classifier, TEXTS
        >>> attributions = []
        >>> for method in ("random", "occlusion"):
        ...     attributions += explearn.get_explainer(method).explain(classifier(), TEXTS)
        >>> evaluation = explearn.evaluate(classifier(), attributions, metrics=["comprehensiveness"])
        >>> list(evaluation.figures)
        ['random', 'occlusion']
        >>> evaluation.by_text["comprehensiveness"]["random"].shape
        (5,)
    """
    from explearn.predictors.pretrained import as_predictor

    options = options_of(EvaluateOptions, options)
    chosen = _chosen_metrics(metrics)
    runs = _runs(attributions)
    if not any(run.attributions for run in runs.values()):
        return Evaluation()
    model = as_predictor(classifier)
    first, *others = _by_target(runs)
    explanations = [_explanations(model, runs, first, rationales, texts, options)]
    context = next(iter(explanations[0].values())).context
    examples = context.examples
    marks = {example.id: mask for example, mask in zip(examples, context.gold, strict=True)}
    for target in others:
        explanations.append(_explanations(model, runs, target, marks, examples, options))
    by_text: dict[str, dict[str, Array]] = {}
    figures: dict[str, Figures] = {}
    scores: dict[str, list[Array32]] = {}
    for method, run in runs.items():
        by_target = [of_target[method] for of_target in explanations]
        figures[method] = _figures(by_target, chosen, by_text)
        if run.cost is not None:
            figures[method] |= run.cost.figures()
        scores[method] = []
        for explained in by_target:
            scores[method] += [text.filled() for text in explained.attributions]
    shares = shares_of_methods(options.explainers, model, options.mosaics, options.own)
    if shares:
        by_text[MOSAICS.by_text] = shares
        chosen.append(MOSAICS)
    for name, values in shares.items():
        figures[name] |= mosaic_figures(values, options.mosaics, options.params.confidence)
    facts = {
        "task": options.task,
        "unit": unit_name(options.unit),
        "labels": model.labels,
        "classifier": next((run.classifier for method, run in runs.items() if method not in options.own), ""),
        "infos": in_table_order(_infos(runs, options)),
        "options": {method: dict(run.options) for method, run in runs.items()},
        "notes": {method: dict(run.notes) for method, run in runs.items() if run.notes},
        "thresholds": {method: run.threshold for method, run in runs.items() if run.threshold is not None},
        "params": options.params,
        "seed": options.seed,
        "k": options.k,
        "positive_rate": options.positive_rate,
        "sanity": _sanity(model, options),
        "checked": len(options.checked),
        **_shown(explanations[0], marks, options),
    }
    return Evaluation(
        figures=figures,
        example_ids=tuple(example.id for example in examples),
        by_text=by_text,
        comparisons=compare_methods(figures, by_text, options.own, options.params.significance, chosen),
        agreement=rank_agreement(scores),
        metrics=CATALOGUE | {metric.name: metric for metric in chosen},
        **{**facts, **options.facts},
    )


def _sanity(model: Predictor, options: EvaluateOptions) -> dict[str, SanityResult]:
    """Run the sanity checks; none without texts for them."""
    if not options.checked:
        return {}
    return check_methods(
        [explainer for name, explainer in options.explainers.items() if name not in options.unchecked],
        model,
        options.checked,
        options.sanity,
        options.seed,
        options.params.headline_percent,
        options.other_labels,
        options.unit,
        options.own,
    )


def _shown(
    explanations: Mapping[str, Explanations], marks: Mapping[str, Mask], options: EvaluateOptions
) -> dict[str, Any]:
    """Return the texts that are kept, their marks and their explanations, as fields of an evaluation."""
    examples = next(iter(explanations.values())).context.examples
    shown = choose_examples(examples, marks, options.shown, options.seed)
    ids = {example.id for example in shown}
    attributions = []
    for method, explained in explanations.items():
        for attribution in explained.attributions:
            if attribution.example_id in ids:
                attributions.append(replace(attribution, method=method))
    gold = {example.id: marks[example.id].tolist() for example in shown if marks[example.id].any()}
    return {"examples": shown, "gold": gold, "attributions": attributions}


def _infos(runs: Collection[str], options: EvaluateOptions) -> dict[str, MethodInfo]:
    """Return the facts of the methods that are known."""
    infos = {}
    for method in runs:
        try:
            infos[method] = options.infos.get(method) or get_info(method)
        except UnknownNameError:
            continue
    return infos


def choose_examples(examples: Sequence[Example], gold: Mapping[str, ArrayLike], count: int, seed: int) -> list[Example]:
    """Draw `count` texts to show: texts with marked words first, alternating labels.

    The same seed gives the same texts. A text's place in the draw depends only on the seed and its id, not on the other
    texts or their order.
    """
    drawn: Counter[tuple[bool, str]] = Counter()
    turns: list[tuple[bool, int, str]] = []
    by_id = {example.id: example for example in examples}
    ordered = [by_id[identifier] for identifier in hash_order(by_id, seed)]
    for example in ordered:
        unmarked = not np.asarray(gold.get(example.id, False), dtype=np.bool_).any()
        # The labels take turns, texts with marks first.
        turns.append((unmarked, drawn[unmarked, example.label], example.label))
        drawn[unmarked, example.label] += 1
    order = sorted(range(len(ordered)), key=turns.__getitem__)
    return [ordered[number] for number in order[:count]]


def _chosen_metrics(metrics: Iterable[str | Metric] | None) -> list[Metric]:
    if metrics is None:
        metrics = list_metrics()
    if isinstance(metrics, str):
        metrics = [metrics]
    chosen = []
    for metric in metrics:
        if not isinstance(metric, Metric):
            metric = get_metric(metric)
        if metric.function is None:
            raise ParamsError(
                f"metrics: {metric.name!r} is not computed from attributions; expected one of those that "
                "explearn.list_metrics() names"
            )
        chosen.append(metric)
    return chosen


def _runs(attributions: Any) -> dict[str, MethodRun]:
    """Return a run for each method."""
    runs: dict[str, MethodRun] = {}
    if not isinstance(attributions, Mapping):
        attributions = by_method(attributions)
    for method, run in attributions.items():
        if not isinstance(run, MethodRun):
            run = MethodRun(method, run)
        runs[method] = run
    return runs


def _by_target(runs: Mapping[str, MethodRun]) -> list[dict[str, list[Attribution]]]:
    """Return the methods' attributions of the first target of each text, of the second, and so on.

    Free texts, which have no ids, get numbers: a text, or its n-th copy, has the same one with each method.
    """
    targets: list[dict[str, list[Attribution]]] = []
    free_ids: dict[tuple[object, int], str] = {}
    for method, run in runs.items():
        free = not any(attribution.example_id for attribution in run.attributions)
        earlier: Counter[int] = Counter()
        copies: Counter[object] = Counter()
        ids: dict[int, str] = {}
        for number, attribution in zip(text_numbers(run.attributions), run.attributions, strict=True):
            if free:
                if number not in ids:
                    key = attribution.text_key, copies[attribution.text_key]
                    copies[attribution.text_key] += 1
                    ids[number] = free_ids.setdefault(key, f"text-{len(free_ids) + 1}")
                attribution = replace(attribution, example_id=ids[number])
            if earlier[number] == len(targets):
                targets.append({name: [] for name in runs})
            targets[earlier[number]][method].append(attribution)
            earlier[number] += 1
    return targets


def _explanations(
    classifier: Predictor,
    runs: Mapping[str, MethodRun],
    attributions: Mapping[str, Sequence[Attribution]],
    rationales: Any,
    texts: Iterable[Example] | None,
    options: EvaluateOptions,
) -> dict[str, Explanations]:
    """Return each method's explanations, in the context of the classifier that it explains."""
    known = None
    if texts is not None:
        known = list(texts)
    ordered, examples = in_one_order(attributions, known, options.task)
    gold = gold_masks(rationales, examples, [example.id for example in known or ()])
    of_task = Context(
        classifier,
        examples,
        gold,
        options.params,
        options.seed,
        answers=options.answers or Answers(classifier),
        task=options.task,
        k=options.k,
        positive_rate=options.positive_rate,
        encoded=options.encodings,
    )
    explanations = {}
    for method, run in runs.items():
        context = of_task
        if method in options.own:
            own = options.own[method]
            context = replace(
                of_task, classifier=own, answers=Answers(own), encoded=None, task_context=of_task, methods={}
            )
        explanations[method] = context.add(method, ordered[method], _rule(method, run, options), run)
    return explanations


def _rule(method: str, run: MethodRun, options: EvaluateOptions) -> str:
    """Return how a method chooses words: as the options or its declaration say, else the top K."""
    if method in options.rules:
        return options.rules[method]
    info = _infos([method], options).get(method)
    if info is None or (info.binarisation == "threshold" and run.threshold is None):
        return "top_k"
    return info.binarisation


def _figures(
    targets: Sequence[Explanations], metrics: Sequence[Metric], by_text: dict[str, dict[str, Array]]
) -> Figures:
    """Return a method's figures with their intervals, and add its values by text to `by_text`."""
    explanations = targets[0]
    context = explanations.context
    figures: Figures = {}
    for metric in metrics:
        if metric.compared:
            figures |= {metric.name: None, f"{metric.name}_low": None, f"{metric.name}_high": None}
    for metric in metrics:
        measurement = metric.measure(targets)
        if measurement is None:
            continue
        figures[metric.name] = measurement.figure
        if metric.by_text and measurement.values is not None:
            by_text.setdefault(metric.by_text, {})[explanations.method] = measurement.values
        if metric.compared:
            low, high = measurement.interval(context.params.confidence, metric.lowest, metric.highest)
            figures |= {f"{metric.name}_low": low, f"{metric.name}_high": high}
    figures["texts"] = len(explanations.attributions)
    figures["plausibility_texts"] = len(explanations.shared(texts_with_marks))
    # Words without a sub-token, or that the model did not read.
    figures["unaligned_words"] = sum(text.unaligned for text in explanations.attributions)
    return figures


def compare_methods(
    figures: Mapping[str, Mapping[str, float | None]],
    by_text: Mapping[str, Mapping[str, ArrayLike]],
    own: Collection[str] = (),
    significance: float = 0.05,
    metrics: Iterable[Metric] | None = None,
) -> dict[str, PairedTests]:
    """Compare methods in every metric with values by text.

    Args:
        figures: method -> metric -> figure.
        by_text: `Metric.by_text` -> method -> value on each text, (texts,).
        own: methods with their own classifier, which are only compared in metrics that do not depend on the
            classifier: figures for different classifiers cannot be compared.
        significance: level of the tests.
        metrics: metrics to compare. None: all.

    Returns:
        Metric -> its paired tests; without metrics that no method has.
    """
    comparisons = {}
    if metrics is None:
        metrics = CATALOGUE.values()
    for metric in metrics:
        values = {}
        tested = by_text.get(metric.by_text, {})
        for method, of_method in figures.items():
            value = of_method.get(metric.name)
            if method in tested and value is not None and not (metric.of_model and method in own):
                values[method] = value
        scale = None
        if metric.lowest is not None and metric.highest is not None:
            scale = max(abs(metric.lowest), abs(metric.highest))
        if metric.compared and values:
            comparisons[metric.name] = paired_tests(
                metric.name, values, tested, metric.larger_is_better, significance, scale
            )
    return comparisons

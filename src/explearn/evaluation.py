"""Evaluating methods: every metric of every method on the same texts, with intervals and paired tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from explearn.core.arguments import models_left_as_they_came, options_of
from explearn.core.arrays import Array, Array32
from explearn.core.attribution import Attribution, text_numbers
from explearn.core.errors import ParamsError, UnknownNameError
from explearn.core.examples import Example
from explearn.core.extras import need
from explearn.methods.registry import get_info
from explearn.metrics.arrays import check_scores, correlation, ranks, ratio
from explearn.metrics.base import Metric
from explearn.metrics.context import Context, Explanations, by_method, gold_masks, read_texts
from explearn.metrics.mosaics import MOSAICS, Mosaics, mosaic_figures, shares_of_methods
from explearn.metrics.params import EvaluateParams
from explearn.metrics.plausibility import texts_with_marks
from explearn.metrics.registry import CATALOGUE, get_metric, list_metrics
from explearn.metrics.runs import MethodRun
from explearn.metrics.significance import PairedTests, paired_tests
from explearn.predictors.answers import Answers
from explearn.show.blocks import Cell, Column, Mark, Table, columns, several

if TYPE_CHECKING:
    import pandas as pd

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


Figures = dict[str, int | float | None]

MAIN = ("f1_topk", "auroc", "aopc_comprehensiveness", "aopc_sufficiency")
"""Metrics that are shown first; those without any figure are left out."""


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
        predictions: what the classifier has predicted before (default: nothing).
        encodings: example id -> the text as the classifier reads it. Needed for other units than words.

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
    predictions: Answers | None = None
    encodings: Mapping[str, Encoding] | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evaluation:
    """The metrics of some methods on the same texts; it displays itself as a table, and prints one line a metric.

    Attributes:
        figures: method -> metric -> figure, with the bounds of its interval as METRIC_low and METRIC_high; None where
            undefined, never NaN. Also the numbers of texts (`texts`), of those with marks that were classified
            correctly (`plausibility_texts`), and of words that were not read (`unaligned_words`).
        example_ids: the n texts; a text with several targets is one.
        by_text: metric -> method -> value on each text, (n,), NaN where undefined; names are those of
            `explearn.Metric.by_text`.
        comparisons: metric -> paired tests of all methods (Wilcoxon's signed-rank test over the texts, Holm's
            correction), with the best method and those that are not significantly worse. Methods with their own
            classifier are only compared in metrics that do not depend on the classifier.
        agreement: `rank_agreement` of every two methods, in the order of `figures`, (methods, methods).
        metrics: the metrics by name, in the order of tables.

    Example:
        >>> import explearn
        >>> from explearn.testing.tiny import classifier, TEXTS
        >>> attributions = list(explearn.get_explainer("random").explain(classifier(), TEXTS))
        >>> explearn.evaluate(classifier(), attributions, metrics=["sufficiency"])
        Evaluation(1 method on 5 texts)
    """

    figures: dict[str, Figures]
    example_ids: tuple[str, ...]
    by_text: dict[str, dict[str, Array]]
    comparisons: dict[str, PairedTests]
    agreement: Array
    metrics: Mapping[str, Metric] = field(default_factory=lambda: CATALOGUE)

    def __str__(self) -> str:
        shown = self._table()
        printed = [[column.title for column in shown.columns]]
        for row in shown.rows:
            printed.append([cell if isinstance(cell, str) else cell.text for cell in row])
        widths = [max(map(len, column)) for column in printed]
        lines = []
        for title, *cells in zip(*printed, strict=True):
            aligned = map(str.rjust, cells, widths[1:])
            lines.append("  ".join([title.ljust(widths[0]), *aligned]))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Evaluation({several(len(self.figures), 'method')} on {several(len(self.example_ids), 'text')})"

    def to_pandas(self) -> pd.DataFrame:
        """Return a frame with one row per method and one column per figure.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return figures_frame(self.figures)

    def best(self, metric: str) -> str:
        """Return the method with the best figure of a metric.

        Others may not be significantly worse: see `comparisons[metric].tied`.

        Args:
            metric: name of a metric.

        Raises:
            UnknownNameError: there is no such metric.
            ParamsError: no method has it, or it has no better direction.
        """
        return best_method(self.figures, metric, self.metrics)

    def _repr_html_(self) -> str:
        return table_html(self._table(), repr(self))

    def _table(self) -> Table:
        heads = columns(["Method"])
        rows: list[list[Cell | str]] = [[method] for method in self.figures]
        for metric in self.metrics.values():
            if metric.direction and any(figures.get(metric.name) is not None for figures in self.figures.values()):
                heads.append(Column(metric.title))
                tests = self.comparisons.get(metric.name)
                standing: Standing = ((), ())
                if tests is not None and len(tests.methods) > 1:
                    standing = tests.best, tests.tied
                for row, (method, figures) in zip(rows, self.figures.items(), strict=True):
                    row.append(figure_cell(metric, method, figures, standing))
        return Table(heads, rows)


def add_mosaics(
    evaluation: Evaluation,
    explainers: Mapping[str, Any],
    classifier: Predictor,
    mosaics: Mosaics,
    params: EvaluateParams,
    own: Mapping[str, Predictor] = MappingProxyType({}),
) -> None:
    """Explain mosaics, and add figures, values by mosaic and paired tests to an evaluation.

    Args:
        evaluation: the evaluation of these methods.
        explainers: method -> the method.
        classifier: the classifier.
        mosaics: the mosaics.
        params: settings of the metrics.
        own: method -> the classifier that it trained, and explains instead.
    """
    shares = shares_of_methods(explainers, classifier, mosaics, own)
    for name, values in shares.items():
        evaluation.figures[name] |= mosaic_figures(values, mosaics, params.confidence)
    evaluation.by_text[MOSAICS.name] = shares
    tests = compare_methods(evaluation.figures, evaluation.by_text, own, params.significance, [MOSAICS])
    evaluation.comparisons.update(tests)


Standing = tuple[Collection[str], Collection[str]]
"""The methods with the best figure of a metric, and those that are not significantly worse."""


def figure_cell(
    metric: Metric, method: str, figures: Mapping[str, int | float | None], standing: Standing, after: str = ""
) -> Cell:
    """Return a table's cell for a method's figure, with its interval.

    Args:
        metric: the metric.
        method: the method.
        figures: metric -> figure of the method.
        standing: the best and the tied methods.
        after: text that follows the figure.
    """
    value = figures.get(metric.name)
    low = figures.get(f"{metric.name}_low")
    high = figures.get(f"{metric.name}_high")
    best, tied = standing
    mark: Mark = ""
    if method in best:
        mark = "best"
    elif method in tied:
        mark = "tied"
    note = ""
    if low is not None and high is not None:
        note = f"{low:.2f} to {high:.2f}"
    return Cell(metric.shown(value) + after, value, mark, note)


def table_html(table: Table, caption: str) -> str:
    """Return a table as HTML for a notebook: the best figures bold, those not significantly worse with an asterisk."""
    head = "".join(f"<th>{escape(column.title)}</th>" for column in table.columns)
    rows = [f"<tr>{head}</tr>"]
    for row in table.rows:
        cells = "".join(f"<td>{_cell_html(cell)}</td>" for cell in row)
        rows.append(f"<tr>{cells}</tr>")
    note = "bold: best; *: not significantly worse; small: intervals"
    return f"<table>{''.join(rows)}</table><p>{escape(caption)} ({note})</p>"


def _cell_html(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return escape(cell)
    text = cell.text
    if cell.mark == "best":
        text = f"<b>{text}</b>"
    if cell.mark == "tied":
        text += "*"
    if cell.note:
        text += f" <small>{cell.note}</small>"
    return text


def figures_frame(figures: Mapping[str, Mapping[str, int | float | None]]) -> pd.DataFrame:
    """Return a frame with one row per method and one column per figure; see `Evaluation.to_pandas`."""
    need("pandas", extra="pipeline", what="a frame")
    import pandas as pd

    return pd.DataFrame.from_dict(dict(figures), orient="index").dropna(axis="columns", how="all")


def best_method(
    figures: Mapping[str, Mapping[str, int | float | None]], metric: str, metrics: Mapping[str, Metric] = CATALOGUE
) -> str:
    """Return the method with the best figure of a metric; see `Evaluation.best`."""
    found = metrics.get(metric) or get_metric(metric)
    values = {}
    for method, of_method in figures.items():
        value = of_method.get(metric)
        if value is not None:
            values[method] = value
    if not values or found.direction is None:
        raise ParamsError(f"metric: got {metric!r}, which no method has, or which has no better direction")
    return found.best(values)


@models_left_as_they_came
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
            targets: see `Metric.measured_by_text`.
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
        return Evaluation({}, (), {}, {}, np.zeros((0, 0)))
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
    for method in runs:
        by_target = [of_target[method] for of_target in explanations]
        figures[method] = _figures(by_target, chosen, by_text)
        scores[method] = []
        for explained in by_target:
            scores[method] += [text.filled() for text in explained.attributions]
    return Evaluation(
        figures,
        tuple(example.id for example in examples),
        by_text,
        compare_methods(figures, by_text, options.own, options.params.significance, chosen),
        rank_agreement(scores),
        CATALOGUE | {metric.name: metric for metric in chosen},
    )


def _chosen_metrics(metrics: Iterable[str | Metric] | None) -> list[Metric]:
    if metrics is None:
        metrics = list_metrics()
    if isinstance(metrics, str):
        metrics = [metrics]
    chosen = []
    for metric in metrics:
        if not isinstance(metric, Metric):
            metric = get_metric(metric)
        if metric.measure is None:
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

    Free texts, which have no ids, get their numbers.
    """
    targets: list[dict[str, list[Attribution]]] = []
    for method, run in runs.items():
        free = not any(attribution.example_id for attribution in run.attributions)
        earlier: Counter[int] = Counter()
        for number, attribution in zip(text_numbers(run.attributions), run.attributions, strict=True):
            if free:
                attribution = replace(attribution, example_id=f"text-{number + 1}")
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
    ordered, examples = read_texts(attributions, known, options.task)
    gold = gold_masks(rationales, examples, [example.id for example in known or ()])
    settings: dict[str, Any] = {"task": options.task, "k": options.k, "positive_rate": options.positive_rate}
    of_task = Context(
        classifier,
        examples,
        gold,
        options.params,
        options.seed,
        encoded=options.encodings,
        predictions=options.predictions,
        **settings,
    )
    explanations = {}
    for method, run in runs.items():
        context = of_task
        if method in options.own:
            own = options.own[method]
            context = Context(own, examples, gold, options.params, options.seed, task_context=of_task, **settings)
        explanations[method] = context.add(method, ordered[method], _rule(method, run, options), run)
    return explanations


def _rule(method: str, run: MethodRun, options: EvaluateOptions) -> str:
    """Return how a method chooses words: as the options or its declaration say, else the top K."""
    if method in options.rules:
        return options.rules[method]
    try:
        rule = get_info(method).binarisation
    except UnknownNameError:
        return "top_k"
    if rule == "threshold" and run.threshold is None:
        return "top_k"
    return rule


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
        measurement = metric.measured_by_text(targets)
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
        Metric -> its paired tests.
    """
    comparisons = {}
    for metric in CATALOGUE.values() if metrics is None else metrics:
        if not metric.compared:
            continue
        values = {}
        tested = by_text.get(metric.by_text, {})
        for method, of_method in figures.items():
            if method in tested and not (metric.of_model and method in own):
                values[method] = of_method.get(metric.name)
        comparisons[metric.name] = paired_tests(metric.name, values, tested, metric.larger_is_better, significance)
    return comparisons

"""Checks that every metric must pass; `check_metric` runs all of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from explearn.core.arrays import Array
from explearn.core.attribution import Attribution
from explearn.core.errors import DataError
from explearn.core.words import segments_of
from explearn.evaluation.result import Evaluation
from explearn.evaluation.run import EvaluateOptions, evaluate
from explearn.methods.registry import get_explainer
from explearn.metrics.base import Direction, Group, Metric
from explearn.predictors.function import FunctionPredictor
from explearn.predictors.predictor import Predictor
from explearn.testing import tiny
from explearn.testing.conformance import expect
from explearn.text.encoding import plain_text

PLACEHOLDERS = frozenset({"top", "percents", "neighbours", "confidence", "unit"})
"""What a summary may have filled in."""

ROUNDING = 1e-9
"""How far a value may lie beyond the range."""

Rationales = Sequence[Sequence[bool]]


def check_metric(
    metric: Metric,
    *,
    classifier: Predictor | None = None,
    attributions: Sequence[Attribution] | None = None,
    rationales: Rationales | None = None,
) -> None:
    """Check what Explearn expects of every metric.

    It has a name, a heading, a summary, a direction and a range; gives each text a value in the range, or NaN, or all
    texts a figure in the range, and with one seed the same each time; is undefined, and fails for nothing, where there
    are no marks, a method explains several classes of a text or no class, or the classifier is a function of texts; and
    `explearn.evaluate` gives its figure with an interval around it, its values by text and its best method.

    Args:
        metric: the metric, which need not be registered.
        classifier: the explained classifier. None: a tiny one with random weights.
        attributions: of two methods or more, one for each text. None: those of `random` and `occlusion`.
        rationales: the marks of each text. None: the first word of each text is marked.

    Raises:
        AssertionError: a check failed; the message names the metric, what was found and what was expected.

    Example:
        >>> import explearn
        >>> from explearn.testing import check_metric
        >>> def longest_word(explanations):
        ...     return [max(map(len, text.words)) for text in explanations.attributions]
        >>> check_metric(explearn.Metric("longest", "Longest word", "letters of the longest word", None, longest_word))
    """
    try:
        _check_declaration(metric)
        model = classifier or tiny.classifier()
        explained = list(attributions or _explained(model))
        marks = rationales or _marks(explained)
        case = _TriedMetric(metric, model, explained, marks)
        _check_values(case)
        _check_evaluation(case)
        _check_undefined(case)
    except DataError as error:
        raise AssertionError(str(error)) from error  # it names the metric
    except AssertionError as error:
        raise AssertionError(f"{metric.name}: {error}") from error


@dataclass(frozen=True, slots=True)
class _TriedMetric:
    """A metric with what it measures.

    Attributes:
        metric: the metric.
        classifier: the explained classifier.
        attributions: those of several methods.
        rationales: marks of each text.
    """

    metric: Metric
    classifier: Predictor
    attributions: list[Attribution]
    rationales: Rationales | None

    @property
    def methods(self) -> dict[str, list[Attribution]]:
        methods: dict[str, list[Attribution]] = {}
        for attribution in self.attributions:
            methods.setdefault(attribution.method, []).append(attribution)
        return methods

    def values(self, attributions: Sequence[Attribution]) -> Array:
        """Return the values by text of one method."""
        return self.metric(self.classifier, attributions, self.rationales)

    def evaluation(self) -> Evaluation:
        # A metric called alone chooses the top K words of each method, too.
        options = EvaluateOptions(rules=dict.fromkeys(self.methods, "top_k"))
        return evaluate(self.classifier, self.attributions, self.rationales, [self.metric], options=options)


def _explained(classifier: Predictor) -> list[Attribution]:
    attributions: list[Attribution] = []
    for name in ("random", "occlusion"):
        attributions += get_explainer(name).explain(classifier, tiny.TEXTS)
    return attributions


def _marks(attributions: Sequence[Attribution]) -> list[list[bool]]:
    """Return marks on the first word of each text of the first method."""
    of_method = [one for one in attributions if one.method == attributions[0].method]
    return [[True, *[False] * (len(one.words) - 1)] for one in of_method]


def _check_declaration(metric: Metric) -> None:
    """The metric says what it is called, what it means, which way is better and between which numbers it lies."""
    expect(isinstance(metric, Metric), f"is {metric!r}; expected an explearn.Metric")
    named = re.fullmatch(r"[a-z][a-z0-9_]*", metric.name) is not None
    expect(named, f"the name is {metric.name!r}; expected lower-case letters, digits and _")
    for field in ("heading", "summary"):
        value = getattr(metric, field)
        expect(isinstance(value, str) and bool(value.strip()), f"{field} is {value!r}; expected a text")
    unknown = set(re.findall(r"\{(\w*)\}", metric.summary)) - PLACEHOLDERS
    expect(not unknown, f"summary has {sorted(unknown)} in braces; expected some of {sorted(PLACEHOLDERS)}")
    directions = (*get_args(Direction), None)
    expect(metric.direction in directions, f"direction is {metric.direction!r}; expected one of {directions}")
    expect(metric.group in get_args(Group), f"group is {metric.group!r}; expected one of {get_args(Group)}")
    if metric.lowest is not None and metric.highest is not None:
        ordered = metric.lowest < metric.highest
        expect(ordered, f"lies between {metric.lowest} and {metric.highest}; expected the lower number first")
    expect(
        callable(metric.function), f"function is {metric.function!r}; expected a function of an explearn.Explanations"
    )


def _check_range(metric: Metric, values: Any, what: str) -> None:
    """Fail unless values other than NaN lie in the metric's range."""
    known = np.asarray(values, dtype=np.float64)
    known = known[~np.isnan(known)]
    low = -math.inf if metric.lowest is None else metric.lowest - ROUNDING
    high = math.inf if metric.highest is None else metric.highest + ROUNDING
    within = np.isfinite(known) & (known >= low) & (known <= high)
    if not within.all():
        bounds = f"from {metric.lowest} to {metric.highest}"
        raise AssertionError(f"{what} {known[~within][0]}; expected finite numbers {bounds} (None: no bound)")


def _check_values(case: _TriedMetric) -> None:
    """Each text has a value in the range, or NaN, and the same each time."""
    for method, attributions in case.methods.items():
        values = case.values(attributions)
        shape = (len(attributions),)
        expect(values.shape == shape, f"method {method!r}: values of shape {values.shape}; expected {shape}")
        _check_range(case.metric, values, f"method {method!r}: gives a text the value")
        again = case.values(attributions)
        same = case.metric.of_machine or np.array_equal(values, again, equal_nan=True)
        expect(bool(same), f"method {method!r}: gives {again.tolist()} the second time; expected {values.tolist()}")


def _check_evaluation(case: _TriedMetric) -> None:
    """`evaluate` gives the figure, an interval around it, the values by text, a line of the table and the best."""
    metric = case.metric
    evaluation = case.evaluation()
    texts = len(evaluation.example_ids)
    defined = []
    for method, attributions in case.methods.items():
        where = f"method {method!r}, by evaluate: "
        figures = evaluation.figures[method]
        figure = figures.get(metric.name)
        values = evaluation.by_text.get(metric.by_text, {}).get(method)
        if values is not None:
            expect(values.shape == (texts,), f"{where}values of shape {values.shape}; expected ({texts},)")
            same = metric.of_machine or np.array_equal(values, case.values(attributions), equal_nan=True)
            expect(bool(same), f"{where}values are others than those of the metric alone")
        if figure is None:
            continue
        defined.append(method)
        _check_range(metric, [figure], f"{where}the figure is")
        low = figures.get(f"{metric.name}_low")
        high = figures.get(f"{metric.name}_high")
        if low is not None and high is not None:
            around = low - ROUNDING <= figure <= high + ROUNDING
            expect(around, f"{where}the interval from {low} to {high} does not hold the figure, {figure}")
    if defined and metric.direction is not None:
        best = evaluation.best(metric.name)
        expect(best in defined, f"the best method is {best!r}; expected one of {defined}")
        expect(metric.title in str(evaluation), f"the printed table has no row {metric.title!r}")


def _check_undefined(case: _TriedMetric) -> None:
    """Where it cannot be measured it is undefined: None or NaN, but no error."""
    metric = case.metric
    (first, *_) = case.methods.values()
    function = FunctionPredictor(_by_length, ["short", "long"])
    tried: dict[str, Callable[[], Evaluation]] = {
        "without marks": lambda: evaluate(case.classifier, first, None, [metric]),
        "of a single text": lambda: evaluate(case.classifier, first[:1], None, [metric]),
        "of several classes of a text": lambda: evaluate(case.classifier, _every_class(case, first), None, [metric]),
        "of a function of texts": lambda: evaluate(function, _explained(function), None, [metric]),
    }
    for what, measure in tried.items():
        try:
            figures = list(measure().figures.values())
        except Exception as error:
            raise AssertionError(f"{what}, {type(error).__name__}: {error}; expected values, None or NaN") from error
        for of_method in figures:
            figure = of_method.get(metric.name)
            if figure is not None:
                _check_range(metric, [figure], f"{what}, the figure is")


def _every_class(case: _TriedMetric, attributions: Sequence[Attribution]) -> list[Attribution]:
    """Return random attributions of the same texts for each class."""
    texts = [plain_text(segments_of(one.words, one.gaps, one.pair_start)) for one in attributions]
    return get_explainer("random").explain(case.classifier, texts, [case.classifier.labels] * len(texts))


def _by_length(texts: list[Any]) -> Array:
    """Return probabilities, (n, 2): the longer a text, the more probable the second class."""
    p = np.array([1 / (1 + len(text)) for text in texts])
    return np.stack([p, 1 - p], axis=1)

"""Checks that every metric must pass; `check_metric` runs all of them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np

from explearn.core.arrays import Array
from explearn.core.attribution import Attribution
from explearn.core.errors import DataError
from explearn.core.words import segments_of
from explearn.evaluation.run import EvaluateOptions, evaluate
from explearn.methods.registry import get_explainer
from explearn.metrics.base import Group, Metric
from explearn.metrics.context import by_method
from explearn.predictors.function import FunctionPredictor
from explearn.predictors.predictor import Predictor
from explearn.testing import tiny
from explearn.testing.expect import about, expect, expect_close, expect_equal
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
    model = classifier or tiny.classifier()
    methods = by_method(attributions or _explained(model))
    first = next(iter(methods.values()))
    marks = rationales or [[True, *[False] * (len(text.words) - 1)] for text in first]
    try:
        with about(metric.name):
            _check_declaration(metric)
            _check_values(metric, model, methods, marks)
            _check_undefined(metric, model, first)
    except DataError as error:
        raise AssertionError(str(error)) from error  # it names the metric


def _explained(classifier: Predictor) -> list[Attribution]:
    attributions: list[Attribution] = []
    for name in ("random", "occlusion"):
        attributions += get_explainer(name).explain(classifier, tiny.TEXTS)
    return attributions


def _check_declaration(metric: Metric) -> None:
    """The metric says what it is called, what it means, which way is better and between which numbers it lies."""
    expect(isinstance(metric, Metric), f"is {metric!r}; expected an explearn.Metric")
    named = re.fullmatch(r"[a-z][a-z0-9_]*", metric.name)
    expect(named, f"the name is {metric.name!r}; expected lower-case letters, digits and _")
    for field in ("heading", "summary"):
        value = getattr(metric, field)
        expect(isinstance(value, str) and value.strip(), f"{field} is {value!r}; expected a text")
    unknown = set(re.findall(r"\{(\w*)\}", metric.summary)) - PLACEHOLDERS
    expect(not unknown, f"summary has {sorted(unknown)} in braces; expected some of {sorted(PLACEHOLDERS)}")
    expect(metric.group in get_args(Group), f"group is {metric.group!r}; expected one of {get_args(Group)}")
    low, high = _bounds(metric)
    expect(low < high, f"lies between {metric.lowest} and {metric.highest}; expected the lower number first")
    expect(callable(metric.function), f"function is {metric.function!r}; expected a function of an Explanations")


def _bounds(metric: Metric) -> tuple[float, float]:
    low = -math.inf if metric.lowest is None else metric.lowest
    high = math.inf if metric.highest is None else metric.highest
    return low, high


def _expect_in_range(metric: Metric, values: Any, what: str) -> None:
    """Fail unless values other than NaN lie in the metric's range."""
    known = np.asarray(values, dtype=np.float64)
    known = known[~np.isnan(known)]
    low, high = _bounds(metric)
    outside = known[~np.isfinite(known) | (known < low - ROUNDING) | (known > high + ROUNDING)]
    for value in outside:
        raise AssertionError(f"{what} {value}; expected finite numbers from {low} to {high}")


def _check_values(
    metric: Metric, classifier: Predictor, methods: Mapping[str, list[Attribution]], rationales: Rationales
) -> None:
    """Each text has a value in the range, or NaN, the same each time; `evaluate` gives them, a figure and the best."""
    first = {}
    for method, attributions in methods.items():
        where = f"method {method!r}: "
        values = metric(classifier, attributions, rationales)
        expect_equal(values.shape, (len(attributions),), f"{where}the shape of the values")
        _expect_in_range(metric, values, f"{where}gives a text the value")
        first[method] = values
    # A metric called alone chooses the top K words of each method, too.
    options = EvaluateOptions(rules=dict.fromkeys(methods, "top_k"))
    evaluation = evaluate(classifier, methods, rationales, [metric], options=options)
    by_text = evaluation.by_text.get(metric.by_text, first)
    for method, values in first.items():
        if not metric.of_machine:
            again = metric(classifier, methods[method], rationales)
            expect_close(again, values, 0, f"method {method!r}: the list of values the second time")
            expect_close(by_text[method], values, 0, f"method {method!r}: the list of values by evaluate")
    defined = evaluation.values(metric.name)
    for method, figure in defined.items():
        _expect_in_range(metric, figure, f"method {method!r}: the figure is")
        low = evaluation.figures[method].get(f"{metric.name}_low")
        high = evaluation.figures[method].get(f"{metric.name}_high")
        if low is not None and high is not None:
            around = low - ROUNDING <= figure <= high + ROUNDING
            expect(around, f"method {method!r}: the interval from {low} to {high} does not hold the figure, {figure}")
    if defined and metric.direction is not None:
        best = evaluation.best(metric.name)
        expect(best in defined, f"the best method is {best!r}; expected one of {list(defined)}")
        expect(metric.title in str(evaluation), f"the printed table has no row {metric.title!r}")


def _check_undefined(metric: Metric, classifier: Predictor, attributions: Sequence[Attribution]) -> None:
    """Where it cannot be measured it is undefined: None or NaN, but no error."""
    function = FunctionPredictor(_by_length, ["short", "long"])
    texts = [plain_text(segments_of(text.words, text.gaps, text.pair_start)) for text in attributions]
    every_class = get_explainer("random").explain(classifier, texts, [classifier.labels] * len(texts))
    tried: dict[str, tuple[Predictor, Sequence[Attribution]]] = {
        "without marks": (classifier, attributions),
        "of a single text": (classifier, attributions[:1]),
        "of several classes of a text": (classifier, every_class),
        "of a function of texts": (function, _explained(function)),
    }
    for what, (model, explained) in tried.items():
        try:
            figures = evaluate(model, explained, None, [metric]).values(metric.name)
        except Exception as error:
            raise AssertionError(f"{what}, {type(error).__name__}: {error}; expected values, None or NaN") from error
        for figure in figures.values():
            _expect_in_range(metric, figure, f"{what}, the figure is")


def _by_length(texts: list[Any]) -> Array:
    """Return probabilities, (n, 2): the longer a text, the more probable the second class."""
    p = np.array([1 / (1 + len(text)) for text in texts])
    return np.stack([p, 1 - p], axis=1)

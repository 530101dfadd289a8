"""A metric: what it is called, which way is better, and the function that computes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from explearn.core.arguments import inputs_left_as_they_came
from explearn.core.arrays import Array, as_numbers
from explearn.core.attribution import Attribution
from explearn.core.errors import DataError, ParamsError, blaming
from explearn.metrics.arrays import mean_of_known, mean_where_defined
from explearn.metrics.context import Context, Explanations, by_method, gold_masks, in_one_order, numbered
from explearn.metrics.params import EvaluateParams
from explearn.metrics.significance import FEWEST_TEXTS, Interval, mean_interval
from explearn.predictors.answers import Answers

Direction = Literal["higher", "lower"]
Group = Literal["plausibility", "faithfulness", "known", "behaviour", "cost", "reasons", "other", "none"]


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """A metric of one method: its values by text, and its figure over all texts.

    Attributes:
        values: value on each text, (texts,), NaN where undefined; None for a figure without values by text.
        figure: over all texts; None if undefined.
        bounds: those of the figure's interval; (None, None) if undefined.
        is_mean: whether the figure is the mean of the values, whose interval is `mean_interval`.

    Example:
        >>> import explearn
        >>> explearn.Measurement.of_mean([0.5, 1.0, float("nan")]).figure
        0.75
    """

    values: Array | None
    figure: float | None
    bounds: Interval = (None, None)
    is_mean: bool = False

    @classmethod
    def of_mean(cls, values: ArrayLike) -> Measurement:
        """Return values by text with their mean, without NaN, as the figure.

        Args:
            values: value on each text, (texts,), NaN where undefined.
        """
        array = as_numbers(values)
        return cls(array, mean_where_defined(array), is_mean=True)

    def interval(self, confidence: float, lowest: float | None = None, highest: float | None = None) -> Interval:
        """Return the bounds of the figure's interval; (None, None) if undefined, and for fewer than FEWEST_TEXTS.

        Args:
            confidence: level of the interval.
            lowest: least possible figure; None if there is none.
            highest: largest possible figure; None if there is none.
        """
        if self.values is not None and np.count_nonzero(~np.isnan(self.values)) < FEWEST_TEXTS:
            return None, None
        if self.is_mean and self.values is not None:
            low = -np.inf if lowest is None else lowest
            high = np.inf if highest is None else highest
            return mean_interval(self.values, confidence, low, high)
        return self.bounds


MetricFunction = Callable[[Explanations], Measurement | ArrayLike | None]
"""Returns one method's values by text, (texts,), or a Measurement if the figure is not their mean; None if the metric
is undefined for this classifier or these settings."""


def computed_together(
    compute_all: Callable[[Context], Mapping[str, Any]], part: Callable[[Any], Any] = lambda result: result
) -> MetricFunction:
    """Return the function of a metric that is computed for all methods of a context at once.

    Args:
        compute_all: returns method -> its result; a method that it leaves out has no figure.
        part: takes the metric's values from a result.
    """

    def take(explanations: Explanations) -> Measurement | ArrayLike | None:
        results = explanations.context.shared(compute_all)
        if explanations.method not in results:
            return None
        values: Measurement | ArrayLike = part(results[explanations.method])
        return values

    return take


NAME = "{name}"
"""Stands for a metric's name."""


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A figure of one method's explanations of some texts. Call it for its values by text.

    Attributes:
        name: key of its figure in tables and files.
        heading: heading of its column.
        summary: its meaning, for a reader who does not know it. {top}, {percents}, {neighbours} and {unit} stand for
            the run's settings.
        direction: which direction is better; None if neither is.
        function: function of one method's explanations; None for a figure that is measured elsewhere.
        group: the report's table that shows it; `none` if none does.
        reference: paper that defines it, with section or equation.
        lowest: the least possible value; None if there is none.
        highest: the largest possible value; None if there is none.
        by_text: name of its values by text in files (default: `name`); empty if they are not kept.
        tested: whether methods are compared by it, with paired tests over the texts.
        compare_with: name of the metric whose figure stands in the heading of its column, as what a method has to beat.
        of_model: whether it depends on the explained classifier. Methods that explain different classifiers cannot be
            compared by such a metric.
        of_machine: whether it depends on the machine and its load: times and memory.
        passes: whether it counts passes through the model.
        decimals: decimals shown.
        suffix: text shown after the figure.

    Raises:
        ParamsError: another direction.

    Example:
        >>> import explearn
        >>> from explearn.testing.tiny import classifier, TEXTS
        >>> attributions = list(explearn.get_explainer("occlusion").explain(classifier(), TEXTS))
        >>> comprehensiveness = explearn.get_metric("comprehensiveness")
        >>> comprehensiveness.direction
        'higher'
        >>> comprehensiveness(classifier(), attributions).shape
        (5,)
    """

    name: str
    heading: str
    summary: str
    direction: Direction | None
    function: MetricFunction | None = None
    _: KW_ONLY
    group: Group = "other"
    reference: str = ""
    lowest: float | None = None
    highest: float | None = None
    by_text: str = NAME
    tested: bool = True
    compare_with: str = ""
    of_model: bool = False
    of_machine: bool = False
    passes: bool = False
    decimals: int = 3
    suffix: str = ""

    def __post_init__(self) -> None:
        if self.direction not in (*get_args(Direction), None):
            raise ParamsError(f"metric {self.name!r}: got direction {self.direction!r}; expected higher, lower or None")
        if self.by_text == NAME:
            object.__setattr__(self, "by_text", self.name if self.function else "")

    def __repr__(self) -> str:
        if self.direction is None:
            return f"Metric({self.name!r})"
        return f"Metric({self.name!r}, {self.direction} is better)"

    @property
    def compared(self) -> bool:
        """Whether methods are compared by it: it has a direction and values by text, and is tested."""
        return self.tested and bool(self.by_text) and self.direction is not None

    @property
    def larger_is_better(self) -> bool:
        """The direction, for metrics that have one; raises ValueError for others."""
        if self.direction is None:
            raise ValueError(f"metric {self.name!r} has no direction: neither larger nor smaller is better")
        return self.direction == "higher"

    def best(self, values: Mapping[str, float]) -> str:
        """Return the first key with the best of some values. Raises ValueError for a metric without a direction.

        Args:
            values: key, such as a method -> value.
        """
        if self.larger_is_better:
            return max(values, key=values.__getitem__)
        return min(values, key=values.__getitem__)

    @property
    def title(self) -> str:
        """The heading, with an arrow that shows which way is better."""
        arrows = {"higher": " ↑", "lower": " ↓", None: ""}
        return self.heading + arrows[self.direction]

    def limited(self, value: float) -> float:
        """Return a value within the metric's range, beyond which a measured time may lie by noise.

        Args:
            value: the value.
        """
        if self.of_machine and self.highest is not None:
            value = min(value, self.highest)
        if self.of_machine and self.lowest is not None:
            value = max(value, self.lowest)
        return value

    def shown(self, value: float | None) -> str:
        """Format a figure for tables: a plain 0.000 for values that round to zero, a dash for None.

        Args:
            value: the figure.
        """
        if value is None:
            return "–"
        rounded = round(self.limited(value), self.decimals) + 0.0
        return f"{rounded:,.{self.decimals}f}{self.suffix}"

    def measure(self, targets: Sequence[Explanations]) -> Measurement | None:
        """Measure one method; None if the metric is undefined for it.

        Of several targets of a text, its value is the mean. A pooled figure is the mean of those of the first target of
        each text, the second, and so on; it has no interval.

        Args:
            targets: the method's explanations of the first target of each text, of the second, and so on.

        Raises:
            DataError: the metric's function does not return one value for each text.
        """
        measurements = []
        by_text: dict[str, list[float]] = {}
        for explanations in targets:
            measurement = self._measure(explanations)
            if measurement is None or len(targets) == 1:
                return measurement
            measurements.append(measurement)
            if measurement.values is not None:
                for attribution, value in zip(explanations.attributions, measurement.values, strict=True):
                    by_text.setdefault(attribution.example_id, []).append(value)
        means = [mean_where_defined(np.array(of_text)) for of_text in by_text.values()]
        values = np.array(means, dtype=np.float64) if means else None  # of the means, None becomes NaN
        if values is not None and measurements[-1].is_mean:
            return Measurement.of_mean(values)
        return Measurement(values, mean_of_known(measurement.figure for measurement in measurements))

    def _measure(self, explanations: Explanations) -> Measurement | None:
        """Measure one method that explains one target of each text."""
        if self.function is None:
            return None
        with blaming(self.function.__module__, f"metric {self.name!r} failed", DataError):
            result = self.function(explanations)
        if result is None or isinstance(result, Measurement):
            return result
        measurement = Measurement.of_mean(result)
        texts = (len(explanations.attributions),)
        if measurement.values is None or measurement.values.shape != texts:
            raise DataError(f"metric {self.name!r}: got values of shape {np.shape(result)}; expected {texts}")
        return measurement

    @inputs_left_as_they_came
    def __call__(
        self,
        classifier: Any,
        attributions: Sequence[Attribution],
        rationales: Any = None,
        *,
        params: EvaluateParams | None = None,
        seed: int = 13,
        answers: Answers | None = None,
    ) -> Array:
        """Measure one method on some texts.

        Metrics of the words that a method chooses take the top K words; `explearn.evaluate` knows each method's own
        rule.

        Args:
            classifier: the explained classifier, or what `explearn.explain` takes for one.
            attributions: one for each text, all of one method.
            rationales: marked words, as in `explearn.evaluate`; only metrics of plausibility need them.
            params: settings of the metrics (default: those of the library).
            seed: seed of random draws.
            answers: what the classifier has answered before; metrics that share it classify each shortened text once.
                Default: nothing.

        Returns:
            The value on each text, float64, (texts,); NaN where it is undefined.

        Raises:
            ParamsError: the metric is not computed from attributions, such as the cost of a run.
            DataError: the attributions are of several methods, or their scores are not finite.
        """
        from explearn.predictors.pretrained import as_predictor

        if self.function is None:
            raise ParamsError(f"metric {self.name!r} is not computed from attributions")
        grouped = by_method(attributions)
        if len(grouped) != 1:
            raise DataError(f"attributions: got the methods {', '.join(grouped) or 'none'}; expected one")
        ((method, of_method),) = grouped.items()
        ordered, examples = in_one_order({method: numbered(of_method)}, None, "texts")
        gold = gold_masks(rationales, examples)
        model = as_predictor(classifier)
        context = Context(model, examples, gold, params or EvaluateParams(), seed, answers=answers or Answers(model))
        explanations = context.add(method, ordered[method])
        measurement = self.measure([explanations])
        if measurement is None or measurement.values is None:
            return np.full(len(explanations.attributions), np.nan)
        return measurement.values

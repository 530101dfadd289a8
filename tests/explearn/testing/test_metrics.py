"""`check_metric` passes every metric of ours, and says what is wrong with one that breaks a rule."""

import itertools

import numpy as np
import pytest
import tiny

import explearn
from explearn import Measurement, Metric, get_metric, list_metrics
from explearn.testing import check_metric


@pytest.mark.parametrize("name", list_metrics())
def test_ours_pass(name):
    check_metric(get_metric(name))


def test_other_texts_and_marks_may_be_given():
    classifier = tiny.classifier("roberta", 3)
    attributions = []
    for method in ("random", "gradient"):
        attributions += explearn.get_explainer(method).explain(classifier, tiny.PAIRS)
    marks = [[False] * (len(text.words) - 1) + [True] for text in attributions[: len(tiny.PAIRS)]]
    check_metric(get_metric("auroc"), classifier=classifier, attributions=attributions, rationales=marks)


def lengths(explanations):
    return [len(text.words) for text in explanations.attributions]


def metric(function=lengths, **changes):
    fields = {"name": "mine", "heading": "Mine", "summary": "words of a text", "direction": "higher", **changes}
    return Metric(function=function, **fields)


CALLS = itertools.count()


def drawn(explanations):
    return [next(CALLS) for _ in explanations.attributions]


def needs_a_model(explanations):
    return [explanations.classifier.transformer.max_length for _ in explanations.attributions]


def pooled(figure, *bounds):
    return lambda explanations: Measurement(None, figure, bounds or (None, None))


FAULTS = {
    "name": (metric(name="My metric"), "the name is 'My metric'"),
    "heading": (metric(heading=" "), "heading is ' '; expected a text"),
    "summary": (metric(summary="words of {K}"), "summary has ['K'] in braces"),
    "group": (metric(group="mine"), "group is 'mine'"),
    "range": (metric(lowest=1.0, highest=0.0), "lies between 1.0 and 0.0"),
    "function": (metric(None), "function is None; expected a function"),
    "too few values": (metric(lambda explanations: [0.5]), "got values of shape (1,); expected (5,)"),
    "beyond the range": (metric(highest=1.0), "gives a text the value 4.0"),
    "infinite": (metric(lambda explanations: np.full(5, np.inf)), "gives a text the value inf"),
    "figure": (metric(pooled(2.0), highest=1.0), "the figure is 2.0"),
    "bounds": (metric(pooled(2.0, 0.0, 1.0)), "the interval from 0.0 to 1.0 does not hold the figure, 2.0"),
    "drawn": (metric(drawn), "the second time"),
    "marks": (metric(lambda explanations: [1 // text.sum() for text in explanations.context.gold]), "without marks"),
    "model": (metric(needs_a_model), "of a function of texts, DataError"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(fault):
    faulty, message = FAULTS[fault]
    with pytest.raises(AssertionError) as caught, np.errstate(all="raise"):
        check_metric(faulty)
    assert message in str(caught.value)


@pytest.mark.parametrize("function", [lengths, pooled(1.5, 1.0, 2.0), pooled(None), lambda explanations: None])
def test_values_figures_and_nothing_pass(function):
    check_metric(metric(function))

"""The cost of explanations: passes are counted, times and memory measured on the machine."""

from __future__ import annotations

from functools import partial

from explearn.metrics.arrays import mean_of_known
from explearn.metrics.base import Measurement, Metric
from explearn.metrics.context import Explanations


def completeness_error(explanations: Explanations) -> Measurement:
    """Return the mean of `Attribution.missed`, over texts that have one."""
    return Measurement(None, mean_of_known([text.missed for text in explanations.attributions]))


_metric = partial(Metric, direction="lower", group="cost", lowest=0.0)

METRICS = (
    _metric(
        "throughput",
        "Texts per second",
        "classified and explained",
        direction="higher",
        of_machine=True,
        decimals=1,
    ),
    _metric(
        "relative_throughput",
        "Speed",
        "time of classifying alone, divided by the time of classifying and explaining",
        direction="higher",
        group="none",
        highest=1.0,
        of_machine=True,
        decimals=2,
        suffix="×",
    ),
    _metric(
        "time",
        "Time",
        "how many times longer it takes to classify and explain than to classify alone",
        lowest=1.0,
        of_machine=True,
        decimals=1,
        suffix="×",
    ),
    _metric(
        "forward_passes",
        "Forward passes",
        "forward passes through the classifier per explained text",
        function=lambda explanations: Measurement(None, explanations.run.forward_passes),
        by_text="",
        passes=True,
        decimals=1,
    ),
    _metric(
        "backward_passes",
        "Backward passes",
        "backward passes through the classifier per explained text",
        function=lambda explanations: Measurement(None, explanations.run.backward_passes),
        by_text="",
        passes=True,
        decimals=1,
    ),
    _metric(
        "peak_memory_mb",
        "Memory, MiB",
        "peak memory while explaining, including the model: of the GPU, or else of the whole process",
        of_machine=True,
        decimals=0,
    ),
    _metric(
        "training_seconds",
        "Training, processor seconds",
        "processor time of a learned method's training on the task, apart from features and teachers",
        of_machine=True,
        decimals=0,
    ),
    _metric(
        "completeness_error",
        "Completeness error",
        "for methods whose scores should add up to a known number: by how much they miss it, as a share of their "
        "absolute sum, on average",
        function=completeness_error,
        highest=1.0,
        by_text="",
    ),
)
"""Costs of an explanation."""

"""A metric is declared once, and everything else that knows it follows from its entry."""

from __future__ import annotations

import pytest

from explearn.metrics.params import EvaluateParams
from explearn.metrics.registry import CATALOGUE, compared_metrics
from explearn.report.columns import metrics_of
from explearn.report.glossary import glossary
from explearn.report.task_sections import BOARDS

GROUPS = ("plausibility", "faithfulness", "behaviour", "cost")


def test_every_metric_that_methods_are_compared_by_has_a_source_and_a_direction():
    for metric in compared_metrics():
        assert metric.reference and metric.direction in ("higher", "lower")


def test_every_measured_metric_has_one_column_in_the_tables():
    columns = [metric.name for group in BOARDS for metric in metrics_of(group)]
    measured = {name for name, metric in CATALOGUE.items() if not metric.derived and metric.group != "other"}
    assert set(columns) == measured and len(columns) == len(set(columns))


@pytest.mark.parametrize("number", range(len(GROUPS)))
def test_the_glossary_explains_every_column_once_and_fills_in_the_settings(number):
    group = GROUPS[number]
    rows = glossary(EvaluateParams(headline_percent=37))[number].blocks[1].rows
    leading = {m.term or m.heading for m in CATALOGUE.values() if m.group == group and not m.explained_with}
    assert {name for name, _, _ in rows} == leading and len(rows) == len(leading)
    assert not any("{" in meaning for _, meaning, _ in rows)
    with_others = {m.explained_with for m in CATALOGUE.values() if m.group == group} - {""}
    assert all(CATALOGUE[name].group == group and not CATALOGUE[name].explained_with for name in with_others)


def test_times_and_memory_are_all_that_depends_on_the_machine():
    actual = {name for name, metric in CATALOGUE.items() if metric.of_machine}
    assert actual == {"throughput", "relative_throughput", "time", "peak_memory_mb", "training_seconds"}

"""A metric is declared once, and everything else that knows it follows from its entry."""

from itertools import chain

from explearn.metrics.params import EvaluateParams
from explearn.metrics.registry import CATALOGUE
from explearn.report.columns import metrics_of
from explearn.report.page import glossary
from explearn.report.task_sections import BOARDS


def test_every_metric_that_methods_are_compared_by_has_a_source_and_a_direction():
    for metric in filter(lambda metric: metric.compared, CATALOGUE.values()):
        assert metric.reference and metric.direction in ("higher", "lower")


def test_every_measured_metric_has_one_column_in_the_tables():
    columns = [metric.name for metric in chain(*map(metrics_of, chain(*BOARDS.values())))]
    measured = {name for name, metric in CATALOGUE.items() if not metric.derived and metric.group != "other"}
    assert set(columns) == measured and len(columns) == len(set(columns))


def test_the_glossary_explains_every_column_once_and_fills_in_the_settings():
    _, table = glossary(EvaluateParams(headline_percent=37)).blocks
    explained = [name for name, _, _ in table.rows]
    leading = {m.term or m.heading for m in CATALOGUE.values() if m.group != "other" and not m.explained_with}
    assert set(explained) == leading and not any("{" in meaning for _, meaning, _ in table.rows)
    for metric in CATALOGUE.values():
        if metric.explained_with and metric.group != "other":
            explaining = CATALOGUE[metric.explained_with]
            assert explaining.group == metric.group and not explaining.explained_with

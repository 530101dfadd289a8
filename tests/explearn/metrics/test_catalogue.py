"""A metric is declared once, and everything else that knows it follows from its entry."""

from explearn.metrics.registry import CATALOGUE


def test_every_metric_that_methods_are_compared_by_has_a_source_and_a_direction():
    for metric in filter(lambda metric: metric.compared, CATALOGUE.values()):
        assert metric.reference and metric.direction in ("higher", "lower")

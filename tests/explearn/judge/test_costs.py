"""Figures of time and memory, apart from those that every machine gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explearn.core.errors import DataError
from explearn.judge.catalogue import CATALOGUE
from explearn.judge.costs import join_costs, of_machine, split_costs

ROW = {"f1": 0.5, "f1_low": None, "throughput": 12.5, "forward_passes": 3.0, "peak_memory_mb": None, "texts": 4}


def test_times_and_memory_are_taken_out_and_passes_stay():
    figures, costs = split_costs({"lime": ROW})
    assert figures == {"lime": {"f1": 0.5, "f1_low": None, "forward_passes": 3.0, "texts": 4}}
    assert costs == {"lime": {"throughput": 12.5, "peak_memory_mb": None}}


def test_a_figure_that_the_catalogue_does_not_have_is_no_cost():
    assert not of_machine("student_accuracy") and of_machine("relative_throughput")


names = st.sampled_from([*CATALOGUE, "texts", "f1_low", "student_accuracy"])
values = st.one_of(st.none(), st.integers(), st.floats(allow_nan=False))


@given(st.dictionaries(st.text(), st.dictionaries(names, values)))
def test_joining_gives_back_what_was_split(metrics):
    figures, costs = split_costs(metrics)
    assert list(figures) == list(costs) == list(metrics)
    assert not any(of_machine(name) for row in figures.values() for name in row)
    assert all(of_machine(name) for row in costs.values() for name in row)
    assert join_costs(figures, costs) == metrics


def test_parts_that_do_not_belong_together_are_refused():
    with pytest.raises(DataError, match="not of the same methods \\(cam in one alone\\)"):
        join_costs({"lime": {"f1": 0.5}, "cam": {}}, {"lime": {"throughput": 1.0}})
    with pytest.raises(DataError, match="'lime': 'throughput' is both a figure and a cost"):
        join_costs({"lime": {"throughput": 0.5}}, {"lime": {"throughput": 1.0}})

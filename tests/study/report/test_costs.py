"""Figures of time and memory, apart from those that every machine gives."""

from explearn_study.report.costs import join_costs, split_costs

ROW = {"f1": 0.5, "f1_low": None, "throughput": 12.5, "forward_passes": 3.0, "peak_memory_mb": None, "texts": 4}


def test_times_and_memory_are_taken_out_and_passes_stay():
    figures, costs = split_costs({"lime": ROW})
    assert figures == {"lime": {"f1": 0.5, "f1_low": None, "forward_passes": 3.0, "texts": 4}}
    assert costs == {"lime": {"throughput": 12.5, "peak_memory_mb": None}}


def test_joining_gives_back_what_was_split():
    assert join_costs(*split_costs({"lime": ROW, "cam": {}})) == {"lime": ROW, "cam": {}}

"""Files of attributions: what is known of a run comes back."""

from dataclasses import replace

import pytest
from fakes import attribution

from explearn import DataError
from explearn.core.parquet import write_table
from explearn.core.storage import ATTRIBUTION_SCHEMA
from explearn.metrics.runs import Cost, MethodRun, read_run, write_run

RUN = MethodRun(
    "lime",
    [attribution(("a", "film"), [0.5, -1.0])],
    classifier="abc",
    options={"samples": 9},
    forward_passes=10.0,
    backward_passes=0.0,
    threshold=0.5,
    notes={"seen": [1]},
    cost=Cost(texts=1, seconds=2.0, forward_seconds=0.5, peak_memory_mb=None),
)


@pytest.mark.parametrize("with_cost", [False, True])
def test_a_run_comes_back(tmp_path, with_cost):
    write_run(tmp_path / "run.parquet", RUN, with_cost=with_cost)
    actual = read_run(tmp_path / "run.parquet")
    assert [a.to_dict() for a in actual.attributions] == [a.to_dict() for a in RUN.attributions]
    for name in ("method", "classifier", "options", "forward_passes", "backward_passes", "threshold", "notes"):
        assert getattr(actual, name) == getattr(RUN, name)
    assert actual.cost == (RUN.cost if with_cost else None)
    assert read_run(tmp_path / "run.parquet", attributions=False).attributions == ()


def test_without_its_cost_a_file_does_not_depend_on_the_machine(tmp_path):
    write_run(tmp_path / "one.parquet", RUN)
    write_run(
        tmp_path / "two.parquet", replace(RUN, cost=Cost(texts=1, seconds=9.0, forward_seconds=9.0, peak_memory_mb=9.0))
    )
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()


def test_a_file_of_something_else_is_refused(tmp_path):
    write_table(tmp_path / "x.parquet", [], ATTRIBUTION_SCHEMA, {"method": "lime"})
    with pytest.raises(DataError, match=r"its description, field .classifier.: got none; expected a value"):
        read_run(tmp_path / "x.parquet")

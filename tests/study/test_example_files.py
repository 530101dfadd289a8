"""Texts and marks as files between stages."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from saying import complaint

from explearn import Example, Rationale
from explearn_study.example_files import read_examples, read_rationales, write_examples, write_rationales

EXAMPLES = [
    Example("a", ("two", "words"), "yes", "test", "films"),
    Example("b", ("where",), "answer", "test", "films", ("over", "there"), focus=(1, 2), gaps=("", "", "  ", " ", "")),
]
MARKS = [Rationale("a", "ana", "human", (True, False))]


def test_what_is_written_is_read(tmp_path):
    write_examples(tmp_path / "e.parquet", EXAMPLES)
    write_rationales(tmp_path / "r.parquet", MARKS)
    assert read_examples(tmp_path / "e.parquet") == EXAMPLES
    assert read_rationales(tmp_path / "r.parquet") == MARKS


@pytest.mark.parametrize(
    ("read", "change"),
    [(read_examples, {"words": []}), (read_examples, {"split": "dev"}), (read_rationales, {"kind": "robot"})],
    ids=ascii,
)
def test_a_row_of_another_kind_is_named(tmp_path, read, change):
    write_examples(tmp_path / "e.parquet", EXAMPLES)
    write_rationales(tmp_path / "r.parquet", MARKS)
    path = tmp_path / ("e.parquet" if read is read_examples else "r.parquet")
    table = pq.read_table(path)
    rows = [{**row, **change} for row in table.to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
    complaint(lambda: read(path), f"{path}, row 1")

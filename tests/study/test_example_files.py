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
    ids=["no words", "split", "kind"],
)
def test_a_row_of_another_kind_is_named(tmp_path, read, change):
    write_examples(tmp_path / "e.parquet", EXAMPLES)
    write_rationales(tmp_path / "r.parquet", MARKS)
    path = tmp_path / ("e.parquet" if read is read_examples else "r.parquet")
    table = pq.read_table(path)
    rows = [{**row, **change} for row in table.to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
    complaint(lambda: read(path), f"{path}, row 1")


def test_only_questions_with_known_answers_have_a_column_for_them(tmp_path):
    asked = Example("q", ("who",), "answer", "train", "t", ("a", "fox"), (1, 3))
    other = Example("r", ("who",), "answer", "train", "t", ("a", "fox"))
    write_examples(tmp_path / "q.parquet", [asked, other])
    assert read_examples(tmp_path / "q.parquet") == [asked, other]
    write_examples(tmp_path / "r.parquet", [other])
    assert "answer" not in pq.read_schema(tmp_path / "r.parquet").names


def test_a_mask_that_has_a_gap(tmp_path):
    table = pa.table({"example_id": ["a"] * 2, "annotator": ["x"] * 2, "kind": ["llm"] * 2, "mask": [[True], [None]]})
    pq.write_table(table, tmp_path / "r.parquet")
    complaint(lambda: read_rationales(tmp_path / "r.parquet"), "row 2: field 'mask.0': got nothing")

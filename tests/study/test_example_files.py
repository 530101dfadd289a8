"""Examples and rationales in Parquet files."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from explearn import DataError, Example, Rationale
from explearn_study.example_files import read_examples, read_rationales, write_examples, write_rationales


def test_examples(tmp_path):
    examples = [
        Example("a", ("two", "w\u00f6rds"), "yes", "train", "t"),
        Example("b", ("one",), "no", "train", "t", ("\U0001f600", "pair")),
    ]
    write_examples(tmp_path / "e.parquet", examples)
    assert read_examples(tmp_path / "e.parquet") == examples


def test_questions_keep_their_answers_and_others_have_no_such_column(tmp_path):
    asked = Example("q", ("who",), "answer", "train", "t", ("a", "fox"), (1, 3))
    other = Example("r", ("who",), "answer", "train", "t", ("a", "fox"))
    write_examples(tmp_path / "q.parquet", [asked, other])
    assert read_examples(tmp_path / "q.parquet") == [asked, other]
    write_examples(tmp_path / "r.parquet", [other])
    assert "answer" not in pq.read_schema(tmp_path / "r.parquet").names


def test_rationales(tmp_path):
    rows = [Rationale("a", "one", "human", (True, False)), Rationale("b", "two", "llm", (False, True, True))]
    write_rationales(tmp_path / "r.parquet", rows)
    assert read_rationales(tmp_path / "r.parquet") == rows


def test_a_mask_that_has_a_gap(tmp_path):
    table = pa.table({"example_id": ["a"] * 2, "annotator": ["x"] * 2, "kind": ["llm"] * 2, "mask": [[True], [None]]})
    pq.write_table(table, tmp_path / "r.parquet")
    with pytest.raises(DataError, match=r"row 2: field .mask\.0.: got nothing"):
        read_rationales(tmp_path / "r.parquet")

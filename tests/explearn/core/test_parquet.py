"""Parquet files are read whole, with the columns that they must have, or not at all."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from explearn import DataError
from explearn.core.parquet import iter_rows, make_schema, read_metadata, read_table, write_table

SCHEMA = make_schema(("words",), id=pa.string(), words=pa.list_(pa.string()))
ROWS = [{"id": "a", "words": ["two", "w\u00f6rds"]}, {"id": "b", "words": None}]


def test_what_is_written_is_read(tmp_path):
    write_table(tmp_path / "t.parquet", ROWS, SCHEMA, {"made": "today"})
    assert read_table(tmp_path / "t.parquet", SCHEMA).to_pylist() == ROWS
    assert list(iter_rows(tmp_path / "t.parquet", ["id", "odd"])) == [(1, {"id": "a"}), (2, {"id": "b"})]
    assert read_metadata(tmp_path / "t.parquet") == {"made": "today"}


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
def test_half_a_file(tmp_path, keep):
    path = tmp_path / "t.parquet"
    write_table(path, ROWS, SCHEMA)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(DataError, match=r"t\.parquet: not a whole Parquet file .*; create it again"):
        read_table(path, SCHEMA)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (None, "no such file"),
        ({"id": ["a"], "label": ["x"]}, "column 'words' is missing; expected id, words, got id, label"),
        ({"id": ["a"], "words": ["x"]}, "column 'words' has type string; expected list"),
    ],
)
def test_other_columns_or_no_file(tmp_path, table, said):
    path = tmp_path / "t.parquet"
    if table is not None:
        pq.write_table(pa.table(table), path)
    with pytest.raises(DataError, match=rf"t\.parquet: {said}"):
        read_table(path, SCHEMA)


def test_a_folder_in_place_of_a_file(tmp_path):
    with pytest.raises(DataError, match="is a folder; expected a regular file"):
        read_table(tmp_path, SCHEMA)

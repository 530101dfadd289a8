"""Tables of texts and of rationales, and the files between stages, that cannot be used."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from saying import complaint

from explearn_study.sections import SourceParams
from explearn_study.sources import load_task


def jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


GOOD = [{"id": str(i), "text": f"a warm film number {i}", "label": "no" if i % 2 else "yes"} for i in range(20)]


CUSTOM = {"kind": "files", "adapter": "custom", "columns": {"id": "id", "text": "text"}}


def load(folder, **source):
    return load_task("films", SourceParams.model_validate({**CUSTOM, **source}), folder, 13)


def with_row(**change):
    row = {**GOOD[3], **change}
    return jsonl([*GOOD[:3], {key: value for key, value in row.items() if value is not ...}, *GOOD[4:]])


def with_line(line):
    return jsonl(GOOD[:3]) + line + b"\n" + jsonl(GOOD[4:])


JSONL = {
    "empty": b"",
    "cut short": with_line(b'{"id": "3", "te'),
    "nested": with_line(b'{"id": "3", "text": ' + b"[" * 100_000),
    "no UTF-8": with_line(b'{"id": "3", "text": "\xff\xfe", "label": "no"}'),
    "no text": with_row(text=...),
    "a text that is a list": with_row(text=["a"]),
    "a text with half a character": with_row(text="a \ud800 film"),
    "an id twice": with_row(id="2"),
    "one label alone": jsonl([{**row, "label": "yes"} for row in GOOD]),
    "labels that read the same": jsonl(
        [{**row, "label": "caf\u00e9" if i % 2 else "cafe\u0301"} for i, row in enumerate(GOOD)]
    ),
}


@pytest.mark.parametrize("name", JSONL)
def test_json_lines(tmp_path, name):
    (tmp_path / "films.jsonl").write_bytes(JSONL[name])
    complaint(lambda: load(tmp_path), "films")


CSV = {
    "empty": b"",
    "a column twice": b"id,text,text,label\n1,a,b,yes\n",
    "a cell too many": b"id,text,label\n1,a,yes\n2,b,no,more\n",
    "an open quote": b'id,text,label\n1,"a,yes\n',
    "a cell of a megabyte": b"id,text,label\n1," + b"a " * 500_000 + b",yes\n",
    "a terminal's commands": b"id,text,label\n1,a,yes\n1,\x1b[2Jb,no\n",
}


@pytest.mark.parametrize("name", CSV)
def test_csv(tmp_path, name):
    (tmp_path / "films.csv").write_bytes(CSV[name])
    complaint(lambda: load(tmp_path), "films")


def parquet(**columns):
    base = pa.Table.from_pylist(GOOD).to_pydict()
    return pa.table({**base, **columns})


PARQUET = {
    "a label that is NaN": lambda: parquet(label=[0.0, 1.0, float("nan")] + [1.0] * 17),
    "no rows": lambda: parquet().slice(0, 0),
    "a column twice": lambda: pa.Table.from_arrays(
        [pa.array(["a"]), pa.array(["b"]), pa.array(["1"]), pa.array(["yes"])], names=["text", "text", "id", "label"]
    ),
}


@pytest.mark.parametrize("name", PARQUET)
def test_parquet(tmp_path, name):
    pq.write_table(PARQUET[name](), tmp_path / "films.parquet")
    complaint(lambda: load(tmp_path), "films")


@pytest.mark.parametrize("damage", ["text", "half", "page"])
def test_damaged_parquet(tmp_path, damage):
    path = tmp_path / "films.parquet"
    pq.write_table(parquet(), path)
    raw = path.read_bytes()
    path.write_bytes(
        {
            "text": b"id,text,label\n",
            "half": raw[: len(raw) // 2],
            "page": raw[:20] + b"\xff" * 120 + raw[140:],
        }[damage]
    )
    complaint(lambda: load(tmp_path), "films.parquet")


def test_columns_that_are_not_read_are_not_decoded(tmp_path):
    """A time stamp that no calendar has fails only where somebody asks for it."""
    broken = pa.array([2**60] * 20, pa.timestamp("ms"))
    pq.write_table(parquet(when=broken, picture=[b"\x89PNG"] * 20), tmp_path / "films.parquet")
    assert len(load(tmp_path).examples) == 20


SOURCES = [
    {"path": "none"},
    {"columns": {"id": "nummer", "text": "text"}},
    {"columns": {"text": "text", "mask": "label"}},
    {"labels": ["yes", "no", "caf\u00e9", "cafe\u0301"]},
    {"labels": ["yes", "no"], "label_names": {"1": "perhaps"}},
    {"adapter": "nobody"},
    {"splits": {"train": "a", "test": "b"}},
    {"kind": "hub", "path": "no-such/thing"},
]


@pytest.mark.parametrize("source", SOURCES, ids=lambda value: ascii(value)[:50])
def test_sources(tmp_path, source, hub_cache):
    (tmp_path / "films.jsonl").write_bytes(jsonl(GOOD))
    (tmp_path / "films.txt").write_bytes(b"a film\n")
    complaint(lambda: load(tmp_path, **source))


ROWS = [
    ("sst2", {"text": "a film", "label": 2}),
    ("snli", {"premise": "a", "label": 0}),
    ("squad", {"question": "who", "context": "a man", "answers": {"text": ["man"], "answer_start": [99]}}),
    ("hatexplain", {"tokens": ["a"], "labels": [0, 0, 0], "annotators": [1, 2, 3], "rationales": [[1, 1]]}),
    ("hatexplain", {"post_tokens": ["a"], "annotators": [{"label": 0}], "rationales": []}),
    ("movie_rationales", {"review": "a film", "label": 0, "evidences": "a"}),
    ("corpus", {"task": "films", "split": "train", "words": ["a b"], "label": "x"}),
]


@pytest.mark.parametrize(("adapter", "row"), ROWS, ids=lambda value: ascii(value)[:60])
def test_rows_of_known_data_sets(tmp_path, adapter, row):
    (tmp_path / "films.jsonl").write_bytes(jsonl([row]))
    complaint(lambda: load(tmp_path, adapter=adapter, columns={}), "films")

"""Rationales and files between stages that are not what was expected: a sentence each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from saying import complaint
from table_cases import jsonl

from explearn.core.records import Example
from explearn.core.storage import (
    ATTRIBUTION_SCHEMA,
    read_attributions,
    read_examples,
    read_json,
    read_metadata,
    read_rationales,
)
from explearn_study.sections import RationaleFile
from explearn_study.sources.rationale_files import import_rationales

EXAMPLES = [
    Example("a", ("one", "two"), "yes", "train", "t"),
    Example("b", ("three",), "no", "train", "t", ("four", "five")),
]


MARKS: list[tuple[str, dict[str, Any]]] = [
    ("mask", {}),
    ("mask", {"id": "a"}),
    ("mask", {"id": "a", "rationale": None}),
    ("mask", {"id": "a", "rationale": [1]}),
    ("mask", {"id": "a", "rationale": [1, 2]}),
    ("mask", {"id": "a", "rationale": [1, "x"]}),
    ("mask", {"id": "a", "rationale": [1, 0.5]}),
    ("mask", {"id": "a", "rationale": [[1], [0]]}),
    ("mask", {"id": "a", "rationale": "1 \u00b2"}),
    ("mask", {"id": "a", "rationale": "[1, 0"}),
    ("mask", {"id": "a", "rationale": "[" * 100_000}),
    ("mask", {"id": "a", "rationale": {"0": 1}}),
    ("mask", {"id": "c", "rationale": [1]}),
    ("mask", {"id": None, "rationale": [1]}),
    ("mask", {"id": ["a"], "rationale": [1, 0]}),
    ("mask", {"id": "a", "rationale": [1, 0], "annotator": ["x"]}),
    ("mask", {"id": "a", "rationale": [1, 0], "annotator": {"x": 1}}),
    ("mask", {"id": "a", "rationale": [1, 0], "annotator": "\ud800"}),
    ("mask", {"id": "a", "rationale": [1, 0], "annotator": True}),
    ("mask", {"id": "a", "rationale": [1, 0], "kind": "robot"}),
    ("mask", {"id": "a", "rationale": [1, 0], "kind": ["human"]}),
    ("mask", {"id": "a", "rationale": [1, 0], "words": 3}),
    ("mask", {"id": "a", "rationale": [1, 0], "words": {"one": 1}}),
    ("mask", {"id": "a", "rationale": [1, 0], "words": ["one"]}),
    ("mask", {"id": "a", "rationale": [1, 0], "words": ["one", "deux"]}),
    ("mask", {"id": "a", "rationale": [1, 0], "words": ["one", 2]}),
    ("marked", {"id": "a"}),
    ("marked", {"id": "a", "text": None}),
    ("marked", {"id": "a", "text": 3}),
    ("marked", {"id": "a", "text": "[[one two"}),
    ("marked", {"id": "a", "text": "one]] two"}),
    ("marked", {"id": "a", "text": "[[]] one two"}),
    ("marked", {"id": "a", "text": "[[[[one]]]] two"}),
    ("marked", {"id": "a", "text": "one [[deux]]"}),
    ("marked", {"id": "b", "text": "three", "pair": 4}),
    ("marked", {"id": "b", "text": "three"}),
    ("spans", {"id": "a"}),
    ("spans", {"id": "a", "spans": None}),
    ("spans", {"id": "a", "spans": "0 1"}),
    ("spans", {"id": "a", "spans": [[0]]}),
    ("spans", {"id": "a", "spans": [[1, 1]]}),
    ("spans", {"id": "a", "spans": [[-1, 1]]}),
    ("spans", {"id": "a", "spans": [[0, 10**50]]}),
    ("spans", {"id": "a", "spans": [["0", "1"]]}),
    ("spans", {"id": "a", "spans": [0, 1]}),
    ("spans", {"id": "a", "spans": {"start": 0}}),
    ("spans", {"id": "a", "spans": [[True, 2]]}),
]


@pytest.mark.parametrize(("form", "row"), MARKS, ids=lambda value: ascii(value)[:60])
def test_rationales(tmp_path: Path, form: Any, row: dict[str, Any]) -> None:
    path = tmp_path / "marks.jsonl"
    path.write_bytes(jsonl([row]))
    spec = RationaleFile(path=path.name, format=form, annotator="ana", kind="human")
    complaint(lambda: import_rationales(path, spec, EXAMPLES), str(path), "row 1")


def test_rationales_that_come_twice_or_name_nobody(tmp_path: Path) -> None:
    path = tmp_path / "marks.jsonl"
    path.write_bytes(jsonl([{"id": "a", "rationale": [1, 0]}] * 2))
    complaint(
        lambda: import_rationales(path, RationaleFile(path="m", annotator="ana", kind="human"), EXAMPLES), "row 2"
    )
    complaint(lambda: import_rationales(path, RationaleFile(path="m", annotator="ana"), EXAMPLES), "kind")
    complaint(lambda: import_rationales(path, RationaleFile(path="m", kind="human"), EXAMPLES), "annotator")


class TestBetweenStages:
    def test_examples(self, tmp_path: Path) -> None:
        path = tmp_path / "e.parquet"
        row = {"id": "a", "words": ["w"], "pair": [], "label": "l", "split": "test", "task": "t"}
        changes: list[dict[str, Any]] = [
            {"id": ""},
            {"words": []},
            {"words": ["a b"]},
            {"words": [None]},
            {"words": None},
            {"id": None},
            {"label": None},
            {"split": "dev"},
            {"split": None},
            {"answer": [0, 1]},
            {"answer": [5]},
            {"answer": [1, 2, 3]},
        ]
        for change in changes:
            pq.write_table(pa.Table.from_pylist([{**row, **change}]), path)
            complaint(lambda: read_examples(path), str(path))

    def test_rationales(self, tmp_path: Path) -> None:
        path = tmp_path / "r.parquet"
        row = {"example_id": "a", "annotator": "ana", "kind": "human", "mask": [True, False]}
        changes: list[dict[str, Any]] = [
            {"example_id": "c"},
            {"kind": "robot"},
            {"mask": [True]},
            {"mask": [1, 0]},
            {"mask": None},
            {"mask": [None, True]},
            {"annotator": None},
            {"annotator": ""},
        ]
        for change in changes:
            pq.write_table(pa.Table.from_pylist([{**row, **change}]), path)
            complaint(lambda: read_rationales(path, EXAMPLES), str(path))

    def test_attributions(self, tmp_path: Path) -> None:
        path = tmp_path / "a.parquet"
        row: dict[str, Any] = {name: "x" for name in ATTRIBUTION_SCHEMA.names}
        row |= {"words": ["a"], "scores": [0.5], "tokens": ["a"], "token_scores": [0.5], "probability": 0.5}
        row |= {"signed": True, "unaligned": 0, "completeness_error": None}
        changes: list[dict[str, Any]] = [
            {"scores": [0.5, 1]},
            {"scores": [float("inf")]},
            {"scores": [None]},
            {"scores": None},
            {"words": None},
            {"token_scores": None},
            {"token_scores": [0.5, 0.5]},
            {"token_scores": [float("nan")]},
            {"target": None},
        ]
        for change in changes:
            pq.write_table(pa.Table.from_pylist([{**row, **change}], schema=loose(ATTRIBUTION_SCHEMA)), path)
            complaint(lambda: read_attributions(path), str(path))

    def test_descriptions(self, tmp_path: Path) -> None:
        path = tmp_path / "d.parquet"
        for raw in (b"", b"{", b"[1]", b"\xff", b"3", b"[" * 100_000, b'{"a": NaN}'):
            pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({b"explearn": raw}), path)
            complaint(lambda: read_metadata(path), str(path))

    def test_places(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe.json"
        os.mkfifo(pipe)
        for path in (tmp_path, tmp_path / "none.json", tmp_path / ("x" * 300), tmp_path / "a\x00b", pipe):
            complaint(lambda path=path: read_json(path))
            complaint(lambda path=path: read_examples(path))


def loose(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])

"""Files between stages that were cut, edited or are another's: each is refused by file and field where it is read."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from saying import complaint
from trained_cases import Kept, keep

from explearn import Attribution
from explearn.core.parquet import METADATA_KEY, read_metadata
from explearn.core.storage import ATTRIBUTION_SCHEMA, read_attributions
from explearn_study.example_files import read_examples, read_rationales


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"[" * 100_000, b'{"a": NaN}'])
def test_metadata(tmp_path, raw):
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({METADATA_KEY: raw}), path)
    complaint(lambda: read_metadata(path), str(path))


EXAMPLE = {"id": "a", "words": ["w"], "pair": [], "label": "l", "split": "test", "task": "t"}
RATIONALE = {"example_id": "e0", "annotator": "ana", "kind": "human", "mask": [True, False]}
ATTRIBUTION = Attribution.from_dict({"words": ["a"], "scores": [0.5], "target": "x", "method": "m"}).to_dict()
ATTRIBUTION["probability"] = 0.5

ROWS = [
    (read_examples, EXAMPLE, {"words": []}),
    (read_examples, EXAMPLE, {"split": "dev"}),
    (read_rationales, RATIONALE, {"kind": "robot"}),
    (read_attributions, ATTRIBUTION, {"scores": [float("inf")]}),
]


@pytest.mark.parametrize(("read", "row", "change"), ROWS, ids=[ascii(change) for *_, change in ROWS])
def test_a_row_of_another_kind(tmp_path, read, row, change):
    path = tmp_path / "t.parquet"
    fields = [field.with_nullable(True) for field in ATTRIBUTION_SCHEMA] if row is ATTRIBUTION else None
    pq.write_table(pa.Table.from_pylist([{**row, **change}], schema=fields and pa.schema(fields)), path)
    complaint(lambda: read(path), str(path))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["config.json", "w.safetensors"])
@pytest.mark.parametrize("damage", ["text", "pipe"])
def test_trained_explainers(tmp_path, name, damage):
    folder = tmp_path / "kept"
    keep(folder, {"w": torch.zeros(2)}, more=1)
    assert Kept.from_pretrained(folder).state.record == {"more": 1}
    (folder / name).unlink()
    if damage == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).write_text("[]", encoding="utf-8")
    complaint(lambda: Kept.from_pretrained(folder), str(folder), "expected the folder that its training wrote")

"""Files of the library that were cut, edited or are another's: each is refused by name where it is read."""

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


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"[" * 100_000, b'{"a": NaN}'])
def test_metadata(tmp_path, raw):
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({METADATA_KEY: raw}), path)
    complaint(lambda: read_metadata(path), str(path))


def test_a_score_that_is_not_finite(tmp_path):
    path = tmp_path / "t.parquet"
    row = Attribution.from_dict({"words": ["a"], "scores": [0.5], "target": "x", "method": "m"}).to_dict()
    fields = [field.with_nullable(True) for field in ATTRIBUTION_SCHEMA]
    changed = {**row, "probability": 0.5, "scores": [float("inf")]}
    pq.write_table(pa.Table.from_pylist([changed], schema=pa.schema(fields)), path)
    complaint(lambda: read_attributions(path), str(path))


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

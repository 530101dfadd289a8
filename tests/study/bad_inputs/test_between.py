"""Files between stages that were cut, edited or are another's: each is refused by file and field where it is read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from saying import complaint
from trained_cases import Kept, keep

from explearn.core.attribution import Attribution
from explearn.core.examples import Example
from explearn.core.parquet import METADATA_KEY, parquet_writer, read_metadata
from explearn.core.storage import ATTRIBUTION_SCHEMA, read_attributions
from explearn.lens.features import ExampleFeatures
from explearn.lens.word_signals import SIGNALS, WordSignals
from explearn_study.example_files import read_examples, read_rationales
from explearn_study.feature_files import SIGNAL_SCHEMA, feature_schema, read_features, table_of
from explearn_study.train import check_examples
from explearn_study.workspace import Workspace


def test_the_facts_of_a_task(tmp_path: Path) -> None:
    path = Workspace(tmp_path).examples("films") / "task.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"labels": "yes no", "dropped": {}, "unused_ids": []}', encoding="utf-8")
    complaint(lambda: Workspace(tmp_path).read_labels("films"), str(path), "run the stage prepare again")


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"[" * 100_000, b'{"a": NaN}'])
def test_metadata(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({METADATA_KEY: raw}), path)
    complaint(lambda: read_metadata(path), str(path))


EXAMPLE = {"id": "a", "words": ["w"], "pair": [], "label": "l", "split": "test", "task": "t"}
RATIONALE = {"example_id": "e0", "annotator": "ana", "kind": "human", "mask": [True, False]}
ATTRIBUTION = Attribution.from_dict({"words": ["a"], "scores": [0.5], "target": "x", "method": "m"}).to_dict()
ATTRIBUTION["probability"] = 0.5
EXAMPLES = [Example(f"e{i}", ("a", "film"), "yes", "train", "films") for i in range(3)]

ROWS: list[tuple[Callable[[Path], Any], dict[str, Any], dict[str, Any]]] = [
    (read_examples, EXAMPLE, {"words": []}),
    (read_examples, EXAMPLE, {"id": None}),
    (read_examples, EXAMPLE, {"split": "dev"}),
    (lambda path: read_rationales(path, EXAMPLES), RATIONALE, {"example_id": "other"}),
    (lambda path: read_rationales(path, EXAMPLES), RATIONALE, {"kind": "robot"}),
    (lambda path: read_rationales(path, EXAMPLES), RATIONALE, {"mask": [True]}),
    (read_attributions, ATTRIBUTION, {"scores": [0.5, 1]}),
    (read_attributions, ATTRIBUTION, {"scores": [float("inf")]}),
    (read_attributions, ATTRIBUTION, {"token_scores": None}),
]


@pytest.mark.parametrize(("read", "row", "change"), ROWS, ids=[ascii(change) for *_, change in ROWS])
def test_a_row_of_another_kind(
    tmp_path: Path, read: Callable[[Path], Any], row: dict[str, Any], change: dict[str, Any]
) -> None:
    path = tmp_path / "t.parquet"
    fields = [field.with_nullable(True) for field in ATTRIBUTION_SCHEMA] if row is ATTRIBUTION else None
    pq.write_table(pa.Table.from_pylist([{**row, **change}], schema=fields and pa.schema(fields)), path)
    complaint(lambda: read(path), str(path))


SOURCE = {"classifier": "x", "attended": [0], "layers": 1, "heads": 2, "hidden_size": 4, "texts": 3}


@pytest.fixture
def features(tmp_path: Path) -> Path:
    path = tmp_path / "features.parquet"
    half, words, attention = np.full(2, 0.5, np.float32), np.array([0, 1], np.int32), np.zeros((2, 4), np.float32)
    rows = [ExampleFeatures(example.id, "yes", half, words, attention) for example in EXAMPLES]
    schema = feature_schema(4)
    with parquet_writer(path, schema, SOURCE) as writer:
        writer.write_table(table_of(rows, schema))
    return path


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("word_ids", [[0, 1], [0], [0, 1]], "row 2, field 'attention'"),
        ("word_ids", [[0, 1], [0, -7], [0, 1]], "row 2, field 'word_ids'"),
        ("attention", [[[0.0] * 4] * 2, [[np.nan] * 4] * 2, [[0.0] * 4] * 2], "row 2, field 'attention'"),
        ("probabilities", [[0.5, 0.5], [0.5, np.inf], [0.5, 0.5]], "row 2, field 'probabilities'"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_features(features: Path, column: str, values: list[Any], words: str) -> None:
    table = pq.read_table(features)
    place = table.schema.get_field_index(column)
    kind = table.schema.field(place).type
    changed = table.set_column(place, pa.field(column, kind), pa.array(values, kind))
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), features)
    complaint(lambda: list(read_features(features)), str(features), words)


@pytest.mark.parametrize(("field", "value"), [("heads", [2]), ("attended", 3), ("classifier", None)])
def test_what_features_say_of_themselves(features: Path, field: str, value: Any) -> None:
    table = pq.read_table(features)
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: json.dumps({**SOURCE, field: value})}), features)
    complaint(lambda: list(read_features(features)), str(features), field)


def test_signals_of_other_texts(tmp_path: Path) -> None:
    def read(*texts: tuple[str, tuple[str, ...]]) -> list[WordSignals]:
        scores = np.zeros((2, len(SIGNALS)), np.float32)
        rows = [WordSignals(name, words, "yes", 0.5, scores, "yes") for name, words in texts]
        assert table_of(rows, SIGNAL_SCHEMA).schema.equals(SIGNAL_SCHEMA)
        return list(check_examples(rows, EXAMPLES, tmp_path, lambda text, words: text.words == words))

    assert len(read(("e0", ("a", "film")), ("e2", ("a", "film")))) == 2
    complaint(lambda: read(("e0", ("a", "film")), ("e0", ("a", "film"))), str(tmp_path), "'e0' comes twice")
    complaint(lambda: read(("e0", ("a", "book"))), str(tmp_path), "'e0' has other words")
    complaint(lambda: read(("meals-1", ("a", "film"))), str(tmp_path), "'meals-1' is not of the task")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["config.json", "w.safetensors"])
@pytest.mark.parametrize("damage", ["text", "pipe"])
def test_trained_explainers(tmp_path: Path, name: str, damage: str) -> None:
    folder = tmp_path / "kept"
    keep(folder, {"w": torch.zeros(2)}, more=1)
    assert Kept.from_pretrained(folder).state.record == {"more": 1}
    (folder / name).unlink()
    if damage == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).write_text("[]", encoding="utf-8")
    complaint(lambda: Kept.from_pretrained(folder), str(folder), "expected the folder that its training wrote")

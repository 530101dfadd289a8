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
import tiny
from saying import complaint
from trained_cases import Kept, keep

from explearn.core.errors import ModelError
from explearn.core.records import Example
from explearn.core.shapes import check_shape, read_document
from explearn.core.storage import parquet_writer, read_attributions, read_rationales, write_table
from explearn.core.tables import METADATA_KEY
from explearn.lens.features import ExampleFeatures, feature_schema, read_features
from explearn.lens.text_tables import table_of
from explearn.lens.word_signals import SCHEMA, SIGNALS, WordSignals, read_signals
from explearn.methods.base.learned import TrainedState
from explearn.methods.base.task import Lesson, Lessons
from explearn.model.classifier import Classifier
from explearn.model.finetune import load_encoder
from explearn_study import shapes
from explearn_study.fitting import check_lessons, fitting_features, fitting_signals
from explearn_study.teacher_files import read_lessons
from explearn_study.workspace import Workspace

# ---- documents -------------------------------------------------------------------------------------------------------

FIGURES = {"texts": 4, "f1": 0.5, "auroc": None}
SIMILAR = {"spearman": 0.1, "spearman_low": None, "spearman_high": 0.3, "overlap": 0.5}
CHECKED = {"random_model": {"embeddings": SIMILAR}, "random_labels": None, "max_sensitivity": None, "skipped": ""}
SIDE = {"teacher": 0.1, "student": 0.2, "random": None, "texts": 4, "p_value": None}
POINT = {"marks": 4, "protocol": "universal", "by_draw": {"f1": [0.5, None]}}
POINT |= {f"{name}{end}": 0.5 for name in ("f1_topk", "auroc", "f1") for end in ("", "_low", "_high")}

GOOD: dict[str, tuple[Any, dict[str, Any]]] = {
    "agreement": (shapes.AgreementFile, {"mean_length": 1.5, "positive_rate": None, "kinds": {"human": 3}}),
    "classifier": (shapes.ClassifierFigures, {"validation": None, "test": {"accuracy": 0.5}, "epochs": 2}),
    "explanations": (shapes.Explanations, {"lime": FIGURES}),
    "sanity": (shapes.Sanity, {"texts": 2, "methods": {"lime": CHECKED}}),
    "curve": (shapes.MarksCurve, {"task": "t", "texts": 4, "k": 1, "draws": 1, "points": [POINT]}),
    "transfer": (shapes.Transfer, {"explainer": "x", "criteria": [], "texts": {"a": 1}, "tasks": {"a": {"b": {}}}}),
    "distillation": (
        shapes.Distillation,
        {"task": "t", "teacher": "x", "texts": 4, "formulations": {"ranking": {"f1": SIDE}}, "students": []},
    ),
}

WRONG: list[tuple[str, tuple[str, ...], Any]] = [
    ("agreement", ("mean_length",), "long"),
    ("agreement", ("kinds", "human"), -1),
    ("classifier", ("test", "accuracy"), [0.5]),
    ("classifier", ("validation",), "none"),
    ("explanations", ("lime", "f1"), "0.5"),
    ("explanations", ("lime", "f1"), {}),
    ("explanations", ("lime", "f1"), True),
    ("explanations", ("lime", "texts"), None),
    ("explanations", ("lime",), []),
    ("sanity", ("methods", "lime", "random_model", "embeddings"), {}),
    ("sanity", ("methods", "lime", "skipped"), None),
    ("curve", ("points",), [3]),
    ("curve", ("points",), {}),
    ("transfer", ("tasks", "a", "b"), 0.5),
    ("distillation", ("formulations", "ranking", "f1"), 3),
    ("distillation", ("students",), [[]]),
]


@pytest.mark.parametrize("name", GOOD)
def test_good_documents_pass(name: str) -> None:
    shape, document = GOOD[name]
    assert check_shape(document, shape, "x.json", "again") is document


@pytest.mark.parametrize(("name", "place", "value"), WRONG, ids=lambda value: ascii(value)[:40])
def test_a_value_of_another_kind(tmp_path: Path, name: str, place: tuple[str, ...], value: Any) -> None:
    shape, document = GOOD[name]
    changed = json.loads(json.dumps(document))
    at = changed
    for part in place[:-1]:
        at = at[part]
    at[place[-1]] = value
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(changed), encoding="utf-8")
    complaint(lambda: read_document(path, shape, "evaluate"), str(path), ".".join(place), "expected", "stage evaluate")


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("root", [None, 3, "x", [], [{"a": 1}]], ids=ascii)
def test_a_document_of_another_kind(tmp_path: Path, name: str, root: Any) -> None:
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(root), encoding="utf-8")
    complaint(lambda: read_document(path, GOOD[name][0], "evaluate"), str(path), "an object")


@pytest.mark.parametrize("facts", [[], {}, {"labels": "yes no", "dropped": {}, "unused_ids": []}, {"labels": [1]}])
def test_the_facts_of_a_task(tmp_path: Path, facts: Any) -> None:
    path = Workspace(tmp_path).examples("films") / "task.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(facts), encoding="utf-8")
    complaint(lambda: Workspace(tmp_path).read_labels("films"), str(path), "run the stage prepare again")


# ---- tables ----------------------------------------------------------------------------------------------------------

EXAMPLES = [Example(f"e{i}", ("a", "film"), "yes", "train", "films") for i in range(3)]


def replaced(path: Path, column: str, values: list[Any], kind: pa.DataType | None = None) -> None:
    """Give a column of a Parquet file other values, nulls allowed."""
    table = pq.read_table(path)
    place = table.schema.get_field_index(column)
    kind = kind or table.schema.field(place).type
    found = table.set_column(place, pa.field(column, kind), pa.array(values, kind))
    pq.write_table(found.replace_schema_metadata(table.schema.metadata), path)


@pytest.fixture
def signals(tmp_path: Path) -> Path:
    path = tmp_path / "train.parquet"
    rows = [WordSignals(e.id, e.words, "yes", 0.5, np.zeros((2, len(SIGNALS)), np.float32), "yes") for e in EXAMPLES]
    with parquet_writer(path, SCHEMA, {"classifier": "x", "signals": list(SIGNALS), "texts": 3}) as writer:
        writer.write_table(table_of(rows, SCHEMA))
    return path


SOURCE = {"classifier": "x", "attended": [0], "layers": 1, "heads": 2, "hidden_size": 4, "texts": 3}


@pytest.fixture
def features(tmp_path: Path) -> Path:
    path = tmp_path / "features.parquet"
    rows = [
        ExampleFeatures(
            e.id, "yes", np.array([0.5, 0.5], np.float32), np.array([0, 1], np.int32), np.zeros((2, 4), np.float32)
        )
        for e in EXAMPLES
    ]
    schema = feature_schema(4)
    with parquet_writer(path, schema, SOURCE) as writer:
        writer.write_table(table_of(rows, schema))
    return path


ROW = [[0.0] * len(SIGNALS)] * 2

OF_SIGNALS: list[tuple[str, list[Any], str]] = [
    ("probability", [0.5, None, 0.5], "row 2, field 'probability'"),
    ("probability", [0.5, 0.5, 7.0], "row 3"),
    ("words", [["a", "film"], ["a", None], ["a", "film"]], "row 2, field 'words'"),
    ("words", [["a", "film"], ["a", "book"], ["a", "film"]], "other words"),
    ("scores", [ROW, None, ROW], "row 2, field 'scores'"),
    ("scores", [ROW, ROW[:1], ROW], "row 2, field 'scores'"),
    ("scores", [ROW, ROW, [[np.inf] * len(SIGNALS)] * 2], "row 3"),
    ("example_id", ["e0", "e0", "e2"], "comes twice"),
    ("example_id", ["e0", "other", "e2"], "none of the task's"),
]


@pytest.mark.parametrize(("column", "values", "words"), OF_SIGNALS, ids=lambda value: ascii(value)[:30])
def test_signals(signals: Path, column: str, values: list[Any], words: str) -> None:
    assert len(list(fitting_signals(read_signals(signals), EXAMPLES, signals))) == 3
    replaced(signals, column, values)
    complaint(lambda: list(fitting_signals(read_signals(signals), EXAMPLES, signals)), str(signals), words)


OF_FEATURES: list[tuple[str, list[Any], str]] = [
    ("word_ids", [[0, 1], [0], [0, 1]], "row 2, field 'attention'"),
    ("word_ids", [[0, 1], [0, None], [0, 1]], "row 2, field 'word_ids'"),
    ("word_ids", [[0, 1], [0, 9], [0, 1]], "word 10"),
    ("word_ids", [[0, 1], [0, -7], [0, 1]], "row 2, field 'word_ids'"),
    ("attention", [[[0.0] * 4] * 2, [[np.nan] * 4] * 2, [[0.0] * 4] * 2], "row 2, field 'attention'"),
    ("attention", [[[0.0] * 4] * 2, None, [[0.0] * 4] * 2], "row 2, field 'attention'"),
    ("probabilities", [[0.5, 0.5], [0.5, np.inf], [0.5, 0.5]], "row 2, field 'probabilities'"),
    ("example_id", ["e0", "e0", "e2"], "comes twice"),
    ("example_id", ["e0", "meals-1", "e2"], "none of the task's"),
]


@pytest.mark.parametrize(("column", "values", "words"), OF_FEATURES, ids=lambda value: ascii(value)[:30])
def test_features(features: Path, column: str, values: list[Any], words: str) -> None:
    assert len(list(fitting_features(read_features(features), EXAMPLES, features))) == 3
    replaced(features, column, values)
    complaint(lambda: list(fitting_features(read_features(features), EXAMPLES, features)), str(features), words)


@pytest.mark.parametrize(("field", "value"), [("heads", [2]), ("heads", -1), ("attended", 3), ("classifier", None)])
def test_what_features_say_of_themselves(features: Path, field: str, value: Any) -> None:
    table = pq.read_table(features)
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: json.dumps({**SOURCE, field: value})}), features)
    complaint(lambda: list(read_features(features)), str(features), field)


def test_a_mask_with_a_gap_names_its_row(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    rows = [{"example_id": e.id, "annotator": "a", "kind": "human", "mask": [True, False]} for e in EXAMPLES]
    from explearn.core.storage import RATIONALE_SCHEMA

    write_table(path, rows, RATIONALE_SCHEMA)
    replaced(path, "mask", [[True, False], [True, False], [None, False]])
    complaint(lambda: read_rationales(path), str(path), "row 3, field 'mask'")


def test_an_attribution_that_comes_twice(tmp_path: Path, tiny_folder: Path) -> None:
    from explearn import get_explainer
    from explearn.core.storage import ATTRIBUTION_SCHEMA, attribution_row

    found = next(iter(get_explainer("random").explain(tiny.classifier("bert", 3), [EXAMPLES[0]])))
    write_table(tmp_path / "a.parquet", [attribution_row(found)] * 2, ATTRIBUTION_SCHEMA)
    complaint(lambda: read_attributions(tmp_path / "a.parquet"), "row 2", "comes twice")


@pytest.mark.parametrize(
    ("lessons", "words"),
    [
        ([("e0", 2), ("e0", 2)], "comes twice"),
        ([("e0", 3)], "has 3 weights; expected 2"),
        ([("meals-0", 2)], "none of the task's"),
    ],
)
def test_lessons_of_other_texts(lessons: list[tuple[str, int]], words: str) -> None:
    found = Lessons({"train": [Lesson(i, "yes", np.zeros(n)) for i, n in lessons]}, signed=True)
    complaint(lambda: check_lessons(found, EXAMPLES, "data/teachers/films/x"), "data/teachers/films/x", words)


MANIFEST = {"teacher": "x", "options": {}, "classifier": "f", "shards": {"train": []}, "signed": True}


@pytest.mark.parametrize(
    "change", [{"shards": True}, {"shards": {"train": [[None]]}}, {"options": None}, {"signed": "yes"}], ids=ascii
)
def test_manifests_of_teachers(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / "teacher.json").write_text(json.dumps({**MANIFEST, **change}), encoding="utf-8")
    complaint(lambda: read_lessons([tmp_path], "f"), "teacher.json", next(iter(change)))


# ---- models ----------------------------------------------------------------------------------------------------------


def of_trained(folder: Path) -> TrainedState:
    return Kept.from_pretrained(folder).state


def dump(name: str, content: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")

    return change


def pipe(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return change


TRAINED: dict[str, Callable[[Path], None]] = {
    "nothing": dump("config.json", None),
    "a list": dump("config.json", []),
    "no options": dump("config.json", {"explainer": "Kept"}),
    "options in words": dump("config.json", {"explainer": "Kept", "options": "x"}),
    "weights that are text": dump("w.safetensors", "x"),
    "weights that are a pipe": pipe("w.safetensors"),
    "a configuration that is a pipe": pipe("config.json"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", TRAINED)
def test_trained_explainers(tmp_path: Path, name: str) -> None:
    import torch

    folder = tmp_path / "expnet"
    keep(folder, {"w": torch.zeros(2)}, more=1)
    assert of_trained(folder).record == {"more": 1}
    TRAINED[name](folder)
    complaint(lambda: of_trained(folder), str(folder), "expected the folder that its training wrote")


def test_weights_that_are_whole_numbers(tmp_path: Path) -> None:
    import torch

    keep(tmp_path / "e", {"w": torch.zeros(2, dtype=torch.int64)})
    complaint(lambda: of_trained(tmp_path / "e"), "w holds values of kind int64")


DAMAGED: dict[str, Callable[[Path], None]] = {
    "a tokenizer of other bytes": lambda folder: (folder / "tokenizer.json").write_bytes(b"\xff\xfe\x00"),
    "a tokenizer that is nothing": dump("tokenizer.json", None),
    "a tokenizer that is a number": dump("tokenizer.json", 3),
    "settings that are a list": dump("tokenizer_config.json", [{}]),
    "settings nested too deeply": dump("tokenizer_config.json", "[" * 5000 + "]" * 5000),
    "a token that is a list": dump("tokenizer_config.json", {"unk_token": []}),
    "weights that are text": dump("model.safetensors", "{}"),
    "weights that are a pipe": pipe("model.safetensors"),
    "a tokenizer that is a pipe": pipe("tokenizer.json"),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", DAMAGED)
def test_classifiers_and_encoders(tmp_path: Path, tiny_folder: Path, name: str) -> None:
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(tiny_folder, folder)
    DAMAGED[name](folder)
    complaint(lambda: Classifier.from_pretrained(folder), str(folder), "expected")
    complaint(lambda: load_encoder(str(folder), ["no", "yes"], 64), str(folder), "expected")


def test_a_tokenizer_that_reads_nothing(tmp_path: Path, tiny_folder: Path) -> None:
    import shutil

    shutil.copytree(tiny_folder, tmp_path / "model")
    path = tmp_path / "model" / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_max_length": -1}), encoding="utf-8")
    with pytest.raises(ModelError, match=r"model_max_length is -1; expected 1 or more"):
        Classifier.from_pretrained(tmp_path / "model").encode(["a film"])

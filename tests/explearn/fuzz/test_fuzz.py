"""Whatever the bytes: a reader, an importer or the aligner gives what it promises, or one clear sentence.

`make fuzz` runs these for five minutes, with other examples each time; here each draws some tens.
"""

from __future__ import annotations

import csv
import io
import json
import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from fuzz_cases import any_text, fuzz, json_values, one_sentence
from hypothesis import given
from hypothesis import strategies as st
from parameter_cases import BASE
from saying import check_sentence

from explearn.core.documents import MAX_DEPTH, parse_json, parse_yaml
from explearn.core.records import Example
from explearn.core.storage import read_attributions, read_examples, read_metadata, read_rationales, write_examples
from explearn.core.visible import visible, visible_json
from explearn.text.params import SourceParams
from explearn_study.annotate.llm.cache import read_answers
from explearn_study.annotate.people.imports import import_marks
from explearn_study.annotate.people.sheets import COLUMNS as SHEET_COLUMNS
from explearn_study.annotate.people.sheets import read_sheet
from explearn_study.params import load_params
from explearn_study.report.gate import check, load_gate
from explearn_study.sections import RationaleFile
from explearn_study.sources import load_task
from explearn_study.sources.rationale_files import COLUMNS as RATIONALE_COLUMNS
from explearn_study.sources.rationale_files import import_rationales

TEXTS = [Example("a", ("one", "two"), "yes", "train", "t"), Example("b", ("three",), "no", "train", "t", ("four",))]


def rows(*columns: str) -> st.SearchStrategy[dict[str, Any]]:
    """Objects of the columns that a reader knows, some left out, with values of any kind."""
    keys = st.sampled_from(columns)
    return st.dictionaries(keys, json_values(keys), max_size=len(columns))


@contextmanager
def a_file(name: str, content: bytes | str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        yield path


def damaged(raw: bytes, places: list[tuple[int, int]]) -> bytes:
    changed = bytearray(raw)
    for place, byte in places:
        changed[place % len(changed)] = byte
    return bytes(changed)


damage = st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 255)), min_size=1, max_size=8)


class TestDocuments:
    @fuzz
    @given(st.binary(max_size=60) | st.text(max_size=60) | st.text("[]{}:,-&*!?'\"#|>% \n019ae.x_", max_size=40))
    def test_yaml(self, content: bytes | str) -> None:
        try:
            parse_yaml(content)
        except ValueError as error:
            check_sentence(str(error))

    @fuzz
    @given(json_values(st.text(max_size=4)))
    def test_yaml_is_what_the_library_reads(self, value: Any) -> None:
        written = yaml.safe_dump(value)
        try:
            found = parse_yaml(written)
        except ValueError as error:
            check_sentence(str(error))
            return
        assert found == yaml.safe_load(written) or "nan" in written

    @fuzz
    @given(st.binary(max_size=60) | st.text(max_size=60) | st.text('[]{}:,"0189.eE-tru fals\\ud', max_size=40))
    def test_json(self, content: bytes | str) -> None:
        try:
            found = parse_json(content)
        except ValueError as error:
            check_sentence(visible(str(error)))
        else:
            assert depth(found) <= MAX_DEPTH

    @fuzz
    @given(json_values(st.text(max_size=4)))
    def test_json_comes_back(self, value: Any) -> None:
        if finite(value):
            assert parse_json(json.dumps(value)) == value
            line = visible_json(value)
            assert "\n" not in line and parse_json(line) == value

    @fuzz
    @given(st.sampled_from([*BASE, "finetune", "evaluate", "rationales", "baselines", "expnet", "seed"]), st.data())
    def test_parameters(self, name: str, data: st.DataObject) -> None:
        keys = st.sampled_from(["films", "kind", "path", "llm", "epochs", "quick", "rollout", "of", "hidden", "x"])
        values = {**BASE, name: data.draw(json_values(keys))}
        with a_file("params.yaml", yaml.safe_dump(values, allow_unicode=False)) as path, one_sentence():
            load_params(path)

    @fuzz
    @given(rows("rules"), json_values(st.sampled_from(["headline", "tasks", "f1", "a"])))
    def test_gate(self, rules: Any, metrics: Any) -> None:
        with a_file("gate.yaml", yaml.safe_dump(rules)) as path, one_sentence():
            check(load_gate(path), {"reports/metrics.json": metrics}, {})


def depth(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inside is None else 1 + max(map(depth, inside), default=0)


def finite(value: Any) -> bool:
    if isinstance(value, (dict, list)):
        return all(map(finite, value.values() if isinstance(value, dict) else value))
    return not (isinstance(value, float) and not math.isfinite(value)) and not (
        isinstance(value, int) and abs(value) >= 10**100
    )


ADAPTERS: dict[str, tuple[str, ...]] = {
    "custom": ("id", "text", "label"),
    "sst2": ("id", "idx", "text", "label"),
    "snli": ("premise", "hypothesis", "label"),
    "squad": ("id", "question", "context", "answers", "text", "answer_start"),
    "hatexplain": ("id", "tokens", "label", "labels", "annotators", "annotator_id", "rationales", "text"),
    "movie_rationales": ("review", "label", "evidences"),
    "corpus": ("id", "task", "split", "words", "label", "annotations", "annotator", "rationale"),
}


def load(path: Path, adapter: str) -> None:
    columns = {"id": "id", "text": "text"} if adapter == "custom" else {}
    source = SourceParams.model_validate({"kind": "files", "adapter": adapter, "columns": columns})
    found = load_task("films", source, path.parent, 13)
    assert all(example.words and example.label in found.labels for example in found.examples)


class TestSources:
    @pytest.mark.parametrize("adapter", ADAPTERS)
    @fuzz
    @given(data=st.data())
    def test_rows(self, adapter: str, data: st.DataObject) -> None:
        drawn = data.draw(st.lists(rows(*ADAPTERS[adapter]), max_size=4))
        lines = "".join(json.dumps(row) + "\n" for row in drawn)
        with a_file("films.jsonl", lines) as path, one_sentence():
            load(path, adapter)

    @fuzz
    @given(st.binary(max_size=80) | st.text('id,text,label"\n\r ;01\x00', max_size=80))
    def test_csv(self, content: bytes | str) -> None:
        head = b"id,text,label\n"
        raw = content if isinstance(content, bytes) else content.encode()
        for written in (raw, head + raw):
            with a_file("films.csv", written) as path, one_sentence():
                load(path, "custom")

    @fuzz
    @given(st.lists(st.tuples(any_text, any_text, any_text), max_size=6))
    def test_csv_of_any_cells(self, cells: list[tuple[str, str, str]]) -> None:
        written = io.StringIO()
        csv.writer(written).writerows([("id", "text", "label"), *cells])
        with a_file("films.csv", written.getvalue()) as path, one_sentence():
            load(path, "custom")

    @fuzz
    @given(st.data())
    def test_parquet_of_any_types(self, data: st.DataObject) -> None:
        kinds = [pa.string(), pa.large_string(), pa.binary(), pa.int64(), pa.float64(), pa.bool_(), pa.null()]
        kinds += [pa.list_(pa.string()), pa.struct([("a", pa.string())]), pa.timestamp("ns"), pa.date64()]
        kinds += [pa.decimal128(20, 2), pa.dictionary(pa.int32(), pa.string()), pa.list_(pa.list_(pa.int32()))]
        columns = {}
        for name in data.draw(st.lists(st.sampled_from(["id", "text", "label", "more"]), unique=True, min_size=1)):
            kind = data.draw(st.sampled_from(kinds))
            columns[name] = data.draw(
                st.lists(values_of(kind), min_size=3, max_size=3).map(lambda v, k=kind: pa.array(v, k))
            )
        buffer = io.BytesIO()
        pq.write_table(pa.table(columns), buffer)
        with a_file("films.parquet", buffer.getvalue()) as path, one_sentence():
            load(path, "custom")


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    plain = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        return st.none() | plain | st.sampled_from(["yes", "no"])
    if pa.types.is_binary(kind):
        return st.none() | st.binary(max_size=6)
    if pa.types.is_boolean(kind):
        return st.none() | st.booleans()
    if pa.types.is_floating(kind):
        return st.none() | st.floats()
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        most = 2 ** (kind.bit_width - 2)
        return st.none() | st.integers(-most, most)
    if pa.types.is_date(kind):
        return st.none() | st.integers(-1000, 1000).map(lambda days: days * 86_400_000)
    if pa.types.is_decimal(kind):
        return st.none() | st.decimals(-1000, 1000, places=2)
    if pa.types.is_struct(kind):
        return st.none() | st.fixed_dictionaries({"a": plain})
    if pa.types.is_list(kind):
        return st.none() | st.lists(values_of(kind.value_type), max_size=3)
    return st.none()


class TestBetweenStages:
    @fuzz
    @given(damage, st.integers(0, 400))
    def test_a_damaged_file(self, places: list[tuple[int, int]], cut: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "e.parquet"
            write_examples(path, TEXTS)
            raw = path.read_bytes()
            path.write_bytes(damaged(raw, places)[: len(raw) - cut if cut < 200 else None])
            readers: list[Callable[[Path], Any]] = [read_examples, read_rationales, read_attributions, read_metadata]
            for read in readers:
                with one_sentence():
                    read(path)

    @fuzz
    @given(st.lists(st.binary(max_size=40) | rows("key", "model", "content").map(lambda row: json.dumps(row).encode())))
    def test_kept_answers(self, lines: list[bytes]) -> None:
        with a_file("answers.jsonl", b"\n".join(lines) + b"\n") as path, one_sentence():
            list(read_answers(path))


class TestImports:
    @pytest.mark.parametrize("form", ["mask", "marked", "spans"])
    @fuzz
    @given(drawn=st.lists(rows(*RATIONALE_COLUMNS), min_size=1, max_size=3))
    def test_rationales(self, form: Any, drawn: list[dict[str, Any]]) -> None:
        lines = "".join(json.dumps({"id": "a", **row}) + "\n" for row in drawn)
        spec = RationaleFile(path="m.jsonl", format=form, annotator="ana", kind="human")
        with a_file("m.jsonl", lines) as path, one_sentence():
            for found in import_rationales(path, spec, TEXTS):
                assert len(found.mask) == 2

    @fuzz
    @given(st.data())
    def test_label_studio(self, data: st.DataObject) -> None:
        keys = ("start", "end", "text", "labels", "result", "value", "annotations", "completed_by", "annotator", "id")
        task = data.draw(rows("data", *keys))
        results = data.draw(st.lists(rows(*keys), max_size=2))
        made = {"data": {"text": "one two"}, "annotations": [{"result": [{"value": value} for value in results]}]}
        for document in ([task], [{"data": {"text": "one two"}, **task}], [made], task):
            with a_file("e.json", json.dumps(document)) as path, one_sentence():
                import_marks(path, "label-studio", TEXTS, evidence=["e"])

    @fuzz
    @given(rows("text", "label", "entities", "start_offset", "end_offset", "annotator", "id"))
    def test_doccano(self, row: dict[str, Any]) -> None:
        for made in (row, {**row, "text": "one two"}):
            with a_file("e.jsonl", json.dumps(made)) as path, one_sentence():
                import_marks(path, "doccano", TEXTS, evidence=["e"])

    @fuzz
    @given(st.text(max_size=40) | st.text("T1\t e;0123456789one-\r\n", max_size=40).map("T1\te ".__add__))
    def test_brat(self, lines: str) -> None:
        with a_file("e.ann", lines) as path, one_sentence():
            path.with_suffix(".txt").write_text("one two", encoding="utf-8")
            import_marks(path.parent, "brat", TEXTS, with_empty=True)

    @fuzz
    @given(rows(*SHEET_COLUMNS), st.sampled_from(["mark", "check", "adjudicate"]))
    def test_sheets(self, row: dict[str, Any], kind: str) -> None:
        for made in (row, {"sheet": kind, "id": "a", "shown": "0 0", **row}):
            with a_file("e.jsonl", json.dumps(made)) as path, one_sentence():
                read_sheet(path, TEXTS, "ana")

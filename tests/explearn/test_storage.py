from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from explearn.core import storage
from explearn.core.errors import DataError
from explearn.core.records import Attribution, Example, Rationale
from explearn.core.storage import (
    ATTRIBUTION_SCHEMA,
    EXAMPLE_SCHEMA,
    atomic_folder,
    atomic_path,
    attribution_row,
    parquet_writer,
    read_attributions,
    read_examples,
    read_json,
    read_jsonl,
    read_metadata,
    read_rationales,
    read_task_examples,
    write_examples,
    write_json,
    write_rationales,
    write_table,
    write_text,
)

EXAMPLES = [
    Example("a", ("two", "w\u00f6rds"), "yes", "train", "t"),
    Example("b", ("one",), "no", "train", "t", ("\U0001f600", "pair")),
]


def attribution(**change: Any) -> Attribution:
    values: dict[str, Any] = {
        "words": ("a", "b"),
        "scores": np.array([0.5, -1], np.float32),
        "tokens": ("a",),
        "token_scores": np.array([0.5], np.float32),
        "target": "yes",
        "method": "m",
        "probability": 0.75,
        "predicted": "no",
        "aggregation": "sum",
        "signed": True,
        "unaligned": 1,
        "example_id": "x",
    }
    return Attribution(**{**values, **change})


def write_attribution(path: Path, *rows: Attribution) -> Path:
    write_table(path, [attribution_row(row) for row in rows], ATTRIBUTION_SCHEMA)
    return path


class TestRoundTrips:
    def test_examples(self, tmp_path: Path) -> None:
        write_examples(tmp_path / "e.parquet", EXAMPLES)
        assert read_examples(tmp_path / "e.parquet") == EXAMPLES

    def test_questions_keep_their_answers_and_others_have_no_such_column(self, tmp_path: Path) -> None:
        asked = Example("q", ("who",), "answer", "train", "t", ("a", "fox"), (1, 3))
        other = Example("r", ("who",), "answer", "train", "t", ("a", "fox"))
        write_examples(tmp_path / "q.parquet", [asked, other])
        assert read_examples(tmp_path / "q.parquet") == [asked, other]
        write_examples(tmp_path / "r.parquet", [other])
        assert "answer" not in pq.read_schema(tmp_path / "r.parquet").names

    def test_no_examples(self, tmp_path: Path) -> None:
        write_examples(tmp_path / "e.parquet", [])
        assert read_examples(tmp_path / "e.parquet") == []

    def test_all_splits_of_a_task_in_their_order(self, tmp_path: Path) -> None:
        for split in ("test", "train", "validation"):
            write_examples(tmp_path / f"{split}.parquet", [Example(split, ("w",), "l", split, "t")])
        assert [e.id for e in read_task_examples(tmp_path)] == ["train", "validation", "test"]

    def test_rationales(self, tmp_path: Path) -> None:
        rows = [Rationale("a", "one", "human", (True, False)), Rationale("b", "two", "llm", (False, True, True))]
        write_rationales(tmp_path / "r.parquet", rows)
        assert read_rationales(tmp_path / "r.parquet", EXAMPLES) == rows

    def test_attributions(self, tmp_path: Path) -> None:
        (found,) = read_attributions(write_attribution(tmp_path / "a.parquet", attribution()))
        assert found.to_record() == attribution().to_record()
        assert found.scores.dtype == np.float32

    def test_row_groups_stay_small(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(storage, "ROWS_PER_GROUP", 2)
        write_examples(tmp_path / "e.parquet", [Example(str(i), ("w",), "l", "test", "t") for i in range(5)])
        file = pq.ParquetFile(tmp_path / "e.parquet")
        assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [2, 2, 1]
        assert [e.id for e in read_examples(tmp_path / "e.parquet")] == list("01234")

    def test_metadata_lie_in_the_file(self, tmp_path: Path) -> None:
        write_table(tmp_path / "a.parquet", [], EXAMPLE_SCHEMA, {"n": 1})
        write_examples(tmp_path / "b.parquet", [])
        assert [read_metadata(tmp_path / f"{name}.parquet") for name in "ab"] == [{"n": 1}, {}]

    def test_json_keeps_its_order_and_its_letters(self, tmp_path: Path) -> None:
        write_json(tmp_path / "j.json", {"b": 1, "a": "\u00e9"})
        assert (tmp_path / "j.json").read_text(encoding="utf-8") == '{\n  "b": 1,\n  "a": "\u00e9"\n}\n'
        assert read_json(tmp_path / "j.json") == {"b": 1, "a": "\u00e9"}

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_json_takes_no_number_that_readers_disagree_on(self, tmp_path: Path, value: float) -> None:
        with pytest.raises(DataError, match=r"j\.json, tasks\.1\.f1: got (nan|inf); expected a finite number"):
            write_json(tmp_path / "j.json", {"tasks": [{"f1": 1.0}, {"f1": value}]})
        assert list(tmp_path.iterdir()) == []


class TestDamage:
    @pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
    def test_half_a_parquet_file(self, tmp_path: Path, keep: float) -> None:
        path = tmp_path / "e.parquet"
        write_examples(path, EXAMPLES)
        content = path.read_bytes()
        path.write_bytes(content[: int(keep * len(content))])
        with pytest.raises(DataError, match=r"e\.parquet: not a whole Parquet file .*; create it again"):
            read_examples(path)

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"e\.parquet: no such file"):
            read_examples(tmp_path / "e.parquet")

    def test_a_missing_column(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"id": ["a"], "label": ["x"]}), tmp_path / "e.parquet")
        with pytest.raises(DataError, match=r"column 'words' is missing; expected id, words, .*, got id, label"):
            read_examples(tmp_path / "e.parquet")

    def test_a_column_of_another_type(self, tmp_path: Path) -> None:
        write_examples(tmp_path / "e.parquet", EXAMPLES)
        table = pq.read_table(tmp_path / "e.parquet")
        table = table.set_column(table.schema.get_field_index("label"), "label", pa.array([0, 1]))
        pq.write_table(table, tmp_path / "e.parquet")
        with pytest.raises(DataError, match="column 'label' has type int64; expected string"):
            read_examples(tmp_path / "e.parquet")

    def test_more_columns_do_no_harm(self, tmp_path: Path) -> None:
        write_examples(tmp_path / "e.parquet", EXAMPLES)
        table = pq.read_table(tmp_path / "e.parquet").append_column("extra", pa.array([1, 2]))
        pq.write_table(table, tmp_path / "e.parquet")
        assert read_examples(tmp_path / "e.parquet") == EXAMPLES

    def test_an_id_that_comes_twice(self, tmp_path: Path) -> None:
        write_examples(tmp_path / "e.parquet", [EXAMPLES[0], EXAMPLES[0]])
        with pytest.raises(DataError, match="row 2, field 'id': 'a' comes twice; expected unique ids"):
            read_examples(tmp_path / "e.parquet")

    @pytest.mark.parametrize(
        ("rationale", "words"),
        [
            (Rationale("a", "one", "human", (True,)), "row 1: field 'mask' of example 'a' has 1 entries; expected 2"),
            (Rationale("z", "one", "human", (True,)), "row 1: field 'example_id': no example 'z'"),
        ],
    )
    def test_a_rationale_that_does_not_fit(self, tmp_path: Path, rationale: Rationale, words: str) -> None:
        write_rationales(tmp_path / "r.parquet", [rationale])
        with pytest.raises(DataError, match=words):
            read_rationales(tmp_path / "r.parquet", EXAMPLES)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"scores": np.array([1.0], np.float32)}, "field 'scores' has 1 entries; expected 2, one per word"),
            ({"scores": np.array([1.0, np.inf], np.float32)}, "field 'scores' holds a value that is not finite"),
        ],
    )
    def test_an_attribution_that_does_not_fit(self, tmp_path: Path, change: dict[str, Any], words: str) -> None:
        path = write_attribution(tmp_path / "a.parquet", attribution(), attribution(**change))
        with pytest.raises(DataError, match=f"row 2, {words}"):
            read_attributions(path)

    @pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b""])
    def test_no_json(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "j.json").write_bytes(content)
        with pytest.raises(DataError, match=r"j\.json: not valid JSON"):
            read_json(tmp_path / "j.json")

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "got lists or objects inside one another beyond"),
            (b'{"a": ' + b"7" * 5000 + b"}", "got a whole number too long to be read; expected at most 100 digits"),
        ],
        ids=["deep", "long"],
    )
    def test_json_that_python_does_not_read(self, tmp_path: Path, content: bytes, words: str) -> None:
        (tmp_path / "j.json").write_bytes(content)
        with pytest.raises(DataError, match=rf"j\.json: {words}"):
            read_json(tmp_path / "j.json")
        (tmp_path / "l.jsonl").write_bytes(b'{"a": 1}\n' + content + b"\n")
        with pytest.raises(DataError, match=rf"l\.jsonl, row 2: {words}"):
            list(read_jsonl(tmp_path / "l.jsonl"))

    @pytest.mark.parametrize("read", [read_json, read_examples, lambda path: list(read_jsonl(path))])
    def test_a_folder_in_place_of_a_file(self, tmp_path: Path, read: Callable[[Path], object]) -> None:
        with pytest.raises(DataError):
            read(tmp_path)

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            (b'{"a": \xff}', "row 3: byte 6 is not valid UTF-8"),
            (b"{", "row 3: not valid JSON"),
            (b"[1]", "row 3: got list; expected a JSON object"),
        ],
    )
    def test_a_line_is_named_by_its_number(self, tmp_path: Path, line: bytes, words: str) -> None:
        (tmp_path / "l.jsonl").write_bytes(b'{"a": 1}\n\n' + line + b"\n")
        with pytest.raises(DataError, match=words):
            list(read_jsonl(tmp_path / "l.jsonl"))

    def test_blank_lines_and_a_byte_order_mark_are_no_rows(self, tmp_path: Path) -> None:
        (tmp_path / "l.jsonl").write_bytes(b'\xef\xbb\xbf{"a": 1}\n\n{"a": 2}')
        assert list(read_jsonl(tmp_path / "l.jsonl")) == [(1, {"a": 1}), (3, {"a": 2})]


class TestAtomicFiles:
    def test_an_exception_leaves_the_old_file(self, tmp_path: Path) -> None:
        write_text(tmp_path / "f.txt", "old")
        with pytest.raises(KeyboardInterrupt), atomic_path(tmp_path / "f.txt") as partial:
            partial.write_text("ne")
            raise KeyboardInterrupt
        assert [p.name for p in tmp_path.iterdir()] == ["f.txt"]
        assert (tmp_path / "f.txt").read_text() == "old"

    def test_an_exception_before_the_first_file_leaves_none(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="broken"), parquet_writer(tmp_path / "f.parquet", EXAMPLE_SCHEMA):
            raise ValueError("broken")
        assert list(tmp_path.iterdir()) == []

    def test_the_file_is_not_there_before_the_block_ends(self, tmp_path: Path) -> None:
        with atomic_path(tmp_path / "sub" / "f.txt") as partial:
            partial.write_text("new")
            assert not (tmp_path / "sub" / "f.txt").exists()
        assert (tmp_path / "sub" / "f.txt").read_text() == "new"

    def test_others_may_read_it(self, tmp_path: Path) -> None:
        write_text(tmp_path / "f.txt", "x")
        assert (tmp_path / "f.txt").stat().st_mode & 0o777 == 0o644


class TestAtomicFolders:
    def test_an_exception_leaves_the_old_folder(self, tmp_path: Path) -> None:
        with atomic_folder(tmp_path / "d") as partial:
            (partial / "a").write_text("old")
        with pytest.raises(ValueError, match="broken"), atomic_folder(tmp_path / "d") as partial:
            (partial / "a").write_text("new")
            raise ValueError("broken")
        assert [p.name for p in tmp_path.iterdir()] == ["d"]
        assert (tmp_path / "d" / "a").read_text() == "old"

    def test_the_new_folder_takes_the_place_of_the_old_one(self, tmp_path: Path) -> None:
        for name in ("a", "b"):
            with atomic_folder(tmp_path / "d") as partial:
                (partial / name).write_text(name)
        assert [p.name for p in tmp_path.iterdir()] == ["d"]
        assert [p.name for p in (tmp_path / "d").iterdir()] == ["b"]


KILLED = """
import os, signal
from pathlib import Path
from explearn.core.storage import EXAMPLE_SCHEMA, atomic_folder, parquet_writer, write_examples, write_text
from explearn.core.records import Example
example = Example("new", ("w",), "l", "test", "t")
{work}
os.kill(os.getpid(), signal.SIGKILL)
"""
HALF_WRITTEN = {
    "file": """
with parquet_writer("out.parquet", EXAMPLE_SCHEMA) as writer:
    os.kill(os.getpid(), signal.SIGKILL)
""",
    "folder": """
with atomic_folder("out") as folder:
    write_examples(folder / "test.parquet", [example])
    os.kill(os.getpid(), signal.SIGKILL)
""",
    "folder_about_to_be_put_in_place": """
import explearn.core.writing as writing
os.replace = writing._exchanged = lambda a, b: os.kill(os.getpid(), signal.SIGKILL)
with atomic_folder("out") as folder:
    (folder / "half").touch()
""",
}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.parametrize("work", HALF_WRITTEN)
@pytest.mark.parametrize("old", [False, True], ids=["first_time", "again"])
def test_a_process_killed_while_writing_leaves_nothing_that_looks_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str, old: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    target = Path("out.parquet" if work == "file" else "out")

    def write() -> None:
        if work == "file":
            write_examples(target, EXAMPLES)
        else:
            with atomic_folder(target) as folder:
                write_examples(folder / "test.parquet", EXAMPLES)

    if old:
        write()
    code = KILLED.format(work=HALF_WRITTEN[work])
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False, env={**os.environ})
    assert done.returncode == -signal.SIGKILL
    assert target.exists() is old
    if old:
        assert read_examples(target if work == "file" else target / "test.parquet") == EXAMPLES
    leftovers = [p.name for p in tmp_path.iterdir() if p.name != target.name]
    assert leftovers
    assert all(name.startswith(f".{target.name}.partial-") for name in leftovers)
    write()
    assert [p.name for p in tmp_path.iterdir()] == [target.name]


def test_what_a_killed_neighbour_left_is_not_swept(tmp_path: Path) -> None:
    """Only leftovers of the same target: another process may be writing the others."""
    (tmp_path / ".g.txt.partial-1").touch()
    write_text(tmp_path / "f.txt", "x")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".g.txt.partial-1", "f.txt"]


def test_a_file_s_json_is_readable_by_others(tmp_path: Path) -> None:
    write_json(tmp_path / "j.json", {"a": [1, None]})
    assert json.loads((tmp_path / "j.json").read_bytes()) == {"a": [1, None]}

"""Whole sources: files, folders, the embedded corpus, the hub's layout in a local folder. All texts are invented."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from explearn.core.errors import DataError, ParamsError
from explearn.core.records import Split
from explearn.core.sections import RationaleFile, SourceParams
from explearn.data.agreement import agreement_metrics
from explearn.data.rationales import import_rationales
from explearn.data.sources import TaskData, load_task
from explearn.pipeline.base.params import Params, load_params


def source(**options: Any) -> SourceParams:
    return SourceParams.model_validate({"kind": "files", "adapter": "sst2", **options})


def rows(count: int, start: int = 0, **more: Any) -> list[dict[str, Any]]:
    """Texts with alternating labels, negative first."""
    return [
        {"id": f"x-{n}", "text": f"text number {n}", "label": ("negative", "positive")[n % 2], **more}
        for n in range(start, start + count)
    ]


def write(path: Path, content: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
    elif path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.DictWriter(handle, list(content[0]))
            writer.writeheader()
            writer.writerows(content)
    else:
        pq.write_table(pa.Table.from_pylist(content), path)
    return path


def counts(data: TaskData) -> dict[Split, int]:
    return dict(Counter(example.split for example in data.examples))


def complaint(data_dir: Path, params: SourceParams, task: str = "mine") -> str:
    with pytest.raises(DataError) as caught:
        load_task(task, params, data_dir, seed=13)
    message = str(caught.value)
    assert "\n" not in message
    return message


class TestFiles:
    @pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
    def test_a_folder_has_a_file_for_each_split(self, tmp_path: Path, ending: str) -> None:
        write(tmp_path / f"mine/train.{ending}", rows(6))
        write(tmp_path / f"mine/validation.{ending}", rows(2, 6))
        write(tmp_path / f"mine/test.{ending}", rows(3, 8))
        data = load_task("mine", source(), tmp_path, seed=13)
        assert [e.id for e in data.examples] == [f"x-{n}" for n in range(11)]
        assert [e.split for e in data.examples] == ["train"] * 6 + ["validation"] * 2 + ["test"] * 3
        first = data.examples[0]
        assert (first.words, first.label, first.task) == (("text", "number", "0"), "negative", "mine")
        assert data.labels == ["negative", "positive"]
        assert data.dropped == {}
        assert data.source_ids == {f"x-{n}" for n in range(11)}

    @pytest.mark.parametrize("path", ["mine", "mine.jsonl", None])
    def test_one_file_is_all_train_and_is_split(self, tmp_path: Path, path: str | None) -> None:
        write(tmp_path / "mine.jsonl", rows(100))
        data = load_task("mine", source(path=path), tmp_path, seed=13)
        assert counts(data) == {"train": 70, "validation": 10, "test": 20}
        by_label = Counter((e.split, e.label) for e in data.examples)
        assert by_label["validation", "negative"] == by_label["validation", "positive"] == 5
        assert by_label["test", "negative"] == by_label["test", "positive"] == 10

    def test_splits_name_the_files(self, tmp_path: Path) -> None:
        write(tmp_path / "mine/part_a.jsonl", rows(10))
        write(tmp_path / "mine/validation.csv", rows(4, 10))
        splits = {"train": "part_a", "test": "validation"}
        data = load_task("mine", source(splits=splits, carve_validation=0.2), tmp_path, seed=13)
        assert counts(data) == {"train": 8, "validation": 2, "test": 4}
        assert {e.id for e in data.examples if e.split == "test"} == {"x-10", "x-11", "x-12", "x-13"}

    def test_the_draw_depends_on_seed_and_ids_and_not_on_the_order_of_rows(self, tmp_path: Path) -> None:
        content = rows(60)
        write(tmp_path / "a/mine.jsonl", content)
        write(tmp_path / "b/mine.jsonl", content[::-1])
        params = source(max_examples={"train": 20}, balance=True)

        def drawn(folder: str, seed: int) -> set[tuple[str, str]]:
            return {(e.id, e.split) for e in load_task("mine", params, tmp_path / folder, seed).examples}

        assert drawn("a", 1) == drawn("b", 1)
        assert drawn("a", 1) != drawn("a", 2)

    def test_texts_that_are_not_drawn_are_still_known(self, tmp_path: Path) -> None:
        write(tmp_path / "mine.jsonl", rows(40))
        data = load_task("mine", source(max_examples={"train": 4, "validation": 2, "test": 2}), tmp_path, seed=13)
        assert len(data.examples) == 8
        assert len(data.source_ids) == 40

    def test_rows_without_an_id_get_one(self, tmp_path: Path) -> None:
        content = [{"text": row["text"], "label": row["label"]} for row in rows(4)]
        for name in ("train", "validation", "test"):
            write(tmp_path / f"mine/{name}.csv", content)
        ids = [e.id for e in load_task("mine", source(), tmp_path, seed=13).examples]
        assert ids[:4] == ["mine-train-1", "mine-train-2", "mine-train-3", "mine-train-4"]
        assert ids[-1] == "mine-test-4"

    def test_rationales_of_texts_that_are_not_drawn_are_left_out(self, tmp_path: Path) -> None:
        write(tmp_path / "mine.csv", [{**row, "mask": "0 0 1"} for row in rows(40)])
        params = source(adapter="custom", columns={"text": "text", "mask": "mask"}, max_examples={"train": 6})
        data = load_task("mine", params, tmp_path, seed=13)
        assert [r.example_id for r in data.rationales] == [e.id for e in data.examples]

    def test_labels_of_a_custom_table_are_those_of_train_sorted(self, tmp_path: Path) -> None:
        write(tmp_path / "mine.jsonl", rows(10))
        params = source(adapter="custom", columns={"text": "text"})
        assert load_task("mine", params, tmp_path, seed=13).labels == ["negative", "positive"]

    def test_dropped_rows_are_counted(self, tmp_path: Path) -> None:
        content = [{"premise": "A dog runs", "hypothesis": "It naps", "label": n % 3} for n in range(9)]
        write(tmp_path / "mine.parquet", [*content, {**content[0], "label": -1}, {**content[1], "label": -1}])
        data = load_task("mine", source(adapter="snli"), tmp_path, seed=13)
        assert data.dropped == {"label -1": 2}
        assert len(data.examples) == 9
        assert data.examples[0].pair == ("It", "naps")


class TestBadInput:
    def test_an_empty_text(self, tmp_path: Path) -> None:
        path = write(tmp_path / "mine.csv", [*rows(3), {"id": "x-3", "text": "", "label": "negative"}])
        assert complaint(tmp_path, source()) == (
            f"{path}, row 4, field 'text': got ''; expected a text of at least one word"
        )

    def test_a_word_of_ten_thousand_characters(self, tmp_path: Path) -> None:
        path = write(tmp_path / "mine.jsonl", [{**rows(1)[0], "text": "a " + "b" * 10_000}])
        assert complaint(tmp_path, source()).startswith(f"{path}, row 1, field 'text', word 1 has 10,000 characters")

    def test_an_unknown_label(self, tmp_path: Path) -> None:
        path = write(tmp_path / "mine.jsonl", [*rows(3), {**rows(1)[0], "id": "y", "label": "negativ"}])
        message = complaint(tmp_path, source())
        assert message.startswith(f"{path}, row 4, field 'label': got 'negativ'")
        assert "did you mean negative?" in message

    def test_a_label_that_train_does_not_have(self, tmp_path: Path) -> None:
        write(tmp_path / "mine/train.jsonl", rows(6))
        path = write(tmp_path / "mine/test.jsonl", [{"text": "odd one", "label": "positiv"}])
        message = complaint(tmp_path, source(adapter="custom", columns={"text": "text"}))
        assert message.startswith(f"{path}, row 1, field 'label': got 'positiv'")
        assert "did you mean positive?" in message

    def test_a_task_of_one_label(self, tmp_path: Path) -> None:
        write(tmp_path / "mine.jsonl", rows(5)[::2])
        message = complaint(tmp_path, source(adapter="custom", columns={"text": "text"}))
        assert "got 1 label(s) in train; expected two or more" in message

    def test_a_mask_of_the_wrong_length(self, tmp_path: Path) -> None:
        path = write(tmp_path / "mine.jsonl", rows(3, m=[0, 1]))
        message = complaint(tmp_path, source(adapter="custom", columns={"text": "text", "mask": "m"}))
        assert message == f"{path}, row 1, field 'm': got 2 entries; expected 3, one per word"

    def test_a_duplicate_id(self, tmp_path: Path) -> None:
        first = write(tmp_path / "mine/train.jsonl", rows(4))
        second = write(tmp_path / "mine/test.jsonl", rows(4, 3))
        message = complaint(tmp_path, source())
        assert message.startswith(f"{second}, row 1, field 'id': got 'x-3'; expected unique ids")
        assert f"{first}, row 4" in message

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ({"id": "k\ud800"}, "field 'id': got 'k\\ud800'; expected valid Unicode"),
            ({"id": {"a": 1}}, "field 'id': got {'a': 1}; expected a string or a whole number"),
            ({"label": "k\ud800"}, "field 'label': got 'k\\ud800'; expected valid Unicode"),
        ],
        ids=["surrogate_id", "object_id", "surrogate_label"],
    )
    def test_an_id_or_label_that_no_file_takes(self, tmp_path: Path, change: dict[str, Any], expected: str) -> None:
        path = write(tmp_path / "mine.jsonl", [*rows(3), {**rows(1, 3)[0], **change}])
        params = source(adapter="custom", columns={"id": "id", "text": "text"})
        assert complaint(tmp_path, params) == f"{path}, row 4, {expected}"

    def test_a_line_that_is_nested_too_deeply(self, tmp_path: Path) -> None:
        path = write(tmp_path / "mine.jsonl", rows(3))
        with path.open("a", encoding="utf-8") as handle:
            handle.write('{"id": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
        assert complaint(tmp_path, source()).startswith(f"{path}, row 4: got lists or objects inside one another")

    @pytest.mark.parametrize("ending", ["jsonl", "csv"])
    def test_invalid_utf_8(self, tmp_path: Path, ending: str) -> None:
        path = write(tmp_path / f"mine.{ending}", rows(3))
        lines = path.read_bytes().splitlines(keepends=True)
        lines[2] = lines[2].replace(b"number", b"n\xffmber")
        path.write_bytes(b"".join(lines))
        message = complaint(tmp_path, source())
        assert str(path) in message
        assert "not valid UTF-8" in message
        assert {"jsonl": "row 3", "csv": "line 3"}[ending] in message

    def test_a_missing_column(self, tmp_path: Path) -> None:
        path = write(tmp_path / "mine.csv", [{"text": "fine", "verdict": "positive"}])
        message = complaint(tmp_path, source())
        assert message == f"{path}, row 1, field 'label': missing; expected a column 'label', got text, verdict"

    @pytest.mark.parametrize("keep", [0.5, 0.0])
    def test_half_a_parquet_file(self, tmp_path: Path, keep: float) -> None:
        path = write(tmp_path / "mine.parquet", rows(500))
        raw = path.read_bytes()
        path.write_bytes(raw[: int(len(raw) * keep)])
        message = complaint(tmp_path, source())
        assert message.startswith(f"{path}: not a whole Parquet file")

    def test_a_parquet_file_damaged_inside(self, tmp_path: Path) -> None:
        path = write(tmp_path / "mine.parquet", rows(500))
        raw = bytearray(path.read_bytes())
        raw[8:600] = b"\x00" * 592
        path.write_bytes(bytes(raw))
        message = complaint(tmp_path, source())
        assert message.startswith(f"{path}, after row 0: damaged")

    def test_a_row_with_too_few_cells(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.csv"
        path.write_text("text,label\nfine,positive\nfine\n", encoding="utf-8")
        assert complaint(tmp_path, source()) == f"{path}, row 2: got 1 cells; expected 2 (text, label)"

    def test_an_unclosed_quote(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.csv"
        path.write_text('text,label\nfine,positive\n"fine,negative\n', encoding="utf-8")
        assert complaint(tmp_path, source()).startswith(f"{path}, row 2: not valid CSV")

    @pytest.mark.parametrize("header", ["", "text,text,label", "text,,label"])
    def test_a_header_that_names_no_columns(self, tmp_path: Path, header: str) -> None:
        path = tmp_path / "mine.csv"
        path.write_text(f"{header}\n", encoding="utf-8")
        assert str(path) in complaint(tmp_path, source())

    def test_a_json_line_that_is_none(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.jsonl"
        path.write_text('{"text": "fine", "label": "positive"}\n{"text": \n', encoding="utf-8")
        assert complaint(tmp_path, source()).startswith(f"{path}, row 2: not valid JSON")

    def test_no_file(self, tmp_path: Path) -> None:
        assert complaint(tmp_path, source()).startswith(f"{tmp_path / 'mine'}: no such file or folder")

    def test_no_file_for_a_split_that_is_named(self, tmp_path: Path) -> None:
        write(tmp_path / "mine/train.jsonl", rows(4))
        message = complaint(tmp_path, source(splits={"train": "train", "test": "dev"}))
        assert "no file for split 'test'; expected dev ending in .jsonl, .csv, .parquet, got train.jsonl" in message

    def test_two_files_for_one_split(self, tmp_path: Path) -> None:
        write(tmp_path / "mine/train.jsonl", rows(4))
        write(tmp_path / "mine/train.csv", rows(4))
        assert "train.jsonl, train.csv; expected one file" in complaint(tmp_path, source())

    def test_a_file_of_another_kind(self, tmp_path: Path) -> None:
        (tmp_path / "mine.txt").write_text("fine", encoding="utf-8")
        assert "expected .jsonl, .csv, .parquet" in complaint(tmp_path, source(path="mine.txt"))

    def test_a_file_without_rows(self, tmp_path: Path) -> None:
        (tmp_path / "mine.jsonl").write_text("\n", encoding="utf-8")
        assert "no rows; expected at least one" in complaint(tmp_path, source())

    def test_splits_must_name_train(self, tmp_path: Path) -> None:
        write(tmp_path / "mine/test.jsonl", rows(4))
        with pytest.raises(ParamsError, match=r"sources\.mine\.splits: got test; expected train among them"):
            load_task("mine", source(splits={"test": "test"}), tmp_path, seed=13)

    def test_a_draw_that_cannot_be_balanced(self, tmp_path: Path) -> None:
        write(tmp_path / "mine.jsonl", rows(40))
        with pytest.raises(ParamsError, match="split 'test': max_examples: got 1"):
            load_task("mine", source(balance=True, max_examples={"test": 1}), tmp_path, seed=13)


def corpus_row(number: int, split: str, label: str, *marks: tuple[str, list[int]]) -> dict[str, Any]:
    return {
        "id": f"civility-{number}",
        "task": "civility",
        "split": split,
        "label": label,
        "words": ["You", "utter", "spoon."],
        "annotations": [{"annotator": annotator, "rationale": mask} for annotator, mask in marks],
    }


class TestCorpus:
    CONTENT = (
        corpus_row(1, "train", "hostile", ("author", [0, 1, 1])),
        corpus_row(2, "test", "hostile", ("author", [0, 1, 1]), ("reader", [0, 0, 1])),
        corpus_row(3, "train", "civil"),
        corpus_row(4, "validation", "civil"),
    )

    def test_each_row_names_its_split(self, tmp_path: Path) -> None:
        write(tmp_path / "civility.jsonl", list(self.CONTENT))
        data = load_task("civility", source(kind="embedded", adapter="corpus"), tmp_path, seed=13)
        assert [(e.id, e.split) for e in data.examples] == [
            ("civility-1", "train"),
            ("civility-3", "train"),
            ("civility-4", "validation"),
            ("civility-2", "test"),
        ]
        assert [(r.example_id, r.annotator, r.kind) for r in data.rationales] == [
            ("civility-1", "author", "author"),
            ("civility-2", "author", "author"),
            ("civility-2", "reader", "llm"),
        ]
        assert data.labels == ["civil", "hostile"]

    def test_a_split_left_out_is_taken_from_train(self, tmp_path: Path) -> None:
        write(tmp_path / "civility.jsonl", [*self.CONTENT, corpus_row(5, "train", "civil")])
        params = source(kind="embedded", adapter="corpus", splits={"train": "train", "test": "test"})
        data = load_task("civility", params, tmp_path, seed=13)
        assert counts(data) == {"train": 2, "validation": 1, "test": 1}
        assert "civility-4" not in data.source_ids

    def test_a_file_of_another_task_is_refused(self, tmp_path: Path) -> None:
        write(tmp_path / "reviews.jsonl", list(self.CONTENT))
        message = complaint(tmp_path, source(kind="embedded", adapter="corpus"), task="reviews")
        assert "row 1, field 'task': got 'civility'; expected 'reviews'" in message


def hub_text(column: str, labels: int, **more: Any) -> list[dict[str, Any]]:
    return [{column: f"text number {n}", "label": n % labels, **more} for n in range(12)]


def hub_posts() -> list[dict[str, Any]]:
    """Twelve posts: four normal, four offensive with two masks, four on which all annotators differ."""
    votes = ([1, 1, 1], [2, 2, 1], [0, 1, 2])
    return [
        {
            "id": f"post-{n}",
            "annotators": {
                "label": votes[n % 3],
                "annotator_id": [4, 5, 6],
                "target": [["None"], ["None"], ["None"]],
            },
            "rationales": [[0, 1], [1, 1]] if n % 3 == 1 else [],
            "post_tokens": ["rude", f"turnip{n}"],
        }
        for n in range(12)
    ]


def hub_questions() -> list[dict[str, Any]]:
    """Twelve questions; the answer is the passage's last word."""
    return [
        {
            "id": f"q-{n}",
            "title": "Turnips",
            "question": f"which turnip is number {n} ?",
            "context": f"it is turnip{n}",
            "answers": {"text": [f"turnip{n}"], "answer_start": [6]},
        }
        for n in range(12)
    ]


HUB: dict[str, tuple[list[dict[str, Any]], tuple[str, ...]]] = {
    # adapter: rows of one split, the hub's splits
    "sst2": (hub_text("sentence", 2), ("train", "validation")),
    "cola": (hub_text("sentence", 2), ("train", "validation")),
    "hatexplain": (hub_posts(), ("train", "validation", "test")),
    "rotten_tomatoes": (hub_text("text", 2), ("train", "validation", "test")),
    "ag_news": (hub_text("text", 4), ("train", "test")),
    "imdb": (hub_text("text", 2), ("train", "test")),
    "emotion": (hub_text("text", 6), ("train", "validation", "test")),
    "squad": (hub_questions(), ("train", "validation")),
    "snli": (hub_text("premise", 3, hypothesis="it is so"), ("train", "validation", "test")),
    "movie_rationales": (hub_text("review", 2, evidences=["text number"]), ("train", "validation", "test")),
}


def stand_in(folder: Path, adapter: str) -> None:
    """A folder in the hub's layout: a Parquet file for each split."""
    content, splits = HUB[adapter]
    for number, split in enumerate(splits):
        own = [{**row, "id": f"{row['id']}-{number}"} if "id" in row else row for row in content]
        write(folder / f"{split}-00000-of-00001.parquet", own)


@pytest.mark.usefixtures("hub_cache")
class TestHub:
    @pytest.mark.parametrize("adapter", HUB)
    def test_every_adapter_reads_the_hub_s_layout(self, tmp_path: Path, adapter: str) -> None:
        stand_in(tmp_path / "copy", adapter)
        data = load_task("task", source(kind="hub", adapter=adapter, path="copy"), tmp_path, seed=13)
        assert {e.split for e in data.examples} == {"train", "validation", "test"}
        assert {e.label for e in data.examples} == ({"answer"} if adapter == "squad" else set(data.labels))
        assert len(data.examples) == 12 * len(HUB[adapter][1])
        assert all((e.answer is not None) == (adapter == "squad") for e in data.examples)
        marked = {"hatexplain": 4 * 2 * 3, "movie_rationales": 12 * 3}  # posts or reviews, masks, splits
        assert len(data.rationales) == marked.get(adapter, 0)

    def test_a_view_drops_posts_without_a_majority(self, tmp_path: Path) -> None:
        stand_in(tmp_path / "copy", "hatexplain")
        params = source(kind="hub", adapter="hatexplain", path="copy", view="three_class")
        data = load_task("task", params, tmp_path, seed=13)
        assert data.dropped == {"no majority label": 12}
        assert Counter(e.label for e in data.examples) == {"normal": 12, "offensive": 12}
        assert data.labels == ["hatespeech", "normal", "offensive"]

    def test_the_layout_of_the_hub_s_parquet_conversion(self, tmp_path: Path) -> None:
        for split in ("train", "validation", "test"):
            content = [{**row, "id": f"{split}-{row['id']}"} for row in hub_posts()]
            write(tmp_path / f"copy/plain_text/{split}/0000.parquet", content)
        data = load_task("task", source(kind="hub", adapter="hatexplain", path="copy"), tmp_path, seed=13)
        assert counts(data) == {"train": 12, "validation": 12, "test": 12}

    def test_configurations_of_a_readme(self, tmp_path: Path) -> None:
        for split in ("train", "validation", "test"):
            write(tmp_path / f"copy/cola/{split}.parquet", hub_text("sentence", 2))
        write(tmp_path / "copy/other/train.parquet", [{"question": "what?"}])
        configs = [
            {"config_name": "other", "data_files": [{"split": "train", "path": "other/train.parquet"}]},
            {
                "config_name": "cola",
                "data_files": [{"split": s, "path": f"cola/{s}.parquet"} for s in ("train", "validation", "test")],
            },
        ]
        readme = f"---\n{yaml.safe_dump({'configs': configs})}---\nA copy.\n"
        (tmp_path / "copy/README.md").write_text(readme, encoding="utf-8")
        data = load_task("task", source(kind="hub", adapter="cola", path="copy"), tmp_path, seed=13)
        assert Counter(e.split for e in data.examples)["test"] == 12

    def test_classes_that_the_data_set_declares(self, tmp_path: Path) -> None:
        import datasets

        features = datasets.Features(
            {"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=["positive", "negative"])}
        )
        (tmp_path / "copy").mkdir()
        for split in ("train", "validation"):
            part = datasets.Dataset.from_list(hub_text("sentence", 2), features=features)
            part.to_parquet(tmp_path / f"copy/{split}.parquet")
        data = load_task("task", source(kind="hub", path="copy"), tmp_path, seed=13)
        test = [e.label for e in data.examples if e.split == "test"]
        assert test == ["positive", "negative"] * 6
        assert data.labels == ["negative", "positive"]

    def test_classes_inside_another_column(self, tmp_path: Path) -> None:
        import datasets

        names = datasets.ClassLabel(names=["normal", "offensive", "hatespeech"])
        features = datasets.Features(
            {
                "id": datasets.Value("string"),
                "annotators": datasets.Sequence({"label": names, "annotator_id": datasets.Value("int32")}),
                "rationales": datasets.Sequence(datasets.Sequence(datasets.Value("int32"))),
                "post_tokens": datasets.Sequence(datasets.Value("string")),
            }
        )
        content = [
            {
                "id": f"post-{n}",
                "annotators": {"label": [n % 2] * 3, "annotator_id": [4, 5, 6]},
                "rationales": [],
                "post_tokens": ["rude", "turnip"],
            }
            for n in range(10)
        ]
        (tmp_path / "copy").mkdir()
        datasets.Dataset.from_list(content, features=features).to_parquet(tmp_path / "copy/train.parquet")
        params = source(kind="hub", adapter="hatexplain", path="copy", splits={"train": "train"})
        data = load_task("task", params, tmp_path, seed=13)
        labels = {int(e.id.removeprefix("post-")): e.label for e in data.examples}
        assert labels == {n: ("normal", "toxic")[n % 2] for n in range(10)}

    def test_a_custom_table_takes_the_splits_there_are(self, tmp_path: Path) -> None:
        write(tmp_path / "copy/train.parquet", rows(20))
        write(tmp_path / "copy/test.parquet", rows(4, 20))
        params = source(kind="hub", adapter="custom", path="copy", columns={"text": "text", "id": "id"})
        data = load_task("task", params, tmp_path, seed=13)
        assert counts(data) == {"train": 18, "validation": 2, "test": 4}

    def test_a_slice_of_a_split(self, tmp_path: Path) -> None:
        stand_in(tmp_path / "copy", "sst2")
        splits = {"train": "train[:10]", "test": "validation[:4]"}
        data = load_task("task", source(kind="hub", path="copy", splits=splits), tmp_path, seed=13)
        assert counts(data) == {"train": 9, "validation": 1, "test": 4}

    def test_a_data_set_that_cannot_be_reached(self, tmp_path: Path) -> None:
        message = complaint(tmp_path, source(kind="hub", adapter="imdb"))
        assert message.startswith("hub data set 'stanfordnlp/imdb': cannot be loaded (")

    def test_a_split_that_is_not_there(self, tmp_path: Path) -> None:
        stand_in(tmp_path / "copy", "imdb")
        params = source(kind="hub", adapter="imdb", path="copy", splits={"train": "train", "test": "dev"})
        assert "cannot be loaded" in complaint(tmp_path, params)

    def test_half_a_parquet_file(self, tmp_path: Path) -> None:
        path = write(tmp_path / "copy/train.parquet", rows(500))
        path.write_bytes(path.read_bytes()[:1000])
        params = source(kind="hub", path="copy", splits={"train": "train"})
        assert "cannot be loaded" in complaint(tmp_path, params)

    def test_a_row_that_cannot_be_used(self, tmp_path: Path) -> None:
        write(tmp_path / "copy/train.parquet", [*rows(4), {"id": "y", "text": "", "label": "positive"}])
        params = source(kind="hub", path="copy", splits={"train": "train"})
        assert complaint(tmp_path, params).endswith(
            "copy:train, row 5, field 'text': got ''; expected a text of at least one word"
        )

    def test_custom_needs_a_name(self, tmp_path: Path) -> None:
        with pytest.raises(ParamsError, match=r"sources\.mine\.path: got null"):
            load_task("mine", source(kind="hub", adapter="custom", columns={"text": "t"}), tmp_path, seed=13)


def test_reading_data_needs_no_torch() -> None:
    code = (
        "import sys, explearn.data.sources, explearn.data.rationales, explearn.data.agreement; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def composed(root: Path, repository: Path, *overrides: str) -> Params:
    """The parameters that `dvc exp run` would write from the repository's conf/ and what lies in conf/ under `root`."""
    from dvc.utils.hydra import compose_and_dump

    for path in (repository / "conf").rglob("*.yaml"):
        copy = root / path.relative_to(repository)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    compose_and_dump(root / "params.yaml", str(root / "conf"), None, "config", str(root), list(overrides))
    return load_params(root / "params.yaml")


def test_the_example_of_the_documentation_runs(tmp_path: Path, repository: Path) -> None:
    text = (repository / "docs/data.md").read_text(encoding="utf-8")
    files = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", text, flags=re.DOTALL))
    assert set(files) == {
        "data/mine/kitchen/train.csv",
        "data/mine/kitchen/test.csv",
        "data/mine/marks.jsonl",
        "conf/profile/mine.yaml",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")

    params = composed(tmp_path, repository, "profile=mine")
    assert params.explainers == ["expnet_in_domain"]  # leaving one task out takes two
    data_dir = tmp_path / params.data_dir
    data = load_task("kitchen", params.sources["kitchen"], data_dir, params.seed)
    assert counts(data) == {"train": 6, "validation": 2, "test": 2}
    assert data.labels == ["bad", "good"]

    (file,) = params.rationale_params("kitchen").files
    rationales = import_rationales(data_dir / file.path, file, data.examples)
    first = {r.annotator: r.mask for r in rationales if r.example_id == "k1"}
    # The soup was warm, rich and generous.
    assert first == {
        "ana": (False, False, False, True, True, True, True),
        "ben": (False, False, False, False, True, False, True),
    }
    metrics = agreement_metrics(rationales, data.examples, "test")
    assert metrics["mean_length"] == 2.5  # k9 three words, k10 two

    for seed in range(50):
        drawn = load_task("kitchen", params.sources["kitchen"], data_dir, seed)
        marked = {r.example_id for r in rationales if any(r.mask)}
        left = Counter(e.label for e in drawn.examples if e.split == "train" and e.id in marked)
        assert left == {"bad": 3, "good": 3}


@pytest.mark.parametrize("format", ["mask", "marked", "spans"])
def test_the_rationale_formats_of_the_documentation_agree(tmp_path: Path, repository: Path, format: str) -> None:
    text = (repository / "docs/data.md").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith(f"| `{format}` | ") and '{"id": "k2"' in line)
    example = re.findall(r"`(\{.*\})`", line)[0]
    (tmp_path / "marks.jsonl").write_text(example + "\n", encoding="utf-8")
    train = re.findall(r"<!-- file: data/mine/kitchen/train.csv -->\n```csv\n(.*?)```", text, flags=re.DOTALL)[0]
    (tmp_path / "kitchen.csv").write_text(train, encoding="utf-8")
    columns = {"id": "nr", "text": "comment", "label": "verdict"}
    data = load_task("kitchen", source(adapter="custom", columns=columns), tmp_path, seed=13)
    spec = RationaleFile.model_validate({"path": "marks.jsonl", "format": format, "annotator": "ana", "kind": "human"})
    (rationale,) = import_rationales(tmp_path / "marks.jsonl", spec, data.examples)
    # Cold chips, and a long wait for them.
    assert rationale.mask == (True, True, False, False, True, True, False, False)


@pytest.mark.shared
class TestSharedData:
    @pytest.mark.parametrize(
        ("task", "sizes", "length", "alpha", "texts"),
        [
            ("reviews", (884, 90, 160), 2.9, 0.77, 250),
            ("grammar", (1175, 120, 237), 1.7, 0.88, 172),
            ("civility", (480, 60, 120), 5.1, 0.78, 85),
            ("topics", (360, 60, 100), 3.1, 0.70, 158),
        ],
    )
    def test_the_corpus_has_the_figures_of_its_readme(
        self, shared_dir: Path, task: str, sizes: tuple[int, int, int], length: float, alpha: float, texts: int
    ) -> None:
        data = load_task(task, source(kind="embedded", adapter="corpus"), shared_dir / "corpus", seed=13)
        assert counts(data) == dict(zip(("train", "validation", "test"), sizes, strict=True))
        metrics = agreement_metrics(data.rationales, data.examples, "train")
        assert metrics["alpha"] == pytest.approx(alpha, abs=0.005)
        assert metrics["alpha_texts"] == texts
        author = [r for r in data.rationales if r.annotator == "author"]  # the README's K is the author's
        assert agreement_metrics(author, data.examples, "train")["mean_length"] == pytest.approx(length, abs=0.05)

    @pytest.mark.parametrize(
        ("task", "sizes"),
        [
            ("sst2", (6920, 792, 1821)),
            ("rotten_tomatoes", (8529, 1066, 1067)),
            ("ag_news", (5600, 600, 1400)),
            ("hatexplain", (7888, 1922, 1500)),
        ],
    )
    def test_the_data_sets_have_the_counts_of_their_readme(
        self, shared_dir: Path, task: str, sizes: tuple[int, int, int]
    ) -> None:
        data = load_task(task, source(adapter=task), shared_dir / "datasets", seed=13)
        assert counts(data) == dict(zip(("train", "validation", "test"), sizes, strict=True))
        assert {e.label for e in data.examples} == set(data.labels)
        assert data.dropped == {}

    def test_cola_has_no_labelled_test_part(self, shared_dir: Path) -> None:
        data = load_task("cola", source(adapter="cola"), shared_dir / "datasets", seed=13)
        # A tenth of the 8,551 train texts, 855.1, is set aside; the source's validation part is the test part.
        assert counts(data) == {"train": 7696, "validation": 855, "test": 963}

    @pytest.mark.parametrize(("task", "train", "test", "length"), [("sst2", 680, 120, 3.2), ("cola", 600, 120, 1.6)])
    def test_rationales_fit_their_texts(
        self, shared_dir: Path, task: str, train: int, test: int, length: float
    ) -> None:
        params = source(adapter=task, splits={"train": "train", "test": "validation"})
        data = load_task(task, params, shared_dir / "datasets", seed=13)
        path = shared_dir / "datasets" / task / "rationales.jsonl"
        rationales = import_rationales(path, RationaleFile(path=path.name), data.examples)
        texts = agreement_metrics(rationales, data.examples, "train")["texts"]
        assert isinstance(texts, dict)
        assert texts["test"] == test
        assert texts["train"] + texts["validation"] == train
        assert {r.kind for r in rationales} == {"llm"}
        by_annotator = Counter(r.annotator for r in rationales)
        assert by_annotator == {"a": train + test, "b": test}

    def test_native_masks_come_with_toxic_posts_only(self, shared_dir: Path) -> None:
        data = load_task("hatexplain", source(adapter="hatexplain"), shared_dir / "datasets", seed=13)
        toxic = {e.id for e in data.examples if e.label == "toxic" and e.split != "train"}
        assert {r.example_id for r in data.rationales} == toxic
        assert {r.kind for r in data.rationales} == {"human"}

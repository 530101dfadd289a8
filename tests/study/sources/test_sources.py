"""Whole sources: files, folders, the embedded corpus, the hub's layout in a local folder. All texts are invented."""

from collections import Counter

import pytest
from source_cases import complaint, counts, load, rows, source, write

from explearn_study.sources import load_task


class TestFiles:
    @pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
    def test_a_folder_has_a_file_for_each_split(self, tmp_path, ending):
        write(tmp_path / f"mine/train.{ending}", rows(6))
        write(tmp_path / f"mine/validation.{ending}", rows(2, 6))
        write(tmp_path / f"mine/test.{ending}", rows(3, 8))
        data = load(tmp_path)
        assert [e.id for e in data.examples] == [f"x-{n}" for n in range(11)]
        assert [e.split for e in data.examples] == ["train"] * 6 + ["validation"] * 2 + ["test"] * 3
        first = data.examples[0]
        assert (first.words, first.label, first.task) == (("text", "number", "0"), "negative", "mine")
        assert data.labels == ["negative", "positive"]
        assert data.dropped == {}
        assert data.source_ids == {f"x-{n}" for n in range(11)}

    @pytest.mark.parametrize("path", ["mine", "mine.jsonl", None])
    def test_one_file_is_all_train_and_is_split(self, tmp_path, path):
        write(tmp_path / "mine.jsonl", rows(100))
        data = load(tmp_path, path=path)
        assert counts(data) == {"train": 70, "validation": 10, "test": 20}
        by_label = Counter((e.split, e.label) for e in data.examples)
        assert by_label["validation", "negative"] == by_label["validation", "positive"] == 5
        assert by_label["test", "negative"] == by_label["test", "positive"] == 10

    def test_splits_name_the_files(self, tmp_path):
        write(tmp_path / "mine/part_a.jsonl", rows(10))
        write(tmp_path / "mine/validation.csv", rows(4, 10))
        splits = {"train": "part_a", "test": "validation"}
        data = load(tmp_path, splits=splits, carve_validation=0.2)
        assert counts(data) == {"train": 8, "validation": 2, "test": 4}
        assert {e.id for e in data.examples if e.split == "test"} == {"x-10", "x-11", "x-12", "x-13"}

    def test_a_missing_split_is_taken_out_of_the_one_that_is_named(self, tmp_path):
        write(tmp_path / "mine/train.jsonl", rows(10))
        write(tmp_path / "mine/validation.jsonl", rows(8, 10))
        splits = {"train": "train", "validation": "validation"}
        data = load(tmp_path, splits=splits, carve_from="validation", carve_test=0.5)
        assert counts(data) == {"train": 10, "validation": 4, "test": 4}

    def test_the_draw_depends_on_seed_and_ids_and_not_on_the_order_of_rows(self, tmp_path):
        content = rows(60)
        write(tmp_path / "a/mine.jsonl", content)
        write(tmp_path / "b/mine.jsonl", content[::-1])
        params = source(max_examples={"train": 20})

        def drawn(folder, seed):
            return {(e.id, e.split) for e in load_task("mine", params, tmp_path / folder, seed).examples}

        assert drawn("a", 1) == drawn("b", 1)
        assert drawn("a", 1) != drawn("a", 2)

    def test_rows_without_an_id_get_one(self, tmp_path):
        content = [{"text": row["text"], "label": row["label"]} for row in rows(4)]
        for name in ("train", "validation", "test"):
            write(tmp_path / f"mine/{name}.csv", content)
        ids = [e.id for e in load(tmp_path).examples]
        assert ids[:4] == ["mine-train-1", "mine-train-2", "mine-train-3", "mine-train-4"]
        assert ids[-1] == "mine-test-4"

    def test_rationales_of_texts_that_are_not_drawn_are_left_out(self, tmp_path):
        write(tmp_path / "mine.csv", [{**row, "mask": "0 0 1"} for row in rows(40)])
        data = load(
            tmp_path, "mine", adapter="custom", columns={"text": "text", "mask": "mask"}, max_examples={"train": 6}
        )
        assert [r.example_id for r in data.rationales] == [e.id for e in data.examples]

    def test_labels_of_a_custom_table_are_those_of_train_sorted(self, tmp_path):
        write(tmp_path / "mine.jsonl", rows(10))
        assert load(tmp_path, adapter="custom", columns={"text": "text"}).labels == ["negative", "positive"]

    def test_dropped_rows_are_counted(self, tmp_path):
        content = [{"premise": "A dog runs", "hypothesis": "It naps", "label": n % 3} for n in range(9)]
        write(tmp_path / "mine.parquet", [*content, {**content[0], "label": -1}, {**content[1], "label": -1}])
        data = load(tmp_path, adapter="snli")
        assert data.dropped == {"label -1": 2}
        assert len(data.examples) == 9
        assert data.examples[0].pair == ("It", "naps")


class TestBadInput:
    def test_an_empty_text(self, tmp_path):
        path = write(tmp_path / "mine.csv", [*rows(3), {"id": "x-3", "text": "", "label": "negative"}])
        assert complaint(tmp_path) == (f"{path}, row 4, field 'text': got ''; expected a text of at least one word")

    def test_an_unknown_label(self, tmp_path):
        path = write(tmp_path / "mine.jsonl", [*rows(3), {**rows(1)[0], "id": "y", "label": "negativ"}])
        message = complaint(tmp_path)
        assert message.startswith(f"{path}, row 4, field 'label': got 'negativ'")
        assert "did you mean negative?" in message

    def test_a_label_that_train_does_not_have(self, tmp_path):
        write(tmp_path / "mine/train.jsonl", rows(6))
        path = write(tmp_path / "mine/test.jsonl", [{"text": "odd one", "label": "positiv"}])
        message = complaint(tmp_path, adapter="custom", columns={"text": "text"})
        assert message.startswith(f"{path}, row 1, field 'label': got 'positiv'")
        assert "did you mean positive?" in message

    def test_a_duplicate_id(self, tmp_path):
        first = write(tmp_path / "mine/train.jsonl", rows(4))
        second = write(tmp_path / "mine/test.jsonl", rows(4, 3))
        message = complaint(tmp_path)
        assert message.startswith(f"{second}, row 1, field 'id': got 'x-3'; expected unique ids")
        assert f"{first}, row 4" in message

    def test_no_file_for_a_split_that_is_named(self, tmp_path):
        write(tmp_path / "mine/train.jsonl", rows(4))
        message = complaint(tmp_path, splits={"train": "train", "test": "dev"})
        assert "no file for split 'test'; expected dev ending in .jsonl, .csv, .parquet, got train.jsonl" in message


def corpus_row(number, split, label):
    return {
        "id": f"civility-{number}",
        "task": "civility",
        "split": split,
        "label": label,
        "words": ["You", "utter", "spoon."],
    }


class TestCorpus:
    CONTENT = (
        corpus_row(1, "train", "hostile"),
        corpus_row(2, "test", "hostile"),
        corpus_row(3, "train", "civil"),
        corpus_row(4, "validation", "civil"),
    )

    def test_each_row_names_its_split(self, tmp_path):
        write(tmp_path / "civility.jsonl", list(self.CONTENT))
        data = load(tmp_path, "civility", kind="embedded", adapter="corpus")
        assert [(e.id, e.split) for e in data.examples] == [
            ("civility-1", "train"),
            ("civility-3", "train"),
            ("civility-4", "validation"),
            ("civility-2", "test"),
        ]
        assert data.labels == ["civil", "hostile"]

    def test_a_split_left_out_is_taken_from_train(self, tmp_path):
        write(tmp_path / "civility.jsonl", [*self.CONTENT, corpus_row(5, "train", "civil")])
        data = load(tmp_path, "civility", kind="embedded", adapter="corpus", splits={"train": "train", "test": "test"})
        assert counts(data) == {"train": 2, "validation": 1, "test": 1}
        assert "civility-4" not in data.source_ids

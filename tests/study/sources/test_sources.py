"""Whole sources: files, folders, the embedded corpus, the hub's layout in a local folder. All texts are invented."""

import io
import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import saying
from source_cases import complaint, counts, load, rows, source, write

from explearn_study.sources import load_task


class TestFiles:
    @pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
    def test_a_folder_has_a_file_for_each_split(self, tmp_path, ending):
        for split, content in (("train", rows(6)), ("validation", rows(2, 6)), ("test", rows(3, 8))):
            write(tmp_path / f"mine/{split}.{ending}", content)
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
        for first, name in enumerate(("train", "validation", "test")):
            content = [{"text": row["text"], "label": row["label"]} for row in rows(4, 4 * first)]
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

    def test_equal_texts_of_a_file_lie_in_one_split(self, tmp_path, caplog):
        again = [{**row, "id": f"{row['id']}-again", "text": f"{row['text'].upper()} !"} for row in rows(40)]
        write(tmp_path / "mine.jsonl", [*rows(40), *again])
        splits = {example.id: example.split for example in load(tmp_path).examples}
        assert len(splits) == 80 and len(set(splits.values())) == 3
        assert all(splits[f"x-{n}"] == splits[f"x-{n}-again"] for n in range(40))
        assert "40 of 80 texts repeat another one" in caplog.text

    def test_texts_of_a_later_split_are_left_out_of_the_earlier_one(self, tmp_path):
        def again(*numbers):
            return [{"id": f"again-{n}", "text": f"Text number {n}!", "label": "negative"} for n in numbers]

        write(tmp_path / "mine/train.csv", rows(8))
        write(tmp_path / "mine/validation.csv", [*rows(3, 8), *again(0)])
        write(tmp_path / "mine/test.csv", [*rows(3, 11), *again(1, 9)])
        data = load(tmp_path)
        assert {f"x-{n}" for n in range(14)} - {example.id for example in data.examples} == {"x-0", "x-1", "x-9"}
        assert data.dropped == {
            "train: equal to a text of test": 1,
            "train: equal to a text of validation": 1,
            "validation: equal to a text of test": 1,
        }

    def test_labels_of_a_custom_table_are_those_of_train_sorted(self, tmp_path):
        write(tmp_path / "mine.jsonl", rows(10))
        assert load(tmp_path, adapter="custom", columns={"text": "text"}).labels == ["negative", "positive"]

    def test_dropped_rows_are_counted(self, tmp_path):
        content = [{"premise": f"A dog runs {n}", "hypothesis": "It naps", "label": n % 3} for n in range(9)]
        write(tmp_path / "mine.parquet", [*content, {**content[0], "label": -1}, {**content[1], "label": -1}])
        data = load(tmp_path, adapter="snli")
        assert data.dropped == {"label -1": 2}
        assert len(data.examples) == 9
        assert data.examples[0].pair == ("It", "naps")


CUSTOM = {"adapter": "custom", "columns": {"id": "id", "text": "text"}}

BAD = {
    "an empty text": (
        {"mine.csv": [*rows(3), {"id": "x-3", "text": "", "label": "negative"}]},
        {},
        ["mine.csv, row 4, field 'text': got ''; expected a text of at least one word"],
    ),
    "an unknown label": (
        {"mine.jsonl": [*rows(3), {"id": "y", "text": "a", "label": "negativ"}]},
        {},
        ["mine.jsonl, row 4, field 'label': got 'negativ'", "did you mean negative?"],
    ),
    "a label that train does not have": (
        {"mine/train.jsonl": rows(6), "mine/test.jsonl": [{"id": "y", "text": "odd one", "label": "positiv"}]},
        CUSTOM,
        ["test.jsonl, row 1, field 'label': got 'positiv'", "did you mean positive?"],
    ),
    "an id twice": (
        {"mine/train.jsonl": rows(4), "mine/test.jsonl": rows(4, 3)},
        {},
        ["test.jsonl, row 1, field 'id': got 'x-3'; expected unique ids", "train.jsonl, row 4"],
    ),
    "no file for a split": (
        {"mine/train.jsonl": rows(4)},
        {"splits": {"train": "train", "test": "dev"}},
        ["no file for split 'test'; expected dev ending in .jsonl, .csv, .parquet, got train.jsonl"],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_row_or_file_that_cannot_be_used_is_named(tmp_path, name):
    files, options, words = BAD[name]
    for file, content in files.items():
        write(tmp_path / file, content)
    saying.complaint(lambda: load(tmp_path, **options), *words)


def with_row(**change):
    row = {**rows(1)[0], **change}
    return jsonl([*rows(9, 1), {key: value for key, value in row.items() if value is not ...}])


def jsonl(content):
    return "".join(json.dumps(row) + "\n" for row in content).encode()


TABLES = {
    "empty.jsonl": b"",
    "cut short.jsonl": jsonl(rows(3)) + b'{"id": "3", "te\n',
    "nested.jsonl": jsonl(rows(3)) + b'{"id": "3", "text": ' + b"[" * 100_000 + b"\n",
    "no UTF-8.jsonl": jsonl(rows(3)) + b'{"id": "3", "text": "\xff\xfe", "label": "no"}\n',
    "no text.jsonl": with_row(text=...),
    "a text that is a list.jsonl": with_row(text=["a"]),
    "a text with half a character.jsonl": with_row(text="a \ud800 film"),
    "one label alone.jsonl": jsonl([{**row, "label": "yes"} for row in rows(9)]),
    "labels that read the same.jsonl": jsonl(
        [{**row, "label": "caf\u00e9" if n % 2 else "cafe\u0301"} for n, row in enumerate(rows(9))]
    ),
    "empty.csv": b"",
    "a column twice.csv": b"id,text,text,label\n1,a,b,yes\n",
    "a cell too many.csv": b"id,text,label\n1,a,yes\n2,b,no,more\n",
    "an open quote.csv": b'id,text,label\n1,"a,yes\n',
    "a cell of a megabyte.csv": b"id,text,label\n1," + b"a " * 500_000 + b",yes\n",
    "a terminal's commands.csv": b"id,text,label\n1,a,yes\n1,\x1b[2Jb,no\n",
    "text.parquet": b"id,text,label\n",
}


def parquet(**columns):
    """The bytes of a Parquet file of good texts."""
    table = pa.table({**pa.Table.from_pylist(rows(20)).to_pydict(), **columns})
    written = io.BytesIO()
    pq.write_table(table, written)
    return written.getvalue()


WHOLE = parquet()
TABLES |= {
    "half.parquet": WHOLE[: len(WHOLE) // 2],
    "a damaged page.parquet": WHOLE[:20] + b"\xff" * 120 + WHOLE[140:],
    "a label that is NaN.parquet": parquet(label=[0.0, 1.0, float("nan")] + [1.0] * 17),
    "no rows.parquet": parquet(id=[], text=[], label=[]),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_cannot_be_used_is_named(tmp_path, name):
    path = (tmp_path / "mine").with_suffix(Path(name).suffix)
    path.write_bytes(TABLES[name])
    saying.complaint(lambda: load(tmp_path, **CUSTOM), "mine")


def test_a_column_twice_in_parquet(tmp_path):
    columns = {"id": ["1"], "label": ["yes"]}
    table = pa.table({**columns, "text": ["a"]}).append_column("text", pa.array(["b"]))
    pq.write_table(table, tmp_path / "mine.parquet")
    saying.complaint(lambda: load(tmp_path, **CUSTOM), "mine.parquet")


def test_columns_that_are_not_read_are_not_decoded(tmp_path):
    """A time stamp that no calendar has fails only where somebody asks for it."""
    broken = pa.array([2**60] * 20, pa.timestamp("ms"))
    (tmp_path / "mine.parquet").write_bytes(parquet(when=broken, picture=[b"\x89PNG"] * 20))
    assert len(load(tmp_path, **CUSTOM).examples) == 20


@pytest.mark.parametrize(
    "change",
    [
        {"path": "none"},
        {"columns": {"id": "nummer", "text": "text"}},
        {"columns": {"text": "text", "mask": "label"}},
        {"labels": ["yes", "no", "caf\u00e9", "cafe\u0301"]},
        {"labels": ["yes", "no"], "label_names": {"1": "perhaps"}},
        {"adapter": "nobody"},
        {"splits": {"train": "a", "test": "b"}},
        {"kind": "hub", "path": "no-such/thing"},
    ],
    ids=lambda value: ascii(value)[:50],
)
def test_a_source_that_cannot_be_used_is_refused(tmp_path, change, hub_cache):
    write(tmp_path / "mine.jsonl", rows(20))
    complaint(tmp_path, **{**CUSTOM, **change})


@pytest.mark.parametrize(
    ("adapter", "row"),
    [
        ("sst2", {"text": "a film", "label": 2}),
        ("snli", {"premise": "a", "label": 0}),
        ("squad", {"question": "who", "context": "a man", "answers": {"text": ["man"], "answer_start": [99]}}),
        ("hatexplain", {"tokens": ["a"], "labels": [0, 0, 0], "annotators": [1, 2, 3], "rationales": [[1, 1]]}),
        ("hatexplain", {"post_tokens": ["a"], "annotators": [{"label": 0}], "rationales": []}),
        ("movie_rationales", {"review": "a film", "label": 0, "evidences": "a"}),
        ("corpus", {"task": "mine", "split": "train", "words": ["a b"], "label": "x"}),
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_a_row_of_a_known_data_set_that_cannot_be_used_is_named(tmp_path, adapter, row):
    (tmp_path / "mine.jsonl").write_bytes(jsonl([row]))
    saying.complaint(lambda: load(tmp_path, adapter=adapter), "mine.jsonl, row 1")


def corpus_row(number, split, label):
    identity = {"id": f"civility-{number}", "task": "civility", "split": split}
    return {**identity, "label": label, "words": ["You", "utter", f"spoon{number}."]}


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

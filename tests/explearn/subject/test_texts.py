"""Somebody's own texts from files."""

import json

import pytest
from saying import complaint

from explearn.subject.texts import TextColumns, given_texts, read_text_file
from explearn_study.example_files import read_examples, write_examples


def test_a_txt_file_has_a_text_a_line(tmp_path):
    (tmp_path / "lines.txt").write_text("A warm film.\n \nSlow and dull.\n", encoding="utf-8")
    texts = read_text_file(tmp_path / "lines.txt", TextColumns())
    assert [example.text for example in texts.examples] == ["A warm film.", "Slow and dull."]


@pytest.mark.parametrize(
    "columns", [TextColumns(label="stars"), TextColumns(pair="stars"), TextColumns(rationales="mask:stars")]
)
def test_a_txt_file_has_no_other_column(tmp_path, columns):
    (tmp_path / "lines.txt").write_text("A warm film.\n", encoding="utf-8")
    complaint(lambda: read_text_file(tmp_path / "lines.txt", columns), "lines.txt, row 1, field 'stars': missing")


@pytest.mark.parametrize(
    ("marks_by", "annotator", "kind"),
    [
        (None, "table", "unknown"),
        ("people", "table", "human"),
        ("model", "table", "llm"),
        ("nurses", "nurses", "unknown"),
    ],
)
def test_marks_are_by_people_only_if_the_user_says_so(marks_by, annotator, kind):
    columns = TextColumns(rationales="mask:mask", marks_by=marks_by)
    (marks,) = given_texts([{"text": "fine film", "mask": "[1, 0]"}], columns=columns).rationales
    assert (marks.annotator, marks.kind) == (annotator, kind)


def test_a_table_written_by_pandas_with_its_index(tmp_path):
    (tmp_path / "t.csv").write_text(",text,stars\n0,A warm film.,good\n1,Slow and dull.,bad\n", encoding="utf-8")
    texts = read_text_file(tmp_path / "t.csv", TextColumns(label="stars"))
    assert [(one.text, one.label) for one in texts.examples] == [("A warm film.", "good"), ("Slow and dull.", "bad")]


def test_a_cell_may_be_as_long_as_a_text_may_be(tmp_path):
    (tmp_path / "t.csv").write_text(f"text\n{'word ' * 40_000}\n", encoding="utf-8")
    (example,) = read_text_file(tmp_path / "t.csv", TextColumns()).examples
    assert len(example.words) == 40_000


def test_labels_by_number_are_those_of_the_classifier():
    texts = given_texts(["A warm film.", "Slow and dull."], [1, 0]).of_classes("model", ["bad", "good"])
    assert [example.label for example in texts.examples] == ["good", "bad"] and texts.labels == ["bad", "good"]
    complaint(lambda: given_texts(["A film."], [2]).of_classes("model", ["bad", "good"]), "the texts' labels are '2'")
    complaint(lambda: given_texts(["A film."], ["1"]).of_classes("model", ["bad", "good"]), "labels are '1'")
    complaint(lambda: given_texts(["A film."] * 2, [1, ["bad"]]), "text 2, field 'label'")


@pytest.mark.parametrize(
    ("classes", "labels", "expected"),
    [
        # Numbers in the names of classes are names.
        ([f"{n} stars" for n in range(1, 6)], [1, 2, 3, 4], ["1 stars", "2 stars", "3 stars", "4 stars"]),
        (["5 stars", "4 stars"], [4, 5, 5], ["4 stars", "5 stars", "5 stars"]),
        ([f"{n} stars" for n in range(1, 6)], ["1", "5"], ["1 stars", "5 stars"]),
        (["LABEL_1", "LABEL_0"], [0, 1], ["LABEL_0", "LABEL_1"]),
        # No class is called 0, so these are positions.
        ([f"{n} stars" for n in range(1, 6)], [0, 4], ["1 stars", "5 stars"]),
        (["18 to 24", "25 to 34"], [0, 1], ["18 to 24", "25 to 34"]),
        (["bad", "good"], [1.0, float("nan"), 0.0], ["good", "", "bad"]),
        (["0.0", "1.0"], [1.0, 0.0], ["1.0", "0.0"]),
        (["0", "1"], [1, 0], ["1", "0"]),
    ],
)
def test_numbers_are_positions_only_where_they_cannot_be_names(classes, labels, expected, caplog):
    texts = given_texts(["A film."] * len(labels), labels).of_classes("model", classes)
    assert [example.label for example in texts.examples] == expected
    assert ("Labels are read as" in caplog.text) == (classes != ["0", "1"])
    assert texts.hint in caplog.text


@pytest.mark.parametrize("missing", [None, float("nan"), "", "  "])
def test_a_missing_label_or_group_is_empty_in_every_format(missing, tmp_path):
    pd = pytest.importorskip("pandas")
    rows = pd.DataFrame({"text": ["A film.", "A book."], "year": [1990, missing], "label": [" good", missing]})
    rows.to_csv(tmp_path / "t.csv", index=False)
    rows.astype(object).where(rows.notna(), None).to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    tables = [rows, tmp_path / "t.jsonl"]
    if missing == missing and missing is not None:
        tables.append(tmp_path / "t.csv")  # where pandas has a gap, it writes 1990 as the text 1990.0
    else:
        rows.to_parquet(tmp_path / "t.parquet")
        tables.append(tmp_path / "t.parquet")
    for table in tables:
        texts = given_texts(table, columns=TextColumns(label="label"), group="year")
        assert texts.groups == ["1990", ""]
        assert [example.label for example in texts.examples] == ["good", ""] and texts.labels == ["good"]


def test_numbers_in_a_table_are_those_of_the_classes_only_if_that_is_certain(tmp_path, caplog):
    def labels(*numbers):
        lines = [f"A film.,{number}" for number in numbers]
        (tmp_path / "t.csv").write_text("\n".join(["text,label", *lines]), encoding="utf-8")
        texts = read_text_file(tmp_path / "t.csv", TextColumns(label="label")).of_classes(
            "model", ["bad", "fair", "good"]
        )
        assert "0 is bad, 1 is fair, 2 is good" in texts.hint
        assert texts.hint in caplog.text
        return [example.label for example in texts.examples]

    assert labels(2, 0, 2) == ["good", "bad", "good"]
    for numbers in ((1, 2), (1, 2, 3), (0, 3), (-1, 0, 1)):
        complaint(lambda: labels(*numbers), "expected every label among the classes")  # noqa: B023


def test_the_class_names_that_a_data_set_declares():
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(text=datasets.Value("string"), label=datasets.ClassLabel(names=["bad", "good"]))
    rows = datasets.Dataset.from_dict({"text": ["A warm film.", "Slow and dull."], "label": [1, 0]}, features=features)
    assert [one.label for one in given_texts(rows, columns=TextColumns(label="label")).examples] == ["good", "bad"]


SPACED = "  def  f(x):\n\treturn x \n"


def test_the_white_space_of_a_text_is_kept(tmp_path):
    (tmp_path / "t.jsonl").write_text(json.dumps({"text": SPACED, "pair": "a\tb"}), encoding="utf-8")
    (listed,) = given_texts([SPACED]).examples
    (pair,) = given_texts([("a b", SPACED)]).examples
    (read,) = read_text_file(tmp_path / "t.jsonl", TextColumns(pair="pair")).examples
    assert listed.text == pair.pair_text == read.text == SPACED and read.pair_text == "a\tb"
    assert listed.words == ("def", "f(x):", "return", "x") and not listed.joined
    write_examples(tmp_path / "texts.parquet", [listed, pair, read])
    assert read_examples(tmp_path / "texts.parquet") == [listed, pair, read]

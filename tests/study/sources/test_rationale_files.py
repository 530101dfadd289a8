"""Files of marked words, read in every format and checked against the texts."""

import csv

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import write_lines

from explearn import DataError, Example, Rationale
from explearn_study.sections import RationaleFile
from explearn_study.sources.rationale_files import import_rationales

EXAMPLES = [
    Example("r-1", ("slow", "but", "charming"), "positive", "train", "reviews"),
    Example("r-2", ("a", "mess"), "negative", "test", "reviews"),
    Example("p-1", ("it", "rains"), "yes", "train", "pairs", pair=("wet", "day")),
]


def read(path, format="mask", **options):
    spec = RationaleFile.model_validate({"path": path.name, "format": format, "annotator": "ana", "kind": "human"})
    return import_rationales(path, spec, EXAMPLES, **options)


class TestImport:
    def test_the_three_formats_mark_the_same_words(self, tmp_path):
        expected = [Rationale("r-1", "ana", "human", (True, False, True))]
        mask = {"id": "r-1", "words": ["slow", "but", "charming"], "rationale": [1, 0, 1]}
        assert read(write_lines(tmp_path / "a.jsonl", [mask])) == expected
        marked = {"id": "r-1", "text": "[[slow]] but [[charming]]"}
        assert read(write_lines(tmp_path / "b.jsonl", [marked]), "marked") == expected
        spans = {"id": "r-1", "spans": [[0, 1], [2, 3]]}
        assert read(write_lines(tmp_path / "c.jsonl", [spans]), "spans") == expected

    def test_csv_and_parquet_are_read_like_json_lines(self, tmp_path):
        expected = [Rationale("r-1", "ben", "llm", (True, False, True))]
        table = tmp_path / "a.csv"
        table.write_text("id,annotator,kind,rationale\nr-1,ben,llm,1 0 1\n", encoding="utf-8")
        assert read(table) == expected
        row = {"id": "r-1", "annotator": "ben", "kind": "llm", "rationale": [1, 0, 1]}
        pq.write_table(pa.Table.from_pylist([row]), tmp_path / "b.parquet")
        assert read(tmp_path / "b.parquet") == expected

    def test_columns_of_the_row_go_before_the_file_s_annotator_and_kind(self, tmp_path):
        rows = [
            {"id": "r-2", "annotator": "ben", "kind": "llm", "rationale": [0, 1]},
            {"id": "r-2", "rationale": [1, 1]},
        ]
        path = write_lines(tmp_path / "a.jsonl", rows)
        assert [(r.annotator, r.kind) for r in read(path)] == [("ben", "llm"), ("ana", "human")]

    def test_a_pair_is_marked_over_both_segments(self, tmp_path):
        path = write_lines(tmp_path / "a.jsonl", [{"id": "p-1", "text": "it [[rains]]", "pair": "[[wet]] day"}])
        assert read(path, "marked")[0].mask == (False, True, True, False)

    @pytest.mark.parametrize(
        ("row", "field", "expected"),
        [
            ({"id": "r-11", "rationale": [0, 1]}, "id", "expected the id of a text of this task, such as 'r-1'"),
            ({"id": "r-2", "rationale": [0, 1, 1]}, "rationale", "got 3 entries; expected 2"),
            ({"id": "r-2", "rationale": [0, 3]}, "rationale", "got 3 at entry 1; expected 0 or 1"),
            ({"id": "r-2", "words": ["a", "muss"], "rationale": [0, 1]}, "words", "expected 'mess' as word 1"),
            (
                {"id": "r-2", "kind": "robot", "rationale": [0, 1]},
                "kind",
                "should be 'human', 'llm' or 'unknown'",
            ),
        ],
    )
    def test_errors_name_file_row_and_field(self, tmp_path, row, field, expected):
        path = write_lines(tmp_path / "bad.jsonl", [{"id": "r-1", "rationale": [0, 0, 1]}, row])
        with pytest.raises(DataError) as caught:
            read(path)
        message = str(caught.value)
        assert f"{path}, row 2, field '{field}'" in message
        assert expected in message

    def test_an_annotator_marks_a_text_once(self, tmp_path):
        row = {"id": "r-2", "rationale": [0, 1]}
        with pytest.raises(DataError, match=r"row 2, field 'id'.*row 1 has one too"):
            read(write_lines(tmp_path / "a.jsonl", [row, row]))

    def test_a_file_must_say_who_marked(self, tmp_path):
        path = write_lines(tmp_path / "a.jsonl", [{"id": "r-2", "rationale": [0, 1]}])
        with pytest.raises(DataError, match="row 1, field 'annotator'"):
            import_rationales(path, RationaleFile(path="a.jsonl"), EXAMPLES)

    def test_marked_text_with_other_words_is_refused(self, tmp_path):
        path = write_lines(tmp_path / "a.jsonl", [{"id": "r-2", "text": "a [[fine]] mess"}])
        with pytest.raises(DataError, match="field 'text': got 'fine'; expected 'mess' as word 1"):
            read(path, "marked")


MOVIE = ("a", "good", "film", ",", "a", "good", "cast", "and", "a", "dull", "plot")
PAIR = Example(
    *("416.jpg#2r1n", ("A", "man", "plays", "a", "guitar."), "neutral", "train", "snli"),
    pair=("A", "man", "sings."),
)


def evidence(text, start, docid="posR_000.txt"):
    end = start + len(text.split())
    # Further fields, such as sentences, are not read.
    return {"docid": docid, "start_token": start, "end_token": end, "text": text, "start_sentence": 0}


def read_published(path, format, example):
    spec = RationaleFile.model_validate({"path": path.name, "format": format, "annotator": "ana", "kind": "human"})
    return import_rationales(path, spec, [example])


class TestEraser:
    """Its JSONL, one group of evidence or more for each document."""

    FILM = Example("posR_000.txt", MOVIE, "positive", "train", "movies")

    def read(self, tmp_path, *evidences, example=FILM):
        row = {"annotation_id": example.id, "classification": "POS", "evidences": evidences, "query": "?"}
        (rationale,) = read_published(write_lines(tmp_path / "train.jsonl", [row]), "eraser", example)
        return [number for number, marked in enumerate(rationale.mask) if marked]

    def test_the_words_at_the_offsets_are_marked_and_no_others(self, tmp_path):
        # "a good" is at the beginning, too.
        assert self.read(tmp_path, [evidence("a good", 4)], [evidence("dull plot", 9)]) == [4, 5, 9, 10]

    def test_a_document_without_evidence(self, tmp_path):
        assert self.read(tmp_path) == []

    def test_a_pair_is_marked_in_the_segment_that_the_evidence_names(self, tmp_path):
        same = [evidence("A man", 0, f"{PAIR.id}_hypothesis")], [evidence("guitar.", 4, f"{PAIR.id}_premise")]
        assert self.read(tmp_path, *same, example=PAIR) == [4, 5, 6]
        # Or in the one that has it there.
        assert self.read(tmp_path, [evidence("sings.", 2, "some.txt")], example=PAIR) == [7]

    @pytest.mark.parametrize(
        ("wrong", "example"),
        [(evidence("good film", 0), FILM), (evidence("plot .", 10), FILM), (evidence("A man", 0), PAIR)],
        ids=["other words", "beyond the end", "in both segments"],
    )
    def test_evidence_that_is_not_there_is_refused(self, tmp_path, wrong, example):
        with pytest.raises(DataError, match=r"train\.jsonl, row 1, field 'evidences': got '.*expected the words"):
            self.read(tmp_path, [wrong], example=example)


class TestEsnli:
    """Its CSV, one annotator for training pairs and three for others."""

    def read(self, tmp_path, **row):
        row = {"pairID": PAIR.id, "Sentence1": "A man plays a guitar.", "Sentence2": "A man sings.", **row}
        path = tmp_path / "esnli_dev.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, row)
            writer.writeheader()
            writer.writerow(row)
        return read_published(path, "esnli", PAIR)

    def test_each_annotator_s_words_are_marked_by_number(self, tmp_path):
        ana, ben = self.read(
            tmp_path,
            **{"Sentence1_Highlighted_1": "{}", "Sentence2_Highlighted_1": "2"},
            **{"Sentence1_Highlighted_2": "1,4", "Sentence2_Highlighted_2": "0, 2"},
            **{"Sentence1_Highlighted_3": "", "Sentence2_Highlighted_3": ""},
        )
        assert (ana.annotator, ana.mask) == ("ana-1", (False,) * 7 + (True,))
        assert (ben.annotator, ben.mask) == ("ana-2", (False, True, False, False, True, True, False, True))

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ({"Sentence1_Highlighted_1": "5", "Sentence2_Highlighted_1": "{}"}, "'5'; expected numbers below 5"),
            ({"Sentence1_Highlighted_1": "man", "Sentence2_Highlighted_1": "{}"}, "'man'; expected numbers of words"),
            ({"Sentence1_Highlighted_1": "{}"}, "'Sentence2_Highlighted_1': missing"),
            ({"Sentence2": "A man smiles."}, "got 'smiles.'; expected 'sings.' as word 2"),
        ],
    )
    def test_what_does_not_fit_the_pair_is_refused(self, tmp_path, row, message):
        with pytest.raises(DataError, match=message):
            self.read(tmp_path, **row)

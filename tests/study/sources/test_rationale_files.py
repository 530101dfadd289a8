"""Files of marked words, read in every format and checked against the texts."""

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
        csv = tmp_path / "a.csv"
        csv.write_text("id,annotator,kind,rationale\nr-1,ben,llm,1 0 1\n", encoding="utf-8")
        assert read(csv) == expected
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
            ({"id": "r-11", "rationale": [0, 1]}, "id", "expected the id of a text"),
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

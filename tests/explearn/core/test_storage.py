import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from explearn import DataError, Example, Rationale
from explearn.core.documents import parse_yaml, read_json, read_jsonl
from explearn_study.example_files import read_examples, read_rationales, write_examples, write_rationales

EXAMPLES = [
    Example("a", ("two", "w\u00f6rds"), "yes", "train", "t"),
    Example("b", ("one",), "no", "train", "t", ("\U0001f600", "pair")),
]


class TestRoundTrips:
    def test_examples(self, tmp_path):
        write_examples(tmp_path / "e.parquet", EXAMPLES)
        assert read_examples(tmp_path / "e.parquet") == EXAMPLES

    def test_questions_keep_their_answers_and_others_have_no_such_column(self, tmp_path):
        asked = Example("q", ("who",), "answer", "train", "t", ("a", "fox"), (1, 3))
        other = Example("r", ("who",), "answer", "train", "t", ("a", "fox"))
        write_examples(tmp_path / "q.parquet", [asked, other])
        assert read_examples(tmp_path / "q.parquet") == [asked, other]
        write_examples(tmp_path / "r.parquet", [other])
        assert "answer" not in pq.read_schema(tmp_path / "r.parquet").names

    def test_rationales(self, tmp_path):
        rows = [Rationale("a", "one", "human", (True, False)), Rationale("b", "two", "llm", (False, True, True))]
        write_rationales(tmp_path / "r.parquet", rows)
        assert read_rationales(tmp_path / "r.parquet") == rows


class TestDamage:
    @pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
    def test_half_a_parquet_file(self, tmp_path, keep):
        path = tmp_path / "e.parquet"
        write_examples(path, EXAMPLES)
        content = path.read_bytes()
        path.write_bytes(content[: int(keep * len(content))])
        with pytest.raises(DataError, match=r"e\.parquet: not a whole Parquet file .*; create it again"):
            read_examples(path)

    def test_no_file(self, tmp_path):
        with pytest.raises(DataError, match=r"e\.parquet: no such file"):
            read_examples(tmp_path / "e.parquet")

    def test_a_missing_column(self, tmp_path):
        pq.write_table(pa.table({"id": ["a"], "label": ["x"]}), tmp_path / "e.parquet")
        with pytest.raises(DataError, match=r"column 'words' is missing; expected id, words, .*, got id, label"):
            read_examples(tmp_path / "e.parquet")

    def test_a_mask_that_has_a_gap(self, tmp_path):
        table = pa.table(
            {"example_id": ["a"] * 2, "annotator": ["x"] * 2, "kind": ["llm"] * 2, "mask": [[True], [None]]}
        )
        pq.write_table(table, tmp_path / "r.parquet")
        with pytest.raises(DataError, match=r"row 2: field .mask\.0.: got nothing"):
            read_rationales(tmp_path / "r.parquet")


class TestDocuments:
    @pytest.mark.parametrize(
        "content",
        [b"{", b"\xff\xfe", b"", b"NaN", b'{"a": ' + b"[" * 100_000 + b"}", b"7" * 5000, b'"\\ud800"'],
        ids=lambda content: ascii(content)[:20],
    )
    def test_no_json(self, tmp_path, content):
        (tmp_path / "j.json").write_bytes(content)
        with pytest.raises(DataError, match=r"j\.json: not valid JSON"):
            read_json(tmp_path / "j.json")
        (tmp_path / "l.jsonl").write_bytes(b'{"a": 1}\n\n{' + content + b"\n")
        with pytest.raises(DataError, match=r"l\.jsonl, (row 3: not valid JSON|line 3: byte 1 is not valid UTF-8)"):
            list(read_jsonl(tmp_path / "l.jsonl"))

    @pytest.mark.parametrize("read", [read_json, read_examples, lambda path: list(read_jsonl(path))])
    def test_a_folder_in_place_of_a_file(self, tmp_path, read):
        with pytest.raises(DataError, match="is a folder; expected a regular file"):
            read(tmp_path)

    def test_blank_lines_and_a_byte_order_mark_are_no_rows(self, tmp_path):
        (tmp_path / "l.jsonl").write_bytes(b'\xef\xbb\xbf{"a": 1}\n\n{"a": 2}')
        assert list(read_jsonl(tmp_path / "l.jsonl")) == [(1, {"a": 1}), (3, {"a": 2})]

    @pytest.mark.parametrize(
        "text", ['!!int ""', "!!bool x", "!!timestamp x", "!!map [1]", "[" * 3000, ":".join("1" * 200) + ".0"]
    )
    def test_yaml_that_has_no_value(self, text):
        with pytest.raises(ValueError, match="not valid YAML"):
            parse_yaml(text)

    def test_an_alias_stands_for_its_value(self):
        assert parse_yaml("a: &a {b: [1]}\nc: *a\nd: {<<: *a, e: 2}")["d"] == {"b": [1], "e": 2}

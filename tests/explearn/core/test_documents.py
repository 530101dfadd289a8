"""JSON, JSON Lines and YAML: what is none ends in a sentence."""

import pytest

from explearn import DataError
from explearn.core.documents import parse_yaml, read_json, read_jsonl


@pytest.mark.parametrize(
    "content",
    [b"{", b"\xff\xfe", b"", b"NaN", b'{"a": ' + b"[" * 100_000 + b"}", b"7" * 5000, b'"\\ud800"'],
    ids=lambda content: ascii(content)[:20],
)
def test_no_json(tmp_path, content):
    (tmp_path / "j.json").write_bytes(content)
    with pytest.raises(DataError, match=r"j\.json: not valid JSON"):
        read_json(tmp_path / "j.json")
    (tmp_path / "l.jsonl").write_bytes(b'{"a": 1}\n\n{' + content + b"\n")
    with pytest.raises(DataError, match=r"l\.jsonl, (row 3: not valid JSON|line 3: byte 1 is not valid UTF-8)"):
        list(read_jsonl(tmp_path / "l.jsonl"))


@pytest.mark.parametrize("read", [read_json, lambda path: list(read_jsonl(path))])
def test_a_folder_in_place_of_a_file(tmp_path, read):
    with pytest.raises(DataError, match="is a folder; expected a regular file"):
        read(tmp_path)


def test_blank_lines_and_a_byte_order_mark_are_no_rows(tmp_path):
    (tmp_path / "l.jsonl").write_bytes(b'\xef\xbb\xbf{"a": 1}\n\n{"a": 2}')
    assert list(read_jsonl(tmp_path / "l.jsonl")) == [(1, {"a": 1}), (3, {"a": 2})]


@pytest.mark.parametrize(
    "text", ['!!int ""', "!!bool x", "!!timestamp x", "!!map [1]", "[" * 3000, ":".join("1" * 200) + ".0"]
)
def test_yaml_that_has_no_value(text):
    with pytest.raises(ValueError, match="not valid YAML"):
        parse_yaml(text)


def test_an_alias_stands_for_its_value():
    assert parse_yaml("a: &a {b: [1]}\nc: *a\nd: {<<: *a, e: 2}")["d"] == {"b": [1], "e": 2}

"""JSON, JSON Lines and YAML: what is none ends in a sentence."""

import pytest
from saying import complaint

import explearn
from explearn import Attribution, DataError
from explearn.core.documents import checked_path, parse_yaml, read_json, read_jsonl
from explearn.core.writing import write_text
from explearn.methods.chance.word_list import WordList

WORDS = {"words": ["a"], "scores": [1], "target": "b", "method": "mine"}


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


@pytest.mark.parametrize(
    "content", ['{"a": 1, "b": 2, "a": 1}', '{"a": 1, "\\u0061": 2}', '[{"b": {"a": 1, "a": []}}]']
)
def test_a_key_twice(tmp_path, content):
    (tmp_path / "j.json").write_text(content)
    complaint(lambda: read_json(tmp_path / "j.json"), "j.json", "got the key 'a' 2 times; expected each once")


@pytest.mark.parametrize("path", [None, 5, b"a", "a\0b", ["a"]])
def test_what_is_no_path(path):
    complaint(lambda: checked_path(path, "out"), "out: got ", "expected a path")


@pytest.mark.parametrize(
    "call",
    [
        explearn.load,
        explearn.load_classifier,
        explearn.export,
        WordList.from_pretrained,
        lambda path: explearn.export("it", explainer=path, method=None if path else "gae", metrics=path, task="a"),
        lambda path: Attribution.from_dict(WORDS).to_html(path or 5),
        lambda path: write_text(path or "\0", ""),
    ],
)
@pytest.mark.parametrize("path", [None, "a\0b"])
def test_a_path_is_asked_for_wherever_there_is_one(call, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    complaint(lambda: call(path))
    assert list(tmp_path.iterdir()) == []


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

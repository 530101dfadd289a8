"""Exports of Label Studio, imported."""

import json

import pytest
from project_cases import TEXTS, digits, example
from saying import complaint

from explearn_study.annotate.people.label_studio import read_label_studio


def task(text, *spans):
    regions = []
    for start, end in spans:
        # Offsets of the browser, in units of UTF-16.
        units = [len(text[:offset].encode("utf-16-le")) // 2 for offset in (start, end)]
        value = {"start": units[0], "end": units[1], "text": text[start:end], "labels": ["EVIDENCE"]}
        regions.append({"type": "labels", "from_name": "label", "to_name": "text", "value": value})
    choice = {"type": "choices", "value": {"choices": ["positive"]}}
    return {"id": 1, "data": {"text": text}, "annotations": [{"completed_by": 3, "result": [*regions, choice]}]}


def at(text, *words):
    return [(text.index(word), text.index(word) + len(word)) for word in words]


def write(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def marks(path):
    rationales = read_label_studio(path, TEXTS)
    return {(r.example_id, r.annotator): digits(r.mask) for r in rationales}


EMOJI = TEXTS[2].text  # the emoji and the words after it are where offsets differ


def test_spans_become_marks_by_whoever_annotated(tmp_path):
    tasks = [
        task(EMOJI, *at(EMOJI, "harming", "\u6620\u753b \U0001f600 !")),
        task(TEXTS[1].text),
        {"id": 3, "data": {"text": TEXTS[4].text}, "annotations": []},
        {
            "data": {"text": "a  warm and\nfunny film", "id": "f-7"},
            "annotations": [
                {"completed_by": {"id": 9, "email": "a@b.c"}, "result": []},
                {"completed_by": 4, "was_cancelled": True, "result": []},
            ],
        },
    ]
    assert marks(write(tmp_path / "e.json", tasks)) == {
        ("f-2", "annotator-3"): "00100111",
        ("f-1", "annotator-3"): "0000000",
        ("f-7", "a@b.c"): "00000",
    }


def test_the_short_form(tmp_path):
    text = TEXTS[1].text
    spans = [{"start": s, "end": e, "text": text[s:e], "labels": ["EVIDENCE"]} for s, e in at(text, "dull", "film")]
    rows = [
        {"id": 1, "text": text, "annotator": 2, "label": spans, "sentiment": "negative"},
        {"id": 2, "text": TEXTS[4].text},  # nobody has looked at it
    ]
    path = write(tmp_path / "min.json", rows)
    assert marks(path) == {("f-1", "annotator-2"): "0000011"}


def test_the_command_files_them_as_human_marks(films):
    path = write(films.root / "e.json", [task(EMOJI, *at(EMOJI, "charming"))])
    assert "human.jsonl: 1 mark\n" in films.succeed("import", path)
    (row,) = films.rows("human.jsonl")
    assert (row["id"], row["kind"], row["rationale"]) == ("f-2", "human", [0, 0, 1, 0, 0, 0, 0, 0])


def region(**change):
    value = {"start": 0, "end": 3, "text": "one", **change}
    return {"data": {"text": "one two"}, "annotations": [{"result": [{"value": value}]}]}


@pytest.mark.parametrize(
    "document",
    [
        [{"data": {"text": "another text"}, "annotations": [{"result": []}]}],
        [region(end=99, text=None)],
        [region(text="two")],
        [{"text": "one two", "label": [{"start": "0", "end": 3}], "annotator": 1}],
        [region(), region()],
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_what_does_not_fit_is_named(tmp_path, document):
    path = write(tmp_path / "export.json", document)
    complaint(lambda: read_label_studio(path, [example(0, "one two", "yes")]), str(path))

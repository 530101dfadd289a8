"""What annotation tools, people, prompts and servers send that cannot be used."""

import json

import pytest
import yaml
from saying import complaint

from explearn import Example, Rationale
from explearn_study.annotate.llm.prompts import bind_prompt
from explearn_study.annotate.people.label_studio import read_label_studio
from explearn_study.annotate.people.sheets import read_sheet
from explearn_study.annotate.task import Store
from explearn_study.sections import LLMAnnotatorParams

EXAMPLES = [Example("a", ("one", "two"), "yes", "train", "t"), Example("b", ("three",), "no", "train", "t")]


REGION = {"start": 0, "end": 3, "text": "one", "labels": ["e"]}


def studio(**change):
    return {"data": {"text": "one two"}, "annotations": [{"result": [{"value": {**REGION, **change}}]}]}


LABEL_STUDIO = [
    [{"data": {"text": "another text"}, "annotations": [{"result": []}]}],
    [studio(end=99, text=None)],
    [studio(text="two")],
    [{"text": "one two", "label": [{"start": "0", "end": 3}], "annotator": 1}],
    [studio(), studio()],
]


@pytest.mark.parametrize("document", LABEL_STUDIO, ids=lambda value: ascii(value)[:60])
def test_label_studio(tmp_path, document):
    path = tmp_path / "export.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    complaint(lambda: read_label_studio(path, EXAMPLES), str(path))


SHEETS = [
    {"sheet": "mark", "id": "a", "text": "one two"},
    {"sheet": "mark", "id": "a", "text": "one two", "shown": "0 \u00b2"},
    {"sheet": "mark", "id": "a", "text": "[[one]] two", "shown": "0 0", "annotator": "ana", "verdict": "reject"},
    {"sheet": "check", "id": "a", "text": "one two", "shown": "0 0", "annotator": "ana", "rationale": {"0": 1}},
]


@pytest.mark.parametrize("row", SHEETS, ids=lambda value: ascii(value)[:60])
def test_sheets(tmp_path, row):
    path = tmp_path / "sheet.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    complaint(lambda: read_sheet(path, EXAMPLES, None), str(path), "row 1")


STORED = ['{"annotator": "x"}', "[]", '{"id": "a", "annotator": {}}']


@pytest.mark.parametrize("line", STORED)
def test_what_is_stored(tmp_path, line):
    store = Store(tmp_path, EXAMPLES)
    store.human.write_text(line + "\n", encoding="utf-8")
    complaint(lambda: store.add(store.human, [Rationale("a", "ana", "human", (True, False))]), "row 1")


PROMPT = {"summary": "s", "order": ["label", "evidence", "reason"], "system": "{{ about }}"}


TEMPLATES = [
    "{{ nothing }}",
    "{{ range(1000000000) | join }}",
    "{{ ''.__class__.__mro__ }}",
    "{% include '/etc/passwd' %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{{ " + "(" * 4000 + "1" + ")" * 4000 + " }}",
]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda value: value[:40])
@pytest.mark.timeout(30)
def test_templates(tmp_path, template):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**PROMPT, "system": template}), encoding="utf-8")
    settings = LLMAnnotatorParams(about="short film reviews")
    complaint(lambda: bind_prompt(str(path), "films", ["yes", "no"], [], settings), str(path), "system")


@pytest.mark.parametrize("name", ["nobody", "evidence-99", "none.yaml"])
def test_prompts_that_are_not_there(name):
    complaint(lambda: bind_prompt(name, "films", ["yes", "no"], [], LLMAnnotatorParams()))

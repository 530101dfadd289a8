"""YAML documents that cannot be parameters or rules. What parameters must not say: tests/study/test_params.py."""

import pytest
from saying import complaint

import explearn
from explearn.methods.registry import explainer_class
from explearn_study.params import Params, load_params
from explearn_study.report.gate import load_gate

DOCUMENTS = {
    "a list": b"- 1\n",
    "a date that does not exist": b"profile: 2026-02-30\n",
    "a mapping inside itself": b"&m\nprofile: *m\n",
    "a key twice below": b"finetune:\n  epochs: 1\n  epochs: 2\n",
    "a tag of Python": b"profile: !!python/object/apply:os.system ['true']\n",
    "bytes that are no UTF-8": b"profile: \xff\xfe\n",
    "a terminal's commands": b'"\\e[31mred": 3\n',
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents(tmp_path, name):
    path = tmp_path / "params.yaml"
    path.write_bytes(DOCUMENTS[name])
    complaint(lambda: load_params(path), str(path))
    complaint(lambda: load_gate(path), str(path))


def test_places_without_a_file(tmp_path):
    for path in (tmp_path, tmp_path / "none.yaml", tmp_path / ("x" * 300)):
        complaint(lambda path=path: load_params(path))


def whole_numbers(schema, where):
    """Every whole number in a JSON schema, with its place."""
    if isinstance(schema, dict):
        if schema.get("type") == "integer" and "const" not in schema:
            yield where, schema
        for name, part in schema.items():
            yield from whole_numbers(part, f"{where}.{name}")
    elif isinstance(schema, list):
        for part in schema:
            yield from whole_numbers(part, where)


def test_every_whole_number_has_a_largest_value():
    """Without one, a slip of the keyboard fills the memory or never ends."""
    sections = [Params, *{explainer_class(name).Options for name in explearn.list_explainers()}]
    numbers = []
    for section in sections:
        numbers += whole_numbers(section.model_json_schema(), section.__qualname__)
    assert len(numbers) > 60
    endless = [where for where, schema in numbers if not {"maximum", "exclusiveMaximum"} & schema.keys()]
    # Numbers of layers and heads, which must be those of the model.
    assert [where for where in endless if ".heads." not in where] == []

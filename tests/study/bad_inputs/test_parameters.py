"""Parameters, rules and methods' options that cannot be used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from parameter_cases import BASE
from saying import complaint

import explearn
from explearn.methods.registry import explainer_class
from explearn_study.params import Params, load_params
from explearn_study.report.gate import check, from_path, load_gate

DOCUMENTS: dict[str, bytes] = {
    "empty": b"",
    "only a comment": b"# nothing\n",
    "a list": b"- 1\n",
    "a number": b"13\n",
    "a text": b"hello\n",
    "two documents": b"a: 1\n---\nb: 2\n",
    "an open list": b"tasks: [a\n",
    "tabs": b"a:\n\t- 1\n",
    "a date that does not exist": b"profile: 2026-02-30\n",
    "a time that does not exist": b"profile: 2026-02-03 25:61:61\n",
    "nested lists": b"tasks: " + b"[" * 5000 + b"\n",
    "nested and closed lists": b"tasks: " + b"[" * 300 + b"]" * 300 + b"\n",
    "nested mappings": b"".join(b" " * i + b"a:\n" for i in range(400)) + b" " * 400 + b"1\n",
    "a number of 5,000 digits": b"seed: " + b"9" * 5000 + b"\n",
    "a negative one": b"seed: -" + b"9" * 5000 + b"\n",
    "a hexadecimal one": b"seed: 0x" + b"f" * 5000 + b"\n",
    "an octal one": b"seed: 0" + b"7" * 6000 + b"\n",
    "aliases of aliases": b"a: &a0 [1,1,1,1,1,1,1,1,1,1]\n"
    + b"".join(b"b%d: &a%d [%s]\n" % (i, i, b",".join([b"*a%d" % (i - 1)] * 10)) for i in range(1, 9)),
    "a list inside itself": b"tasks: &t [*t]\n",
    "a mapping inside itself": b"&m\nprofile: *m\n",
    "an unknown alias": b"tasks: *nobody\n",
    "a key twice": b"profile: a\nprofile: b\n",
    "a key twice below": b"finetune:\n  epochs: 1\n  epochs: 2\n",
    "a list as key": b"? [1, 2]\n: 3\n",
    "a tag of Python": b"profile: !!python/object/apply:os.system ['true']\n",
    "a tag of nobody": b"profile: !mine 3\n",
    "a tag that does not fit": b"seed: !!int thirteen\n",
    "a truth that is none": b"seed: !!bool perhaps\n",
    "a time stamp that is none": b"seed: !!timestamp noon\n",
    "bytes that are none": b"seed: !!binary '%%%'\n",
    "bytes that are no UTF-8": b"profile: \xff\xfe\n",
    "UTF-16": "profile: p\n".encode("utf-16"),
    "a NUL": b"profile: a\x00b\n",
    "a bell": b"profile: a\x07b\n",
    "a surrogate": b"profile: \xed\xa0\x80\n",
    "bytes at random": bytes(range(128, 256)),
    "five megabytes": b"# " + b"x" * 5_000_000 + b"\nprofile: p\n",
    "a merge of a number": b"a: &a 3\nb:\n  <<: *a\n",
    "a percent directive": b"%YAML 9.9\n---\na: 1\n",
    "an escape that is none": b'profile: "\\q"\n',
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents(tmp_path: Path, name: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_bytes(DOCUMENTS[name])
    complaint(lambda: load_params(path), str(path))
    complaint(lambda: load_gate(path), str(path))


def changed(where: str, value: Any) -> dict[str, Any]:
    found = json.loads(json.dumps(BASE))
    *path, last = where.split(".")
    inner = found
    for key in path:
        inner = inner.setdefault(key, {})
    inner[last] = value
    return found


VALUES: list[tuple[str, Any]] = [
    ("seed", -1),
    ("seed", 2**32),
    ("seed", 10**40),
    ("seed", 1.5),
    ("seed", "\u00b2"),
    ("seed", "thirteen"),
    ("seed", None),
    ("seed", [13]),
    ("profile", 3),
    ("profile", None),
    ("tasks", []),
    ("tasks", "films"),
    ("tasks", [3]),
    ("tasks", ["films", "films"]),
    ("tasks", ["films", "books"]),
    ("tasks", ["../films"]),
    ("sources", []),
    ("sources", {}),
    ("sources.films", None),
    ("sources.films.kind", "ftp"),
    ("sources.films.adapter", 3),
    ("sources.films.columns", ["text"]),
    ("sources.films.columns.text", 3),
    ("sources.films.carve_test", 0),
    ("sources.films.carve_test", 1.5),
    ("sources.films.carve_validation", float("nan")),
    ("sources.films.max_examples", 5),
    ("sources.films.max_examples", {"train": 0}),
    ("sources.films.max_examples", {"train": 10**12}),
    ("sources.films.max_examples", {"training": 5}),
    ("sources.films.splits", {"dev": "dev"}),
    ("sources.films.labels", "a"),
    ("sources.films.nonsense", 1),
    ("finetune.epochs", 0),
    ("finetune.epochs", 10**9),
    ("finetune.epochs", "many"),
    ("finetune.batch_size", 10**10),
    ("finetune.learning_rate", 0),
    ("finetune.learning_rate", float("inf")),
    ("finetune.learning_rate", float("nan")),
    ("finetune.learning_rate", "fast"),
    ("finetune.max_length", 4),
    ("finetune.max_length", 10**12),
    ("finetune.epoch", 3),
    ("finetune.selection", "f1"),
    ("attend.layer", 10**12),
    ("attend.hidden_states", "perhaps"),
    ("explainer", "nobody"),
    ("explainers", []),
    ("explainers", ["rollout"]),
    ("explainers", ["nobody"]),
    ("explainers", {"l2e": ["expnet"]}),
    ("explainers", {"l2e": 1}),
    ("explainers", {"l2e": "l2e"}),
    ("explainers", {"l2e": {"l2e": 1}}),
    ("explainers", {"l2e": [["l2e"]]}),
    ("explainers", {"l2e": [None]}),
    ("explainers", {3: ["l2e"]}),
    ("explainers", ["expnet_in_domain", "expnet_in_domain"]),
    ("expnet.hidden", 1e10),
    ("expnet.hidden", 10**10),
    ("expnet.hidden", 0),
    ("expnet.epochs", 10**12),
    ("expnet.hidden", 10**12),
    ("expnet.aim", 2),
    ("l2e.layers", 10**12),
    ("l2e.width", 10**12),
    ("l2e.width", 7),
    ("l2e.dropout", 1),
    ("ivra.schedule.epochs", 10**12),
    ("ivra.student.dimensions", 10**12),
    ("variants.mine", {"of": "nobody"}),
    ("variants.mine", {}),
    ("variants.mine", {"of": ["expnet"]}),
    ("variants.../up", {"of": "expnet"}),
    ("baselines.quick", {"nobody": {}}),
    ("baselines.quick", {"lime": {}}),
    ("baselines.costly", {"rollout": {}}),
    ("baselines.quick", ["rollout"]),
    ("baselines.fast", {}),
    ("teachers", {"expnet": {}}),
    ("distil.teachers", ["nobody"]),
    ("distil.seeds", 10**12),
    ("refiners", ["rollout"]),
    ("transfer", ["expnet"]),
    ("evaluate.bootstrap_samples", 10**12),
    ("evaluate.percents", []),
    ("evaluate.percents", [0]),
    ("evaluate.percents", 5),
    ("evaluate.infidelity_samples", 10**12),
    ("evaluate.simulatability.steps", 10**12),
    ("evaluate.simulatability.folds", 1),
    ("sanity.texts", 10**12),
    ("sanity.methods", ["nobody"]),
    ("report.examples", 10**12),
    ("rationales", {"books": {}}),
    ("rationales.films", {"llm": {"temperature": 9}}),
    ("rationales.films", {"llm": {"max_tokens": 10**12}}),
    ("rationales.films", {"llm": {"shots": 10**12}}),
    ("rationales.films", {"files": [{"path": 3}]}),
    ("rationales.films", {"files": [{"path": "a", "format": "xml"}]}),
    ("rationale_agreement", 2),
    ("nonsense", 3),
    ("curve.marks", [10**30]),
    ("curve.draws", 10**12),
    ("signals.removal_samples", 10**12),
    ("signals.removal_samples", 1),
    ("attend.layers", [10**12]),
    ("expnet.layers", [-(10**12)]),
    ("consensus.bootstrap", 10**12),
    ("evidence.../up", {}),
    ("evidence.page", {"texts": 0}),
    ("\u001b[31mred", 3),
    ("explainer", "\u001b[2Jcleared"),
]


@pytest.mark.parametrize(("where", "value"), VALUES, ids=lambda value: ascii(value)[:40])
def test_values(tmp_path: Path, where: str, value: Any) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(changed(where, value)), encoding="utf-8")
    complaint(lambda: load_params(path), str(path))


def test_the_parameters_that_these_differ_from_are_good(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(BASE), encoding="utf-8")
    assert load_params(path).tasks == ["films"]


def whole_numbers(schema: Any, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every whole number in a JSON schema, with its place."""
    if isinstance(schema, dict):
        if schema.get("type") == "integer" and "const" not in schema:
            yield where, schema
        for name, part in schema.items():
            yield from whole_numbers(part, f"{where}.{name}")
    elif isinstance(schema, list):
        for part in schema:
            yield from whole_numbers(part, where)


def test_every_whole_number_has_a_largest_value() -> None:
    """Without one, a slip of the keyboard fills the memory or never ends."""
    learned = [name for name in explearn.list_explainers() if explearn.get_info(name).learned]
    declared = {explainer_class(name).Options for name in learned}
    found = [
        (where, schema)
        for section in [Params, *declared]
        for where, schema in whole_numbers(section.model_json_schema(), section.__name__)
    ]
    assert len(found) > 60
    assert [where for where, schema in found if not {"maximum", "exclusiveMaximum"} & schema.keys()] == []


def test_places_without_a_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.yaml", tmp_path / ("x" * 300), tmp_path / "a\x00b"):
        complaint(lambda path=path: load_params(path))
        complaint(lambda path=path: load_gate(path))


RULES: dict[str, Any] = {
    "null": None,
    "a list": [],
    "no rules": {"rules": []},
    "a rule that is a text": {"rules": ["f1"]},
    "no tolerance": {"rules": [{"metric": "a", "direction": "higher"}]},
    "a negative tolerance": {"rules": [{"metric": "a", "direction": "higher", "tolerance": -1}]},
    "a tolerance without end": {"rules": [{"metric": "a", "direction": "higher", "tolerance": float("inf")}]},
    "no direction": {"rules": [{"metric": "mine", "tolerance": 0}]},
    "another direction": {"rules": [{"metric": "mine", "direction": "up", "tolerance": 0}]},
    "a metric that is a number": {"rules": [{"metric": 3, "direction": "higher", "tolerance": 0}]},
    "an option too many": {"rules": [{"metric": "a", "direction": "higher", "tolerance": 0, "more": 1}]},
    "a file that is a list": {"rules": [{"metric": "a", "direction": "higher", "tolerance": 0, "file": []}]},
}


@pytest.mark.parametrize("name", RULES)
def test_rules(tmp_path: Path, name: str) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(yaml.safe_dump(RULES[name]), encoding="utf-8")
    complaint(lambda: load_gate(path), str(path))


METRICS: dict[str, bytes] = {
    "empty": b"",
    "cut short": b'{"a": 1',
    "NaN": b'{"a": NaN}',
    "many digits": b'{"a": ' + b"9" * 5000 + b"}",
    "nested": b'{"a": ' + b"[" * 100_000 + b"}",
    "nested and closed": b'{"a":' * 900 + b"1" + b"}" * 900,
    "no UTF-8": b'{"a": "\xff"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "a list": b"[1]",
    "a comma too many": b'{"a": 1,}',
    "a comment": b'{"a": 1} // b',
    "no such figure": b'{"b": 1}',
}


@pytest.mark.parametrize("name", METRICS)
def test_metrics(tmp_path: Path, name: str) -> None:
    rules, path = tmp_path / "gate.yaml", tmp_path / "metrics.json"
    rules.write_text(yaml.safe_dump({"rules": [{"metric": "a", "direction": "higher", "tolerance": 0}]}), "utf-8")
    path.write_bytes(METRICS[name])

    def compare() -> object:
        found = from_path(["reports/metrics.json"], path)
        return check(load_gate(rules), found, found)

    complaint(compare)


def known(name: str) -> str:
    """`name`, unless the registry calls the method otherwise."""
    listed = explearn.list_explainers()
    return name if name in listed or name in ("nobody", "", "rolout") else next(n for n in listed if name in n)

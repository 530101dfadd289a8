"""Files that an earlier run left and somebody damaged: scores, and manifests of pages."""

import json

import pytest
from cli_cases import run
from saying import complaint

from explearn.comparison.score_files import read_scores
from explearn.subject.manifest import check_manifest


@pytest.mark.parametrize("score", [1e39, True], ids=ascii)
def test_scores_from_elsewhere(tmp_path, score):
    path = tmp_path / "scores.jsonl"
    path.write_text(json.dumps({"words": ["a", "film"], "scores": [0, score]}) + "\n", encoding="utf-8")
    complaint(lambda: read_scores([path]), "row 1", "'scores", "expected")


MANIFEST = {
    "manifest": 2,
    "root": ".",
    "parts": {},
    "versions": {},
    "classifiers": {},
}

MANIFESTS = [
    ("manifest", True),
    ("parts", {"data": {"paths": [], "files": {"a": [1]}}}),
    ("versions", {"torch": [1]}),
    ("classifiers", {"films": {"name": 3, "fingerprint": "x"}}),
]


@pytest.mark.parametrize(("field", "value"), MANIFESTS, ids=lambda value: ascii(value)[:40])
def test_manifests_of_pages(tmp_path, field, value):
    path = tmp_path / "page.json"
    path.write_text(json.dumps({**MANIFEST, field: value}), encoding="utf-8")
    complaint(lambda: check_manifest(path, str), str(path))


def test_names_in_a_manifest_cannot_steer_the_terminal(tmp_path):
    path = tmp_path / "page.json"
    names = {"parts": {"data": {"paths": [], "files": {"\x1b[2J": "x"}}}, "versions": {"\x1b[31m": "1"}}
    path.write_text(json.dumps({**MANIFEST, **names}), encoding="utf-8")
    result = run("verify", str(path))
    assert result.exit_code == 1
    assert "\\x1b[2J is missing" in result.stdout and "\x1b" not in result.stdout


def test_a_classifier_outside_the_workspace_is_told_by_its_weights_alone(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "config.json").write_text("{}", encoding="utf-8")
    path = tmp_path / "project" / "page.json"
    path.parent.mkdir()
    classifiers = {"films": {"name": str(elsewhere), "fingerprint": "0" * 64}}
    path.write_text(json.dumps({**MANIFEST, "classifiers": classifiers}), encoding="utf-8")
    actual = check_manifest(path, lambda name: "1" * 64).differences
    assert f"classifier of films ({elsewhere}): is another one, by its fingerprint" in actual
    assert not any(line.startswith("models: ") for line in actual)

"""Files that an earlier run left and somebody damaged: of large jobs, comparisons and evidence pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from saying import command_complaint, complaint
from typer.testing import CliRunner

from explearn.bundle.export import export
from explearn.cli.app import app
from explearn.comparison.score_files import read_scores
from explearn.core.errors import ModelError
from explearn_apps.jobs.manifest import read_manifest
from explearn_study.report.evidence import check_manifest

PART = {"file": "part-00000.parquet", "first": 0, "texts": 2, "rows": 10, "bytes": 3, "sha256": "x"}
JOB = {"format": 1, "texts": 2, "settings": {"threads": 1, "max_tokens": 100}, "parts": {"0": PART}}

JOBS: dict[str, Any] = {
    "nothing": None,
    "a list": [],
    "format": {**JOB, "format": 2},
    "format in words": {**JOB, "format": "1"},
    "no settings": {"format": 1},
    "settings that are a list": {**JOB, "settings": []},
    "texts below none": {**JOB, "texts": -1},
    "texts without end": {**JOB, "texts": 10**50},
    "texts in words": {**JOB, "texts": "2"},
    "texts that are a truth": {**JOB, "texts": True},
    "no thread": {**JOB, "settings": {"threads": 0, "max_tokens": 1}},
    "threads without end": {**JOB, "settings": {"threads": 10**8, "max_tokens": 1}},
    "tokens without end": {**JOB, "settings": {"threads": 1, "max_tokens": 10**40}},
    "parts that are a list": {**JOB, "parts": []},
    "a part that is a number": {**JOB, "parts": {"0": 3}},
    "a part in words": {**JOB, "parts": {"x": PART}},
    "half a part": {**JOB, "parts": {"0": {"file": "x"}}},
    "a field too many": {**JOB, "parts": {"0": {**PART, "more": 1}}},
    **{
        f"{name} {value!r}": {**JOB, "parts": {"0": {**PART, name: value}}}
        for name, value in (
            ("file", 3),
            ("first", -1),
            ("first", "x"),
            ("texts", []),
            ("texts", 10**40),
            ("rows", None),
            ("rows", "x"),
            ("bytes", "x"),
            ("sha256", 3),
        )
    },
}


@pytest.mark.parametrize("name", JOBS)
def test_manifests_of_jobs(tmp_path: Path, name: str) -> None:
    (tmp_path / "_manifest.json").write_text(json.dumps(JOBS[name]), encoding="utf-8")
    complaint(lambda: read_manifest(tmp_path), "_manifest.json")


def test_that_these_differ_from_a_good_one(tmp_path: Path) -> None:
    (tmp_path / "_manifest.json").write_text(json.dumps(JOB), encoding="utf-8")
    found = read_manifest(tmp_path)
    assert found is not None and found.parts[0].rows == 10


class TestAJobAgain:
    """A job whose manifest was changed in a way that only the input shows."""

    @pytest.fixture(scope="class")
    def job(self, tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> tuple[Path, list[str]]:
        root = tmp_path_factory.mktemp("job")
        (root / "in.jsonl").write_text('{"text": "a film"}\n' * 3, encoding="utf-8")
        options = ["--classifier", str(tiny_folder), "--method", "random", "--shard-texts", "2", "--device", "cpu"]
        words = ["explain", "--input", str(root / "in.jsonl"), "--output", str(root / "out"), *options]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        return root / "out", words

    def test_more_texts_than_there_are(self, job: tuple[Path, list[str]]) -> None:
        folder, words = job
        path = folder / "_manifest.json"
        good = path.read_text(encoding="utf-8")
        path.write_text(json.dumps({**json.loads(good), "texts": 99}), encoding="utf-8")
        before = sorted(folder.iterdir())
        command_complaint(*words, words=("_manifest.json", "99"))
        assert sorted(folder.iterdir()) == before
        path.write_text(good, encoding="utf-8")

    @pytest.mark.parametrize("change", [{"first": 1}, {"texts": 1}, {"file": "../in.jsonl"}])
    def test_another_place_in_the_input(self, job: tuple[Path, list[str]], change: dict[str, Any]) -> None:
        folder, words = job
        path = folder / "_manifest.json"
        good = json.loads(path.read_text(encoding="utf-8"))
        bad = {**good, "parts": {**good["parts"], "0": {**good["parts"]["0"], **change}}}
        path.write_text(json.dumps(bad), encoding="utf-8")
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        assert "is not as it was written" in result.stderr
        assert json.loads(path.read_text(encoding="utf-8")) == good

    @pytest.mark.parametrize("option", [("--windows", "0"), ("--target", "nobody"), ("--option", "seed=x")])
    def test_nothing_is_written_where_a_new_one_is_refused(
        self, job: tuple[Path, list[str]], tmp_path: Path, option: tuple[str, str]
    ) -> None:
        words = [str(tmp_path / "new") if word == str(job[0]) else word for word in job[1]]
        command_complaint(*words, *option)
        assert not (tmp_path / "new" / "_manifest.json").exists()


def test_an_option_twice(tiny_folder: Path) -> None:
    words = ["explain", "a", "--classifier", str(tiny_folder), "--method", "lime", "-o", "samples=9", "-o", "samples=8"]
    command_complaint(*words, words=("samples", "twice"))


# ---- scores from elsewhere ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", [1e39, -1e300, 10**90, True, "1", [1]], ids=ascii)
def test_scores_from_elsewhere(tmp_path: Path, score: Any) -> None:
    path = tmp_path / "scores.jsonl"
    path.write_text(json.dumps({"words": ["a", "film"], "scores": [0, score]}) + "\n", encoding="utf-8")
    complaint(lambda: read_scores([path]), "row 1", "'scores.1'", "expected")


# ---- evidence pages and bundles --------------------------------------------------------------------------------------

EVIDENCE: dict[str, Any] = {
    "manifest": 1,
    "root": ".",
    "files": {"data": {}, "models": {}, "results": {}, "code": {}},
    "versions": {},
    "classifiers": {},
}

MANIFESTS: list[tuple[str, Any]] = [
    ("manifest", True),
    ("manifest", 1.0),
    ("manifest", 2),
    ("root", 3),
    ("root", None),
    ("files", []),
    ("files", {}),
    ("files", {"data": 3, "models": {}, "results": {}, "code": {}}),
    ("files", {"data": {"a": [1]}, "models": {}, "results": {}, "code": {}}),
    ("versions", []),
    ("versions", {"torch": [1]}),
    ("classifiers", {"films": 3}),
    ("classifiers", {"films": {"name": 3, "fingerprint": "x"}}),
    ("classifiers", {"films": {"name": "x"}}),
]


@pytest.mark.parametrize(("field", "value"), MANIFESTS, ids=lambda value: ascii(value)[:40])
def test_manifests_of_evidence_pages(tmp_path: Path, field: str, value: Any) -> None:
    path = tmp_path / "page.json"
    path.write_text(json.dumps({**EVIDENCE, field: value}), encoding="utf-8")
    complaint(lambda: check_manifest(path, str), str(path))


def test_names_in_a_manifest_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "page.json"
    names = {"files": {**EVIDENCE["files"], "data": {"\x1b[2J": "x"}}, "versions": {"\x1b[31m": "1"}}
    path.write_text(json.dumps({**EVIDENCE, **names}), encoding="utf-8")
    result = CliRunner().invoke(app, ["verify", str(path)])
    assert result.exit_code == 1
    assert "\\x1b[2J is missing" in result.stdout and "\x1b" not in result.stdout


def test_a_classifier_that_cannot_be_loaded_is_told_with_the_reason(tmp_path: Path) -> None:
    def refuse(name: str) -> str:
        raise ModelError(f"{name}: the hub cannot be reached")

    path = tmp_path / "page.json"
    classifiers = {"films": {"name": "someone/model", "fingerprint": "0" * 64}}
    path.write_text(json.dumps({**EVIDENCE, "classifiers": classifiers}), encoding="utf-8")
    said = "classifier of films (someone/model): cannot be loaded (someone/model: the hub cannot be reached)"
    assert said in check_manifest(path, refuse)


def test_a_classifier_outside_the_workspace_is_told_by_its_weights_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "config.json").write_text("{}", encoding="utf-8")
    path = tmp_path / "project" / "page.json"
    path.parent.mkdir()
    classifiers = {"films": {"name": str(elsewhere), "fingerprint": "0" * 64}}
    path.write_text(json.dumps({**EVIDENCE, "classifiers": classifiers}), encoding="utf-8")
    found = check_manifest(path, lambda name: "1" * 64)
    assert f"classifier of films ({elsewhere}): weights or labels differ" in found
    assert not any(line.startswith("models: ") for line in found)


def test_a_bundle_inside_the_folder_of_its_explainer(tmp_path: Path) -> None:
    complaint(lambda: export(tmp_path / "l2e" / "bundle", explainer=tmp_path / "l2e"), "inside")

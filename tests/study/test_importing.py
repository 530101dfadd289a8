"""A classifier that somebody trained elsewhere, through the whole pipeline: no training, no marked words."""

import json
import shutil
from pathlib import Path

import cli_cases
import pytest
import tiny
import yaml
from files import write_lines
from stage_cases import change_params, run, succeed

from explearn import Evaluation, load_classifier
from explearn.core.documents import read_json

TEXTS = ("the quick brown fox", "a warm funny sequel", "no refund whatsoever", "our friendly guide sleeps")


def verify(folder):
    done = cli_cases.run("verify", str(folder / "reports/report.json"))
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A project of one task, whose classifier calls its classes otherwise than the texts do. Tests leave it be."""
    folder = tmp_path_factory.mktemp("project")
    for split, count in (("train", 8), ("validation", 4), ("test", 6)):
        rows = [{"text": f"{TEXTS[n % 4]} {split} {n}", "label": ("good", "bad")[n % 2]} for n in range(count)]
        write_lines(folder / "mine" / "films" / f"{split}.jsonl", rows)
    tiny.save(folder / "theirs", "bert", 2)
    params = {
        "profile": "mine",
        "data_dir": "mine",
        "tasks": ["films"],
        "sources": {"films": {"kind": "files", "adapter": "custom", "columns": {"text": "text"}}},
        "classifiers": {"films": {"name": "theirs", "labels": {"no": "bad", "yes": "good"}}},
        "methods": {"random": {}, "rollout": {}, "occlusion": {}},
        "finetune": {"epochs": 2, "batch_size": 4, "learning_rate": 1e-2},
        "evaluate": {"simulatability": {"steps": 5, "repeats": 1}, "twin": True},
        "sanity": {"texts": 2, "noise_samples": 1, "seeds": 2, "random_labels": True, "cascade": True},
    }
    (folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False), encoding="utf-8")
    succeed(folder, "code")
    for stage in ("prepare", "rationalise", "finetune", "features", "explain", "judge"):
        succeed(folder, stage, "--task", "films")
    succeed(folder, "report")
    return folder


@pytest.fixture
def project(finished, tmp_path):
    """A copy to break."""
    return Path(shutil.copytree(finished, tmp_path / "project"))


class TestImport:
    def test_the_weights_are_theirs_and_the_names_those_of_the_texts(self, finished):
        theirs = load_classifier(finished / "theirs", device="cpu")
        ours = load_classifier(finished / "data/classifiers/films", device="cpu")
        assert (theirs.labels, ours.labels) == (["no", "yes"], ["bad", "good"])
        first, second = (c.predict_proba(TEXTS) for c in (theirs, ours))
        assert (first == second).all()

    def test_it_is_judged_and_not_trained(self, finished):
        document = read_json(finished / "data/classifiers/films.json")
        ours = load_classifier(finished / "data/classifiers/films", device="cpu")
        rows = [json.loads(line) for line in (finished / "mine/films/test.jsonl").read_text().splitlines()]
        right = [ours.predict([row["text"]])[0] == row["label"] for row in rows]
        assert document["epochs"] == 0
        assert document["test"]["accuracy"] == pytest.approx(sum(right) / len(right))
        assert document["imported"]["fingerprint"] == ours.fingerprint

    def test_classes_that_are_not_the_labels(self, project):
        change_params(project, classifiers={"films": "theirs"})
        done = run(project, "finetune", "--task", "films")
        assert done.exit_code == 2
        (line,) = done.stderr.splitlines()
        assert "theirs: its classes are no, yes, the texts' labels are 'bad', 'good'" in line
        assert "classifiers.films.labels" in line


class TestWithoutExplainers:
    def test_the_folder_is_there_on_which_stages_depend(self, finished):
        # DVC ends a run in which a dependency is missing that no stage writes.
        assert list((finished / "data/explainers/films").iterdir()) == []

    def test_the_sanity_checks_are_over_all_seeds(self, finished):
        checked = Evaluation.load(finished / "reports/metrics/films").sanity["rollout"]
        assert checked.random_labels.spearman is not None and checked.random_model


class TestTwin:
    def test_explanations_of_the_classifier_are_measured_on_another_one(self, finished):
        on_classifier = Evaluation.load(finished / "reports/metrics/films").figures
        on_twin = Evaluation.load(finished / "reports/metrics/films/twin").figures
        assert list(on_twin) == list(on_classifier)
        for method, figures in on_twin.items():
            assert figures["texts"] == on_classifier[method]["texts"]
            assert figures["comprehensiveness"] != on_classifier[method]["comprehensiveness"]
        assert "stability_semantic" not in on_twin["rollout"]
        assert "## Removal inside the distribution" in (finished / "reports/report.md").read_text(encoding="utf-8")


class TestManifest:
    def test_nothing_differs_from_the_manifest_of_a_run(self, finished):
        code, said = verify(finished)
        assert code == 0, said
        assert said.endswith("are unchanged.\n")

    def test_what_differs_is_named(self, project):
        (project / "data/examples/films/test.parquet").write_bytes(b"other")
        (project / "reports/metrics.json").unlink()
        for more in ("data/examples/films/more.parquet", "data/attributions/films/more.parquet"):
            (project / more).write_bytes(b"new")
        (project / "data/classifiers/films/added_tokens.json").write_text("{}", encoding="utf-8")
        manifest = project / "reports/report.json"
        document = read_json(manifest)
        document["versions"]["torch"] = "0.1"
        assert {"explearn/core/attribution.py", "explearn_study/params.py"} <= set(document["parts"]["code"]["files"])
        document["parts"]["code"]["files"]["explearn/core/attribution.py"] = "0" * 64
        manifest.write_text(json.dumps(document), encoding="utf-8")
        code, said = verify(project)
        assert code == 1
        for line in (
            "data: data/examples/films/test.parquet differs",
            "results: reports/metrics.json is missing",
            "data: data/examples/films/more.parquet was added",
            "results: data/attributions/films/more.parquet was added",
            "models: data/classifiers/films/added_tokens.json was added",
            "code: explearn/core/attribution.py differs",
        ):
            assert line in said.splitlines()
        assert "version of torch: 0.1 then" in said
        assert said.splitlines()[-1].endswith("7 differences")

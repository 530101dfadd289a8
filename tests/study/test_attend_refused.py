"""The stage attend of a classifier whose attention cannot be captured, and what comes after it."""

from __future__ import annotations

import contextlib
import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny
import yaml
from typer.testing import CliRunner

from explearn.core.compute import ComputeOptions
from explearn.core.errors import UnsupportedError
from explearn.core.records import SPLITS, Example
from explearn.core.storage import write_examples
from explearn.lens.features import read_feature_metadata
from explearn_study import features_read
from explearn_study.features_read import readers_of_features
from explearn_study.params import Params
from explearn_study.train import WorkspaceTask
from explearn_study.workspace import Workspace

SOURCE = {"kind": "files", "adapter": "custom", "columns": {"text": "text"}}


def attend(repository: Path, folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("stage_attend", repository / "stages" / "attend.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with contextlib.chdir(folder):
        return CliRunner().invoke(module.attend, ["--task", "films"], env={"EXPLEARN_DEVICE": "cpu"})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A task with a Longformer, and the parameters of a run."""
    for split in SPLITS:
        rows = [
            Example(f"{split}-{i}", tuple(text.split()), "yes", split, "films") for i, text in enumerate(tiny.TEXTS)
        ]
        write_examples(tmp_path / "data" / "examples" / "films" / f"{split}.parquet", rows)
    tiny.save(tmp_path / "data" / "classifiers" / "films", "longformer")
    params = {
        "profile": "mine",
        "tasks": ["films"],
        "sources": {"films": SOURCE},
        "explainer": "expnet_in_domain",
        "explainers": ["expnet_in_domain"],
    }
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    return tmp_path


def test_the_stage_steps_aside_and_an_explainer_that_needs_features_says_why(repository: Path, project: Path) -> None:
    done = attend(repository, project)
    assert done.exit_code == 0, done.output
    (path,) = (project / "data" / "features" / "films").iterdir()
    reason = json.loads(path.read_text(encoding="utf-8"))["reason"]
    assert reason.startswith("attention of a 'longformer' model cannot be captured")
    with contextlib.chdir(project):
        params = Params.of(yaml.safe_load(Path("params.yaml").read_text(encoding="utf-8")))
        task = WorkspaceTask(Workspace(), params, "films", ComputeOptions(device="cpu"))
        with pytest.raises(
            UnsupportedError, match=r"refused\.json: there are no attention features, for attention of a"
        ):
            task.features("train")


def test_of_an_encoder_that_can_be_captured_features_are_written(repository: Path, project: Path) -> None:
    tiny.save(project / "data" / "classifiers" / "films", "deberta-v2")
    done = attend(repository, project)
    assert done.exit_code == 0, done.output
    folder = project / "data" / "features" / "films"
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{split}.parquet" for split in SPLITS)
    assert read_feature_metadata(folder / "test.parquet")["heads"] == tiny.HEADS


def test_it_steps_aside_where_no_explainer_of_the_run_needs_features(repository: Path, project: Path) -> None:
    path = project / "params.yaml"
    params = yaml.safe_load(path.read_text(encoding="utf-8"))
    params |= {"explainer": "ivra", "explainers": ["ivra", "l2e"], "teachers": {"attcat": {}}}
    path.write_text(yaml.safe_dump(params), encoding="utf-8")
    # Not even the classifier is looked at.
    (project / "data" / "classifiers" / "films" / "config.json").unlink()
    done = attend(repository, project)
    assert done.exit_code == 0, done.output
    (path,) = (project / "data" / "features" / "films").iterdir()
    assert "no explainer of the run needed any" in json.loads(path.read_text(encoding="utf-8"))["reason"]


def test_what_reads_features_is_known_by_what_methods_need() -> None:
    def readers(**change: Any) -> list[str]:
        base = {"profile": "mine", "tasks": ["films", "meals"], "sources": dict.fromkeys(("films", "meals"), SOURCE)}
        explainers = ["expnet", "ivra", "paml", "consensus"]
        params = {**base, "explainer": None, "explainers": explainers, "baselines": {"quick": {"random": {}}}}
        return readers_of_features(Params.of({**params, **change}))

    assert readers() == ["expnet"]
    assert readers(explainers=["ivra", "paml"]) == []
    assert readers(explainers=["paml"], curve={"tasks": ["films"]}) == ["curve"]
    assert readers(explainers=["paml"], variants={"mine": {"of": "expnet_paper"}}) == ["mine"]


def test_a_package_s_method_that_reads_features_without_marks_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    real = features_read.get_info("l2e")
    monkeypatch.setattr(features_read, "get_info", lambda _: replace(real, needs=frozenset({"attentions", "teacher"})))
    base = {"profile": "mine", "tasks": ["films"], "sources": {"films": SOURCE}, "teachers": {"attcat": {}}}
    assert readers_of_features(Params.of({**base, "explainer": "l2e", "explainers": ["l2e"]})) == ["l2e"]

"""Which stages a change makes stale, by dvc.yaml and the parameters; nothing runs."""

import contextlib
import shutil
import sys
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from dvc.dependency.param import ParamsDependency
from dvc.repo import Repo
from places import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from repro import CODE, with_dependents

L2E_OF_LIME = {"of": "l2e", "options": {"teacher": "lime"}}


@dataclass(frozen=True)
class Pipeline:
    needs: dict[str, set[str]]
    params: dict[str, Any]
    """Stage -> what it reads of the parameters."""
    inputs: dict[str, set[Path]]
    """Stage -> files and folders that no stage writes to."""


def read_pipeline(folder, change):
    """Return the default run's stages after a change of its parameters."""
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    change(params)
    shutil.copy(ROOT / "dvc.yaml", folder)
    (folder / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    found = Pipeline({}, {}, {})
    with contextlib.chdir(folder), Repo.init(no_scm=True, force=True) as repo:
        graph = repo.index.graph
        outs = chain(*(stage.outs for stage in graph))
        written = [Path(out.fs_path) for out in outs]
        for stage in graph:
            found.needs[stage.addressing] = {needed.addressing for needed in graph.successors(stage)}
            found.inputs[stage.addressing] = set()
            for dep in stage.deps:
                path = Path(dep.fs_path)
                if isinstance(dep, ParamsDependency):
                    found.params[stage.addressing] = dep.read_params()
                elif not any(path.is_relative_to(out) or out.is_relative_to(path) for out in written):
                    found.inputs[stage.addressing].add(path.relative_to(folder))
    return found


@pytest.fixture(scope="module")
def default(tmp_path_factory):
    return read_pipeline(tmp_path_factory.mktemp("default"), lambda params: None)


def rerun(before, after):
    """Return the stages that are new or read changed parameters, and all that need them.

    `code` is left out: what it writes is compared file by file.
    """
    changed = {stage for stage, inputs in after.inputs.items() if Path("params.yaml") in inputs}
    changed |= {stage for stage in after.needs if before.params.get(stage, {}) != after.params.get(stage, {})}
    changed |= after.needs.keys() - before.needs.keys()
    return with_dependents(changed - {CODE}, after.needs)


def kinds(stages):
    return {stage.partition("@")[0] for stage in stages}


def test_nothing_that_a_stage_of_the_default_run_needs_is_an_empty_folder(default):
    inputs = set().union(*default.inputs.values())
    assert inputs == {Path("src"), Path("stages"), Path("data/corpus"), Path("data/annotations"), Path("params.yaml")}
    assert all((ROOT / path).exists() for path in inputs)


def test_a_new_teacher_runs_its_students_and_what_shows_them(default, tmp_path):
    def add(params):
        params["teachers"]["lime"] = {}
        params["methods"]["l2e_lime"] = L2E_OF_LIME
        params["learned"]["from_teachers"].append({"method": "l2e_lime", "teacher": "lime"})

    stages = rerun(default, read_pipeline(tmp_path, add))
    assert kinds(stages) == {"teach", "fit-students", "explain", "judge", "own-classifier", "report"}
    trained = {stage for stage in stages if stage.startswith(("teach", "fit"))}
    tasks = ("reviews", "civility", "topics")
    assert trained == {f"teach@{task}-lime" for task in tasks} | {f"fit-students@{task}-student1" for task in tasks}


def test_an_ensemble_s_student_needs_all_teachers(tmp_path):
    def add(params):
        params["teachers"]["lime"] = {}
        params["methods"]["l2e"]["options"]["teacher"] = "ensemble:attcat,lime"
        params["learned"]["from_teachers"] = [{"method": "l2e", "teacher": ""}]

    needs = read_pipeline(tmp_path, add).needs["fit-students@topics-student0"]
    assert {"teach@topics-attcat", "teach@topics-lime"} <= needs


def test_a_new_learned_method_runs_neither_features_nor_other_methods(default, tmp_path):
    def add(params):
        params["methods"]["marker_long"] = {"of": "marker", "options": {"epochs": 90}}
        params["learned"]["from_features"].append("marker_long")

    stages = rerun(default, read_pipeline(tmp_path, add))
    assert kinds(stages) == {"fit-features", "explain", "judge", "own-classifier", "report"}
    assert {stage for stage in stages if stage.startswith("fit")} == {
        f"fit-features@{task}-marker_long" for task in ("reviews", "civility", "topics")
    }


def test_another_explainer_under_study_is_judged_on_its_own_classifier_and_reported(default, tmp_path):
    def choose(params):
        params["explainer"] = "ivra"

    assert rerun(default, read_pipeline(tmp_path, choose)) == {"own-classifier", "report"}

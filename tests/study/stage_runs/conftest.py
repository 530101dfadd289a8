"""A project in which every stage has run."""

import os
import shutil
from pathlib import Path

import pytest
import tiny
import yaml
from filelock import FileLock
from files import write_lines
from stage_cases import FROM_FEATURES, FROM_TEACHERS, FROM_TEXTS, METHODS, TASKS, TEACHERS, steps, succeed, table


def run_all(folder):
    """Every stage, on two tasks of a few texts."""
    for task in TASKS:
        for split, count in (("train", 24), ("validation", 8), ("test", 8)):
            write_lines(folder / "mine" / task / f"{split}.jsonl", table(task, split, count))
    source = {"kind": "files", "adapter": "custom", "columns": {"id": "id", "text": "text", "mask": "mask"}}
    params = {
        "profile": "mine",
        "encoder": tiny.save_encoder(folder / "encoder"),
        "data_dir": "mine",
        "tasks": list(TASKS),
        "sources": dict.fromkeys(TASKS, source),
        "finetune": {"epochs": 3, "learning_rate": 3e-3, "batch_size": 8},
        # IvRA is better than at its start only after some epochs.
        "training": {"patience": 16},
        "methods": METHODS,
        "learned": {
            "from_texts": list(FROM_TEXTS),
            "from_features": list(FROM_FEATURES),
            "from_teachers": [{"method": name, "teacher": "occlusion"} for name in FROM_TEACHERS],
        },
        "explainer": "marker",
        "teachers": {name: {} for name in TEACHERS},
        "studies": {
            "marks_curve": {"tasks": ["films"], "marks": [0, 4, 1000], "draws": 2},
            "students": {"teachers": ["occlusion", "ensemble:occlusion,input_x_gradient"], "seeds": 2},
        },
        "evaluate": {"simulatability": {"steps": 5, "repeats": 1}},
        "sanity": {"texts": 4, "noise_samples": 1},
    }
    (folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False), encoding="utf-8")
    for step in steps():
        succeed(folder, *step)


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A project in which every stage has run, made once for all processes of the tests. Tests leave it as it is."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder = root / "finished-project"
    with FileLock(root / "finished-project.lock"):
        if not (done := root / "finished-project.done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            run_all(folder)
            done.touch()
    return folder


@pytest.fixture
def project(finished, tmp_path):
    """A copy to break."""
    return Path(shutil.copytree(finished, tmp_path / "project"))

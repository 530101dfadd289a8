"""A project in which every stage has run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import tiny
import yaml
from filelock import FileLock
from stage_cases import BASELINES, REFINERS, TRAINED, VARIANTS, succeed, table, write_lines


def run_all(folder: Path) -> None:
    """Every stage, on two tasks of a few texts."""
    for task in ("films", "meals"):
        for split, count in (("train", 24), ("validation", 8), ("test", 8)):
            write_lines(folder / "mine" / task / f"{split}.jsonl", table(task, split, count))
    model = tiny.model("bert")
    model.bert.save_pretrained(folder / "encoder")
    tiny.tokenizer("bert").save_pretrained(folder / "encoder")
    source = {"kind": "files", "adapter": "custom", "columns": {"id": "id", "text": "text", "mask": "mask"}}
    params = {
        "profile": "mine",
        "encoder": str(folder / "encoder"),
        "data_dir": "mine",
        "tasks": ["films", "meals"],
        "sources": {"films": source, "meals": source},
        "finetune": {"epochs": 3, "learning_rate": 3e-3, "batch_size": 8},
        "transfer": ["ivra"],
        "expnet": {"epochs": 3},
        "expnet_few_shot": {"epochs": 3},
        "expnet_in_domain": {"epochs": 3},
        "curve": {"tasks": ["films"], "marks": [0, 4, 1000], "draws": 2},
        "expnet_paper": {"epochs": 3},
        "explainers": list(TRAINED),
        "refiners": list(REFINERS),
        "variants": VARIANTS,
        "paml": {"epochs": 1, "max_texts": 8, "validation_texts": 4, "batch_size": 4},
        "faml": {"steps": 2, "samples": 0},
        "teachers": {"occlusion": {}, "input_x_gradient": {}},
        "l2e": {"teacher": "occlusion", "layers": 1, "width": 16, "epochs": 3},
        "distil": {"teachers": ["occlusion", "ensemble:occlusion,input_x_gradient"], "seeds": 2},
        "ivra": {
            # On so few validation texts, chance decides whether an epoch is better than none; of this many one is.
            "criteria": ["cons"],
            "schedule": {"epochs": 16, "batch_size": 24, "learning_rate": 1e-3, "decay": 1, "accuracy_tolerance": 1.0},
        },
        "baselines": {**BASELINES, "own_model": {"raw_attention": {}, "input_x_gradient": {}}},
        "evaluate": {"bootstrap_samples": 100, "simulatability": {"steps": 5, "repeats": 1}},
        "sanity": {"texts": 4, "noise_samples": 1},
    }
    (folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False), encoding="utf-8")
    for stage in ("prepare", "rationalise", "finetune", "attend", "signals"):
        for task in ("films", "meals"):
            succeed(folder, stage, "--task", task)
    for task in ("films", "meals"):
        for teacher in ("occlusion", "input_x_gradient"):
            succeed(folder, "teach", "--task", task, "--teacher", teacher)
        for name in TRAINED:
            succeed(folder, "train", "--task", task, "--explainer", name)
        rooms = [f"learned_{room}" for room in ("expnet", "l2e", "aml")]
        for group in (*rooms, *REFINERS, "quick", *BASELINES["costly"], "on_ivra"):
            succeed(folder, "attribute", "--task", task, "--group", group)
        for name in VARIANTS:
            succeed(folder, "variant", "--task", task, "--variant", name)
        succeed(folder, "evaluate", "--task", task)
        succeed(folder, "sanity", "--task", task)
        for teacher in ("occlusion", "ensemble:occlusion,input_x_gradient"):
            succeed(folder, "distil", "--task", task, "--teacher", teacher)
    succeed(folder, "marks_curve", "--task", "films")
    succeed(folder, "transfer", "--explainer", "ivra")
    succeed(folder, "report")


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
def project(finished: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(finished, tmp_path / "project"))

"""A project of a few made-up texts with a tiny encoder: every stage of the pipeline runs on it in about a second."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

TASKS = ("films", "meals")
SPLITS = {"train": 24, "validation": 8, "test": 8}
LEARNED: dict[str, list[Any]] = {
    "from_texts": ["paml", "ivra", "reader"],
    "from_features": ["marker_in_domain", "marker", "cls_row", "expnet", "consensus", "word_list", "word_facts", "at2"],
    "from_teachers": [{"method": "l2e", "teacher": "input_x_gradient"}],
}
"""Methods of the project that are trained: every one of ours."""

VOLATILE = (
    "data/costs/",
    "data/studies/",
    "reports/report.html",
    "reports/report.json",
    "reports/costs.json",
    "reports/machine/",
)
"""What holds times, memory or dates: no two runs write the same."""

UNIT_DEPTHS = {
    "code": 2,
    "examples": 3,
    "classifiers": 3,
    "features": 3,
    "signals": 3,
    "teachers": 4,
    "explainers": 4,
}
"""Folders under data/ that a stage puts in place as one -> parts of their paths. All else is put in place by file."""


@dataclass(frozen=True, slots=True)
class Step:
    """One run of a stage: its name and its options."""

    stage: str
    options: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join([self.stage, *self.options[1::2]])


def step(stage: str, **options: str) -> Step:
    words: list[str] = []
    for name, value in options.items():
        words += [f"--{name}", value]
    return Step(stage, tuple(words))


def all_steps() -> list[Step]:
    """Every stage, in an order in which each finds what it reads."""
    steps = [step("code")]
    for stage in ("prepare", "rationalise", "finetune", "features"):
        steps += [step(stage, task=task) for task in TASKS]
    for task in TASKS:
        steps.append(step("teach", task=task, teacher="input_x_gradient"))
        students = [student["method"] for student in LEARNED["from_teachers"]]
        for name in [*LEARNED["from_texts"], *LEARNED["from_features"], *students]:
            steps.append(step("fit", task=task, method=name))
        steps += [step("explain", task=task), step("judge", task=task)]
    return [*steps, *(step("study", study=study) for study in ("marks_curve", "students")), step("report")]


def few_steps() -> list[Step]:
    """Stages of one task that write a folder, several files, and both with what belongs to neither in between."""
    return [step(stage, task="films") for stage in ("prepare", "rationalise", "finetune")]


def make_project(root: Path) -> None:
    """Write texts, encoder and params.yaml."""
    from explearn.testing import tiny

    for task in TASKS:
        for split, count in SPLITS.items():
            path = root / "mine" / task / f"{split}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(row) + "\n" for row in _rows(task, split, count)), encoding="utf-8")
    encoder: Any = tiny.model("bert").bert
    encoder.save_pretrained(root / "encoder")
    tiny.tokenizer("bert").save_pretrained(root / "encoder")
    (root / "params.yaml").write_text(yaml.safe_dump(_params(), sort_keys=False), encoding="utf-8")


def _rows(task: str, split: str, count: int) -> list[dict[str, Any]]:
    """The second word decides the label and is marked."""
    rows = []
    for number in range(count):
        word, label = (("warm", "yes"), ("slow", "no"))[number % 2]
        text = f"{task}{number} {word} the quick fox jumps {split}"
        rows.append({"id": f"{task}-{split}-{number}", "text": text, "label": label, "mask": [0, 1, 0, 0, 0, 0, 0]})
    return rows


def _params() -> dict[str, Any]:
    source = {"kind": "files", "adapter": "custom", "columns": {"id": "id", "text": "text", "mask": "mask"}}
    return {
        "profile": "faults",
        "encoder": "encoder",
        "data_dir": "mine",
        "tasks": list(TASKS),
        "sources": dict.fromkeys(TASKS, source),
        "finetune": {"epochs": 2, "learning_rate": 3e-3, "batch_size": 8},
        "methods": {
            "marker": {"options": {"epochs": 2}},
            "cls_row": {"of": "marker", "options": {"epochs": 3}},
            "marker_in_domain": {"options": {"epochs": 2}},
            "expnet": {"options": {"epochs": 2}},
            "consensus": {"options": {"copies": 1}},
            "word_list": {},
            "word_facts": {},
            "at2": {"options": {"samples": 4}},
            "paml": {"options": {"epochs": 1, "max_texts": 8, "validation_texts": 4, "batch_size": 4}},
            "faml": {"options": {"steps": 1, "samples": 0}},
            "reader": {"options": {"samples": 4, "width": 16, "epochs": 2}},
            "l2e": {"options": {"teacher": "input_x_gradient", "layers": 1, "width": 16, "epochs": 2}},
            "ivra": {
                "options": {
                    "criteria": ["cons"],
                    "schedule": {
                        "epochs": 1,
                        "batch_size": 24,
                        "learning_rate": 1e-4,
                        "decay": 1,
                        "accuracy_tolerance": 1.0,
                    },
                }
            },
            **{name: {} for name in ("random", "raw_attention", "rollout", "input_x_gradient", "occlusion")},
        },
        "learned": LEARNED,
        "teachers": {"input_x_gradient": {}},
        "studies": {
            "marks_curve": {"marks": [0, 4], "draws": 1},
            "students": {"teachers": ["input_x_gradient"], "seeds": 1, "max_texts": 4},
        },
        "evaluate": {"simulatability": {"steps": 2, "repeats": 1}},
        "sanity": {"texts": 2, "noise_samples": 1, "random_labels": True},
    }


# ---- what lies in a project --------------------------------------------------------------------------------------

Units = dict[str, dict[str, str]]
"""Path of a file or folder that is put in place as one -> its files' paths -> SHA-256 (of the path where volatile)."""


def find_units(root: Path) -> Units:
    """Return all files of a project but partial ones and the folder tmp."""
    units: Units = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_dir() or is_leftover(name):
            continue
        parts = name.split("/")
        depth = UNIT_DEPTHS.get(parts[1], len(parts)) if parts[0] == "data" else len(parts)
        content = name.encode() if name.startswith(VOLATILE) else path.read_bytes()
        units.setdefault("/".join(parts[:depth]), {})[name] = hashlib.sha256(content).hexdigest()
    return units


def is_leftover(name: str) -> bool:
    return name.startswith("tmp/") or ".partial-" in name


def find_leftovers(root: Path) -> list[str]:
    """Return partial files anywhere, and files in the folder tmp."""
    names = [path.relative_to(root).as_posix() for path in root.rglob("*")]
    return [name for name in names if is_leftover(name)]

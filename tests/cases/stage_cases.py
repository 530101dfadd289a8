"""Stages as commands in one process, and what they are asked."""

import contextlib
import runpy

import typer
import yaml
from places import ROOT
from typer.testing import CliRunner

STAGES = (
    "code",
    "prepare",
    "rationalise",
    "finetune",
    "features",
    "teach",
    "fit",
    "explain",
    "judge",
    "own_classifier",
    "study",
    "report",
)

TASKS = ("films", "meals")
TEACHERS = ("occlusion", "input_x_gradient")
FROM_TEXTS = ("ivra", "ivra_sparse", "reader", "paml")
FROM_FEATURES = ("cls_row", "marker", "marker_in_domain", "expnet", "consensus", "word_list", "word_facts", "at2")
FROM_TEACHERS = ("l2e",)
LEARNED = (*FROM_TEXTS, *FROM_FEATURES, *FROM_TEACHERS)
BASELINES = ("random", "raw_attention", "first_layer", "rollout", "input_x_gradient", "occlusion")
METHODS = {
    "marker": {"options": {"epochs": 3}},
    "marker_in_domain": {"options": {"epochs": 3}},
    "expnet": {"options": {"epochs": 3}},
    "cls_row": {"of": "expnet", "options": {"epochs": 3, "features": "task_to_token"}},
    "consensus": {"options": {"copies": 1}},
    "word_list": {},
    "word_facts": {},
    "at2": {"options": {"samples": 4}},
    "reader": {"options": {"samples": 4, "width": 16, "epochs": 3}},
    "l2e": {"options": {"teacher": "occlusion", "layers": 1, "width": 16, "epochs": 3}},
    # On so few validation texts, chance decides whether an epoch is better than none; of this many one is.
    "ivra": {
        "options": {
            "criteria": ["cons"],
            "schedule": {"epochs": 16, "batch_size": 24, "learning_rate": 1e-3, "decay": 1, "accuracy_tolerance": 1.0},
        }
    },
    "ivra_sparse": {
        "of": "ivra",
        "options": {
            "criteria": ["cons"],
            "norm": "sparsemax",
            "schedule": {"epochs": 1, "batch_size": 24, "learning_rate": 1e-4},
        },
    },
    "paml": {"options": {"epochs": 1, "max_texts": 8, "validation_texts": 4, "batch_size": 4}},
    "faml": {"options": {"steps": 2, "samples": 0}},
    **{name: {} for name in BASELINES},
    "first_layer": {"of": "raw_attention", "options": {"layer": 0}},
}


def command(name):
    names = runpy.run_path(str(ROOT / "stages" / f"{name}.py"))
    (actual,) = (value for value in names.values() if isinstance(value, typer.Typer))
    return actual


COMMANDS = {name: command(name) for name in STAGES}


def run(folder, stage, *arguments):
    with contextlib.chdir(folder):
        return CliRunner().invoke(
            COMMANDS[stage], list(arguments), env={"COLUMNS": "240", "EXPLEARN_DEVICE": "cpu", "EXPLEARN_SEED": None}
        )


def succeed(folder, stage, *arguments):
    result = run(folder, stage, *arguments)
    assert result.exit_code == 0, result.output


def complaint(folder, stage, *arguments):
    """One line on standard error, exit code 2, and every file as it was."""
    before = files(folder)
    result = run(folder, stage, *arguments)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert files(folder) == before
    return line.removeprefix("error: ")


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def steps():
    """Every stage with its options, in an order in which each finds what it reads."""
    found = [("code",)]
    for stage in ("prepare", "rationalise", "finetune", "features"):
        for task in TASKS:
            found.append((stage, "--task", task))
    for task in TASKS:
        for teacher in TEACHERS:
            found.append(("teach", "--task", task, "--teacher", teacher))
        for name in LEARNED:
            found.append(("fit", "--task", task, "--method", name))
        found.append(("explain", "--task", task))
        found.append(("judge", "--task", task))
    found.append(("own_classifier",))
    for study in ("marks_curve", "students"):
        found.append(("study", "--study", study))
    return [*found, ("report",)]


def table(task, split, count):
    """The second word decides the label and is marked."""
    rows = []
    for number in range(count):
        word, label = (("warm", "yes"), ("slow", "no"))[number % 2]
        text = f"{task}{number} {word} the quick fox jumps {split}"
        rows.append({"id": f"{task}-{split}-{number}", "text": text, "label": label, "mask": [0, 1, 0, 0, 0, 0, 0]})
    return rows


def change_params(folder, **change):
    path = folder / "params.yaml"
    params = {**yaml.safe_load(path.read_text(encoding="utf-8")), **change}
    path.write_text(yaml.safe_dump(params, sort_keys=False), encoding="utf-8")


def required(stage, task="films"):
    """The options that a stage cannot do without."""
    more = {"fit": ["--method", "marker"], "teach": ["--teacher", "occlusion"], "study": ["--study", "students"]}
    of_task = [] if stage in ("code", "own_classifier", "study", "report") else ["--task", task]
    return [*of_task, *more.get(stage, [])]

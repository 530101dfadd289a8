"""Bad input of stages: one sentence each, and earlier outputs stay as they were."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file, save_file
from stage_cases import METHODS, change_params, complaint

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("stage", "option", "message"),
    [
        ("fit", ["--task", "films", "--method", "expent"], "unknown learned method 'expent'; did you mean expnet"),
        ("fit", ["--task", "films", "--method", "rollout"], "unknown learned method 'rollout'"),
        ("teach", ["--task", "films", "--teacher", "oclusion"], "unknown teacher 'oclusion'; did you mean occlusion"),
        ("study", ["--study", "marks_crve"], "unknown study 'marks_crve'; did you mean marks_curve"),
    ],
)
def test_a_name_that_is_not_of_the_run(project, stage, option, message):
    assert complaint(project, stage, *option).startswith(message)


@pytest.mark.parametrize("explainer", ["marker", "expnet"])
def test_another_task_whose_rationales_mark_no_word(project, explainer):
    path = project / "data" / "rationales" / "meals.parquet"
    rows = pq.read_table(path)
    empty = [{**row, "mask": [False] * len(row["mask"])} for row in rows.to_pylist()]
    pq.write_table(pa.Table.from_pylist(empty, schema=rows.schema), path)
    message = complaint(project, "fit", "--task", "films", "--method", explainer)
    assert f"task 'meals': no word is marked in any of its {len(empty)} rationales" in message


FILES = [
    ("data/examples/films/native.parquet", "rationalise", []),
    ("data/classifiers/films/model.safetensors", "features", []),
    ("data/features/films/train.parquet", "fit", ["--method", "marker"]),
    ("data/signals/meals/train.parquet", "fit", ["--method", "marker"]),
    ("data/teachers/films/occlusion/train-00000.parquet", "fit", ["--method", "l2e"]),
    ("data/classifiers/films/model.safetensors", "explain", []),
    ("data/explainers/films/l2e/student.safetensors", "explain", []),
    ("data/attributions/films/random.parquet", "judge", []),
    ("data/rationales/films.json", "judge", []),
    ("data/explainers/films/marker/marker.safetensors", "judge", []),
    ("reports/metrics/films/evaluation.json", "report", None),
    ("reports/metrics/films/pairs.parquet", "report", None),
    ("reports/metrics/studies/students/films/occlusion/ranking/texts.parquet", "report", None),
]


# One is missing, the next one cut in half.
@pytest.mark.parametrize(
    ("file", "stage", "arguments", "keep"),
    [(*case, None if number % 2 else 0.5) for number, case in enumerate(FILES)],
)
def test_a_file_of_an_earlier_stage_that_is_missing_or_damaged(project, file, stage, arguments, keep):
    path = project / file
    content = path.read_bytes()
    path.unlink()
    if keep is not None:
        path.write_bytes(content[: int(keep * len(content))])
    named = ["--task", "films", *arguments] if arguments is not None else []
    message = complaint(project, stage, *named, *(["--study", "students"] if stage == "study" else []))
    # A missing part is reported of the folder it belongs to.
    assert path.name in message or str(Path(file).parent) in message


def test_a_damaged_document_of_the_report_leaves_the_earlier_report(project):
    """All is read and drawn before the first file of an earlier report is replaced."""
    before = (project / "reports" / "report.md").read_bytes()
    (project / "reports" / "metrics" / "films" / "evaluation.json").write_text("[", encoding="utf-8")
    assert "evaluation.json" in complaint(project, "report")
    assert (project / "reports" / "report.md").read_bytes() == before


def test_an_encoder_that_cannot_be_loaded(project):
    weights = project / "encoder" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    change_params(project, encoder="encoder")
    assert "encoder: cannot be loaded as an encoder" in complaint(project, "finetune", "--task", "films")


def test_hidden_states_that_were_not_stored(project):
    change_params(project, methods={**METHODS, "expnet": {"options": {"features": "hidden"}}})
    assert "run the stage features with attend.hidden_states=true" in complaint(
        project, "fit", "--task", "films", "--method", "expnet"
    )


def test_features_of_another_classifier(project):
    for task in ("films", "meals"):
        weights = project / "data" / "classifiers" / task / "model.safetensors"
        tensors = load_file(weights)
        save_file({name: tensor + 0.5 for name, tensor in tensors.items()}, weights, {"format": "pt"})
    for name, task in (("marker", "films"), ("marker_in_domain", "films"), ("expnet", "meals")):
        message = complaint(project, "fit", "--task", "films", "--method", name)
        assert f"task {task!r}, split 'train': its features are of another classifier than the task's own" in message

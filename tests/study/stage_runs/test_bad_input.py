"""Bad input of stages: one sentence each, and earlier outputs stay as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file
from stage_cases import change_params, complaint, required, run, table, write_lines

NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")


class TestBadInput:
    """Each ends with one sentence, and earlier outputs stay as they were."""

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"text": ""}, "row 3"),
            ({"text": "warm " + "x" * 10_000}, "10,000 characters"),
            ({"label": "maybe", "id": "new"}, "maybe"),
            ({"mask": [0, 1]}, "mask"),
            ({"id": "films-test-0"}, "films-test-0"),
            ({"text": "warm \ud800"}, "expected valid Unicode"),
        ],
        ids=str,
    )
    def test_a_row_that_cannot_be_used(self, project: Path, change: dict[str, Any], words: str) -> None:
        rows = table("films", "test", 8)
        rows[2].update(change)
        write_lines(project / "mine" / "films" / "test.jsonl", rows)
        assert words in complaint(project, "prepare", "--task", "films")

    def test_invalid_utf_8(self, project: Path) -> None:
        path = project / "mine" / "films" / "test.jsonl"
        path.write_bytes(path.read_bytes().replace(b"fox", b"f\xffx"))
        assert "row 1: byte" in complaint(project, "prepare", "--task", "films")

    @pytest.mark.parametrize("explainer", ["expnet", "expnet_paper"])
    def test_another_task_whose_rationales_mark_no_word(self, project: Path, explainer: str) -> None:
        path = project / "data" / "rationales" / "meals.parquet"
        rows = pq.read_table(path)
        empty = [{**row, "mask": [False] * len(row["mask"])} for row in rows.to_pylist()]
        pq.write_table(pa.Table.from_pylist(empty, schema=rows.schema), path)
        said = complaint(project, "train", "--task", "films", "--explainer", explainer)
        assert f"task 'meals': no word is marked in any of its {len(empty)} rationales" in said

    def test_an_adapter_that_is_not_known(self, project: Path) -> None:
        source = {"kind": "files", "adapter": "hatexplian"}
        change_params(project, sources={"films": source, "meals": source})
        assert "did you mean hatexplain" in complaint(project, "prepare", "--task", "films")

    @pytest.mark.parametrize(
        ("file", "stage", "arguments"),
        [
            ("data/examples/films/native.parquet", "rationalise", []),
            ("data/examples/films/train.parquet", "finetune", []),
            ("data/examples/films/test.parquet", "attend", []),
            ("data/classifiers/films/model.safetensors", "attend", []),
            ("data/features/films/train.parquet", "train", ["--explainer", "expnet"]),
            ("data/features/meals/train.parquet", "train", ["--explainer", "expnet_paper"]),
            ("data/signals/meals/train.parquet", "train", ["--explainer", "expnet"]),
            ("data/signals/films/validation.parquet", "train", ["--explainer", "expnet"]),
            ("data/classifiers/films/model.safetensors", "train", ["--explainer", "expnet"]),
            ("data/teachers/films/occlusion/teacher.json", "train", ["--explainer", "l2e"]),
            ("data/teachers/films/occlusion/train-00000.parquet", "train", ["--explainer", "l2e"]),
            ("data/classifiers/films/model.safetensors", "teach", ["--teacher", "occlusion"]),
            ("data/explainers/films/l2e/student.safetensors", "attribute", ["--group", "learned_l2e"]),
            ("data/teachers/films/occlusion/teacher.json", "distil", ["--teacher", "occlusion"]),
            ("reports/metrics/l2e/films/occlusion.json", "report", None),
            ("data/rationales/meals.parquet", "train", ["--explainer", "expnet"]),
            ("data/classifiers/films/model.safetensors", "attribute", ["--group", "quick"]),
            ("data/explainers/films/expnet/expnet.safetensors", "attribute", ["--group", "learned_expnet"]),
            ("data/attributions/films/quick/random.parquet", "evaluate", []),
            ("data/rationales/films.json", "evaluate", []),
            ("data/classifiers/films/config.json", "evaluate", []),
            ("reports/metrics/explanations/films.json", "report", None),
            ("reports/metrics/comparisons/films.json", "report", None),
            ("reports/metrics/pairs/films.parquet", "report", None),
            ("reports/metrics/sanity/films.json", "report", None),
            ("data/attributions/films/quick/random.parquet", "report", None),
            ("data/classifiers/films/model.safetensors", "sanity", []),
            ("data/explainers/films/expnet/expnet.safetensors", "sanity", []),
            ("data/examples/films/test.parquet", "sanity", []),
        ],
    )
    @pytest.mark.parametrize("keep", [None, 0.5], ids=["missing", "cut_in_half"])
    def test_a_file_of_an_earlier_stage_that_is_missing_or_damaged(
        self, project: Path, file: str, stage: str, arguments: list[str] | None, keep: float | None
    ) -> None:
        path = project / file
        content = path.read_bytes()
        path.unlink()
        if keep is not None:
            path.write_bytes(content[: int(keep * len(content))])
        named = [] if arguments is None else ["--task", "films", *arguments]
        message = complaint(project, stage, *named)
        # A missing part is reported of the folder it belongs to.
        assert path.name in message or str(Path(file).parent) in message

    @NO_GPU
    @pytest.mark.parametrize(
        "stage", ["finetune", "attend", "attribute", "evaluate", "sanity", "train", "teach", "distil"]
    )
    def test_a_gpu_that_is_not_there(self, project: Path, stage: str) -> None:
        message = complaint(project, stage, *required(stage), "--device", "cuda")
        assert "device 'cuda' asked for, but this machine has 0 usable CUDA devices" in message

    def test_an_explainer_that_is_not_there(self, project: Path) -> None:
        assert "unknown explainer 'expent'; did you mean expnet" in complaint(
            project, "train", "--task", "films", "--explainer", "expent"
        )
        assert "explainer 'rollout' is not trained" in complaint(
            project, "train", "--task", "films", "--explainer", "rollout"
        )
        assert "explainer 'faml' has no training of its own; train 'paml'" in complaint(
            project, "train", "--task", "films", "--explainer", "faml"
        )

    @pytest.mark.parametrize("stage", ["teach", "distil"])
    def test_a_teacher_that_is_not_there(self, project: Path, stage: str) -> None:
        assert complaint(project, stage, "--task", "films", "--teacher", "oclusion").startswith(
            "unknown teacher 'oclusion'; did you mean occlusion"
        )

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                {"l2e": {"teacher": "lime"}},
                "unknown teacher under l2e.teacher 'lime'; known: input_x_gradient, occlusion",
            ),
            ({"l2e": {"teacher": "ensemble:lime"}}, "l2e.teacher: teacher 'ensemble:lime': expected ensemble:NAME"),
            ({"distil": {"teachers": ["ocluson"]}}, "unknown teacher under distil.teachers 'ocluson'; did you mean"),
            (
                {"teachers": {"expnet": {}}},
                "teachers.expnet: 'expnet' is trained itself; expected a method that needs no",
            ),
            ({"teachers": {"oclusion": {}}}, "unknown explainer 'oclusion'; did you mean occlusion"),
        ],
    )
    def test_teachers_that_cannot_be(self, project: Path, change: dict[str, Any], message: str) -> None:
        change_params(project, **change)
        assert message in complaint(project, "train", "--task", "films", "--explainer", "l2e")

    def test_a_group_that_is_not_there(self, project: Path) -> None:
        assert "unknown group 'quik'; did you mean quick" in complaint(
            project, "attribute", "--task", "films", "--group", "quik"
        )

    def test_a_costly_baseline_among_the_quick_ones(self, project: Path) -> None:
        change_params(project, baselines={"quick": {"occlusion": {}}})
        assert "baselines.quick.occlusion: 'occlusion' is a costly method; move it there" in complaint(
            project, "attribute", "--task", "films", "--group", "quick"
        )

    def test_an_encoder_that_cannot_be_loaded(self, project: Path) -> None:
        weights = project / "encoder" / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:1000])
        change_params(project, encoder="encoder")
        assert "encoder 'encoder' cannot be loaded" in complaint(project, "finetune", "--task", "films")

    def test_hidden_states_that_were_not_stored(self, project: Path) -> None:
        change_params(project, expnet_paper={"features": "hidden"})
        assert "run the stage attend with attend.hidden_states=true" in complaint(
            project, "train", "--task", "films", "--explainer", "expnet_paper"
        )

    def test_features_of_another_classifier(self, project: Path) -> None:
        for task in ("films", "meals"):
            weights = project / "data" / "classifiers" / task / "model.safetensors"
            tensors = load_file(weights)
            save_file({name: tensor + 0.5 for name, tensor in tensors.items()}, weights, {"format": "pt"})
        for name, task in (("expnet", "films"), ("expnet_in_domain", "films"), ("expnet_paper", "meals")):
            message = complaint(project, "train", "--task", "films", "--explainer", name)
            assert (
                f"task {task!r}, split 'train': its features are of another classifier than the task's own" in message
            )

    def test_a_missing_option_is_named(self, project: Path) -> None:
        result = run(project, "prepare")
        assert result.exit_code == 2
        assert "--task" in result.stderr

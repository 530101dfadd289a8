"""Every stage as a command, in one process, on a project of a few texts with a tiny encoder."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import typer
import yaml
from stage_cases import COMMANDS, STAGES, change_params, complaint, required, run, succeed

from explearn.cli.running import COMPUTE_OPTIONS
from explearn.core.storage import read_examples


@pytest.mark.parametrize("stage", STAGES)
class TestEveryStage:
    def test_help_names_every_option_and_its_variable(self, stage: str, tmp_path: Path) -> None:
        result = run(tmp_path, stage, "--help")
        assert result.exit_code == 0
        options = [p for p in typer.main.get_command(COMMANDS[stage]).params if p.name != "help"]
        assert {option.name for option in options} >= {*COMPUTE_OPTIONS, "params_file"}
        for option in options:
            assert option.envvar.startswith("EXPLEARN_")
            assert option.help
            assert option.envvar in result.stdout
            assert option.opts[0] in result.stdout

    def test_a_missing_params_file(self, stage: str, tmp_path: Path) -> None:
        assert "elsewhere.yaml: no such file; run from the project's root or give --params" in complaint(
            tmp_path, stage, "--params", "elsewhere.yaml", *required(stage)
        )

    def test_a_parameter_of_the_wrong_type_and_one_that_is_not_known(self, stage: str, project: Path) -> None:
        change_params(project, expnet={"hidden": "many", "hiden": 3})
        message = complaint(project, stage, *required(stage))
        assert "params.yaml, expnet.hidden: got 'many'; expected: input should be a valid integer" in message
        assert "params.yaml, expnet.hiden: no such parameter; did you mean hidden?" in message


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage not in ("report", "transfer")])
def test_a_task_that_is_not_there(stage: str, project: Path) -> None:
    message = complaint(project, stage, *required(stage, task="filsm"))
    assert message == "unknown task 'filsm'; did you mean films?"


class TestDamagedFilesOfTheReport:
    """All is read and drawn before the first file of an earlier report is replaced; `complaint` compares every file."""

    @pytest.mark.parametrize(
        ("name", "document"),
        [
            ("reports/metrics/explanations/films.json", []),
            ("reports/metrics/explanations/films.json", {"expnet": {"f1": "high"}}),
            ("reports/metrics/comparisons/films.json", {"methods": 3}),
            ("reports/metrics/classifier/meals.json", {"test": 0.5}),
            ("reports/metrics/sanity/meals.json", {"methods": {"rollout": 1}}),
            ("reports/metrics/own_model/films.json", {"ivra": {}}),
            ("reports/metrics/transfer/ivra.json", [1]),
            ("reports/metrics/l2e/films/occlusion.json", {"texts": 8}),
            ("data/rationales/films.json", {"mean_length": "long"}),
        ],
    )
    def test_one_sentence_and_the_earlier_report_stays(self, project: Path, name: str, document: object) -> None:
        (project / name).write_text(json.dumps(document), encoding="utf-8")
        assert complaint(project, "report")

    def test_a_figure_that_is_not_finite(self, project: Path) -> None:
        path = project / "reports" / "metrics" / "explanations" / "films.json"
        path.write_text(
            path.read_text(encoding="utf-8").replace('"f1": 0.', '"f1": NaN, "was": 0.', 1), encoding="utf-8"
        )
        assert complaint(project, "report")


@pytest.mark.usefixtures("hub_cache")
def test_prepare_reads_a_folder_that_is_laid_out_as_on_the_hub(tmp_path: Path) -> None:
    """SST-2's columns, Parquet files named as the hub names them."""
    import pyarrow as pa

    for split, count in (("train", 40), ("validation", 10)):
        rows = [{"idx": n, "sentence": f"{split} text {n}", "label": n % 2} for n in range(count)]
        path = tmp_path / "hub" / "copy" / "data" / f"{split}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), path)
    source = {"kind": "hub", "adapter": "sst2", "path": "copy", "splits": {"train": "train", "test": "validation"}}
    params = {"profile": "p", "data_dir": "hub", "tasks": ["sst2"], "sources": {"sst2": source}}
    params |= {"explainer": "expnet_in_domain", "explainers": ["expnet_in_domain"]}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    succeed(tmp_path, "prepare", "--task", "sst2")
    succeed(tmp_path, "rationalise", "--task", "sst2")
    folder = tmp_path / "data" / "examples" / "sst2"
    # A tenth of train is set aside for validation; the hub's validation part is our test part.
    counts = [len(read_examples(folder / f"{split}.parquet")) for split in ("train", "validation", "test")]
    assert counts == [36, 4, 10]
    assert json.loads((folder / "task.json").read_text())["labels"] == ["negative", "positive"]

"""Every stage as a command, in one process, on a project of a few texts with a tiny encoder."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import typer
import yaml
from stage_cases import COMMANDS, STAGES, change_params, complaint, required, run, succeed
from typer.testing import CliRunner

from explearn.cli.app import app
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


class TestNextTexts:
    """`explearn annotate next` on the files of a run."""

    def next(self, folder: Path, *arguments: str) -> Any:
        with contextlib.chdir(folder):
            return CliRunner().invoke(app, ["annotate", "next", "--task", "films", *arguments], env={"COLUMNS": "240"})

    def unmark(self, folder: Path, ids: list[str]) -> None:
        for path in (
            folder / "data" / "examples" / "films" / "native.parquet",
            folder / "data" / "rationales" / "films.parquet",
        ):
            rows = pq.read_table(path)
            kept = [example_id not in ids for example_id in rows["example_id"].to_pylist()]
            pq.write_table(rows.filter(kept), path)

    def test_proposes_unmarked_texts_with_a_sheet_and_an_outlook(self, project: Path) -> None:
        ids = [f"films-train-{number}" for number in range(6, 20)]
        self.unmark(project, ids)
        result = self.next(project, "--count", "3", "--out", "next.csv")
        assert result.exit_code == 0, result.output
        rows = (project / "next.csv").read_text(encoding="utf-8-sig").splitlines()
        proposed = [row.split(",")[1] for row in rows[1:]]
        assert len(set(proposed)) == 3 and set(proposed) <= set(ids)
        assert all(example_id in result.stdout for example_id in proposed)
        assert "by the consensus of meals and " in result.stdout
        assert "F1 top-K is" in result.stdout

    def test_a_sheet_that_somebody_has_filled_in_stays(self, project: Path) -> None:
        self.unmark(project, [f"films-train-{number}" for number in range(6, 20)])
        sheet = project / "next.csv"
        assert self.next(project, "--count", "3", "--out", "next.csv").exit_code == 0
        filled = sheet.read_text(encoding="utf-8-sig").rstrip("\n") + "\nmark,x,,y,,,ana,1,0,\n"
        sheet.write_text(filled, encoding="utf-8-sig")
        result = self.next(project, "--count", "3", "--out", "next.csv")
        assert result.exit_code == 2 and "people may have filled it in" in result.stderr
        assert sheet.read_text(encoding="utf-8-sig") == filled

    def test_a_sheet_of_another_kind_is_refused_before_anything_is_computed(self, project: Path) -> None:
        result = self.next(project, "--out", "next.xlsx")
        assert result.exit_code == 2 and result.stdout == ""
        assert "expected a file ending in .html or .csv" in result.stderr

    def test_a_page_that_is_there_is_refused_before_anything_is_computed(self, project: Path) -> None:
        (project / "next.html").write_text("filled in")
        result = self.next(project, "--out", "next.html")
        assert result.exit_code == 2 and result.stdout == ""
        assert "next.html is there already, and people may have filled it in" in result.stderr
        assert (project / "next.html").read_text() == "filled in"

    def test_without_a_curve_it_says_how_to_get_one(self, project: Path) -> None:
        self.unmark(project, [f"films-train-{number}" for number in range(6, 20)])
        (project / "reports" / "metrics" / "curve" / "films.json").unlink()
        assert "`python stages/marks_curve.py --task films` measures it" in self.next(project).stdout

    def test_where_every_text_is_marked(self, project: Path) -> None:
        result = self.next(project)
        assert result.exit_code == 2
        assert "each of the 24 texts with signals is marked already" in result.stderr

    def test_a_split_without_signals(self, project: Path) -> None:
        result = self.next(project, "--split", "test")
        assert result.exit_code == 2 and "split 'test': its texts have no signals" in result.stderr

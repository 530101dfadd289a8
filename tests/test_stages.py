"""Every stage as a command, in one process, on a project of a few texts with a tiny encoder."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import typer
import yaml
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import tiny
from explearn.cli.app import app
from explearn.core.method_names import get_info
from explearn.core.storage import read_examples, read_rationales
from explearn.metrics.catalogue import METRICS
from explearn.metrics.files import read_by_text, read_comparisons
from explearn.pipeline.base.runs import read_run
from explearn.pipeline.base.staging import COMPUTE_OPTIONS
from explearn.reporting.content.columns import marked

STAGES = (
    "prepare",
    "rationalise",
    "finetune",
    "attend",
    "signals",
    "teach",
    "train",
    "attribute",
    "variant",
    "evaluate",
    "sanity",
    "marks_curve",
    "transfer",
    "distil",
    "report",
)
NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
BASELINES: dict[str, dict[str, dict[str, Any]]] = {
    "quick": {"random": {}, "raw_attention": {}, "rollout": {}, "input_x_gradient": {}},
    "costly": {"occlusion": {}},
}
TRAINED = ("expnet", "expnet_in_domain", "expnet_paper", "l2e", "paml", "ivra")
REFINERS = ("faml",)
LEARNED = (*TRAINED, *REFINERS)
VARIANTS: dict[str, dict[str, Any]] = {
    "cls_row": {"of": "expnet_paper", "features": "task_to_token"},
    "ivra_sparse": {"of": "ivra", "norm": "sparsemax", "schedule": {"epochs": 1}},
    "first_layer": {"of": "raw_attention", "layer": 0},
}


def command(name: str) -> typer.Typer:
    path = Path(__file__).parent.parent / "stages" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"stage_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (found,) = (value for value in vars(module).values() if isinstance(value, typer.Typer))
    return found


COMMANDS = {name: command(name) for name in STAGES}


def run(folder: Path, stage: str, *arguments: str) -> Any:
    with contextlib.chdir(folder):
        return CliRunner().invoke(
            COMMANDS[stage], list(arguments), env={"COLUMNS": "240", "EXPLEARN_DEVICE": "cpu", "EXPLEARN_SEED": None}
        )


def succeed(folder: Path, stage: str, *arguments: str) -> None:
    result = run(folder, stage, *arguments)
    assert result.exit_code == 0, result.output


def complaint(folder: Path, stage: str, *arguments: str) -> str:
    """One line on standard error, exit code 2, and every file as it was."""
    before = files(folder)
    result = run(folder, stage, *arguments)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert files(folder) == before
    return line.removeprefix("error: ")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def table(task: str, split: str, count: int) -> list[dict[str, Any]]:
    """The second word decides the label and is marked."""
    rows = []
    for number in range(count):
        word, label = (("warm", "yes"), ("slow", "no"))[number % 2]
        text = f"{task}{number} {word} the quick fox jumps {split}"
        rows.append({"id": f"{task}-{split}-{number}", "text": text, "label": label, "mask": [0, 1, 0, 0, 0, 0, 0]})
    return rows


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which every stage has run. Tests leave it as it is."""
    folder = tmp_path_factory.mktemp("project")
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
        "l2e": {"teacher": "occlusion", "layers": 1, "width": 16, "feedforward": 16, "epochs": 3},
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
    return folder


@pytest.fixture
def project(finished: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(finished, tmp_path / "project"))


def change_params(folder: Path, **change: Any) -> None:
    path = folder / "params.yaml"
    params = {**yaml.safe_load(path.read_text(encoding="utf-8")), **change}
    path.write_text(yaml.safe_dump(params, sort_keys=False), encoding="utf-8")


def required(stage: str, task: str = "films") -> list[str]:
    """The options that a stage cannot do without."""
    if stage == "report":
        return []
    if stage == "transfer":
        return ["--explainer", "ivra"]
    more = {"train": ["--explainer", "expnet"], "attribute": ["--group", "quick"]}
    more["variant"] = ["--variant", "cls_row"]
    more |= {name: ["--teacher", "occlusion"] for name in ("teach", "distil")}
    return ["--task", task, *more.get(stage, [])]


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


class TestOutputs:
    def test_prepare_writes_each_split(self, finished: Path) -> None:
        folder = finished / "data" / "examples" / "films"
        assert [len(read_examples(folder / f"{split}.parquet")) for split in ("train", "validation", "test")] == [
            24,
            8,
            8,
        ]
        assert json.loads((folder / "task.json").read_text())["labels"] == ["no", "yes"]

    def test_rationalise_measures_agreement_and_length(self, finished: Path) -> None:
        found = json.loads((finished / "data" / "rationales" / "films.json").read_text())
        assert found["mean_length"] == 1.0
        assert found["positive_rate"] == pytest.approx(1 / 7)
        examples = read_examples(finished / "data" / "examples" / "films" / "train.parquet")
        rationales = read_rationales(finished / "data" / "rationales" / "films.parquet")
        assert len(rationales) == 24 + 8 + 8
        assert {r.example_id for r in rationales} >= {e.id for e in examples}

    def test_finetune_saves_a_classifier_with_its_metrics(self, finished: Path) -> None:
        found = json.loads((finished / "reports" / "metrics" / "classifier" / "films.json").read_text())
        assert {"accuracy", "macro_f1", "mcc"} <= set(found["test"])
        curve = (finished / "reports" / "plots" / "finetune" / "films.csv").read_text().splitlines()
        assert curve[0].split(",")[:2] == ["epoch", "train_loss"]
        assert len(curve) == 1 + found["epochs"]

    def test_attend_keeps_features_of_all_splits(self, finished: Path) -> None:
        folder = finished / "data" / "features" / "films"
        assert [pq.read_metadata(folder / f"{s}.parquet").num_rows for s in ("train", "validation", "test")] == [
            24,
            8,
            8,
        ]

    @pytest.mark.parametrize(
        ("task", "name", "trained_on"),
        [
            ("films", "expnet", ["meals"]),
            ("films", "expnet_in_domain", ["films"]),
            ("meals", "expnet", ["films"]),
            ("films", "expnet_paper", ["meals"]),
        ],
    )
    def test_train_keeps_to_its_protocol(self, finished: Path, task: str, name: str, trained_on: list[str]) -> None:
        config = json.loads((finished / "data" / "explainers" / task / name / "config.json").read_text())
        assert config["trained_on"] == trained_on

    def test_teach_explains_training_and_validation_texts(self, finished: Path) -> None:
        folder = finished / "data" / "teachers" / "films" / "occlusion"
        found = json.loads((folder / "teacher.json").read_text())
        assert found["texts"] == {"train": 24, "validation": 8} and found["failures"] == []
        assert {path.name for path in folder.glob("*.parquet")} == {"train-00000.parquet", "validation-00000.parquet"}

    def test_distil_sets_students_against_their_teacher(self, finished: Path) -> None:
        folder = finished / "reports" / "metrics" / "l2e" / "films"
        for name in ("occlusion", "ensemble:occlusion,input_x_gradient"):
            found = json.loads((folder / f"{name}.json").read_text())
            assert found["texts"] == 8 and set(found["formulations"]) == {"ranking", "labelling"}
            assert [(s["formulation"], s["seed"]) for s in found["students"]] == [
                ("ranking", 13),
                ("ranking", 14),
                ("labelling", 13),
                ("labelling", 14),
            ]
            agreement = found["formulations"]["ranking"]["agreement"]
            assert all(0 <= agreement[side] <= 1 for side in ("teacher", "student", "random", "both"))
            costs = json.loads((finished / "data" / "costs" / "films" / f"l2e-{name}.json").read_text())
            assert costs["seconds"]["teacher"] > costs["seconds"]["student"] > 0 and len(costs["training"]) == 4
            assert "seconds" not in json.dumps(found)
        report = (finished / "reports" / "report.md").read_text(encoding="utf-8")
        tables = report.partition("\n## Students against their teachers\n")[2].partition("\n## Parameters")[0]
        assert tables.count("\n| ensemble:occlusion,input_x_gradient | A |") == 7
        assert "\n| random |  | " in tables and "\n|  | both | " in tables

    def test_marks_curve_goes_from_no_mark_to_all(self, finished: Path) -> None:
        found = json.loads((finished / "reports" / "metrics" / "curve" / "films.json").read_text())
        points = found["points"]
        assert [point["protocol"] for point in points] == ["universal", "few_shot", "in_domain"]
        assert [point["marks"] for point in points][:2] == [0, 4] and 4 < points[-1]["marks"] <= 24
        for point in points:
            assert 0 <= point["f1_topk_low"] <= point["f1_topk"] <= point["f1_topk_high"] <= 1
            assert len(point["by_draw"]["auroc"]) == 2
        table = (finished / "reports" / "plots" / "curve" / "films.csv").read_text().splitlines()
        assert table[0].startswith("task,marks,protocol,f1_topk,f1_topk_low,") and len(table) == 1 + len(points)

    def test_its_first_draw_without_marks_is_the_run_s_expnet(self, finished: Path) -> None:
        found = json.loads((finished / "reports" / "metrics" / "curve" / "films.json").read_text())
        methods = json.loads((finished / "reports" / "metrics" / "explanations" / "films.json").read_text())
        first = {name: values[0] for name, values in found["points"][0]["by_draw"].items()}
        # Stored attention is rounded to float16, which may turn the order of two words.
        assert first["auroc"] == pytest.approx(methods["expnet"]["auroc"], abs=0.02)
        assert found["texts"] == methods["expnet"]["plausibility_texts"]

    def test_the_report_says_what_marks_bring(self, finished: Path) -> None:
        section = (
            (finished / "reports" / "report.md").read_text(encoding="utf-8").partition("What marked texts bring")[2]
        )
        assert "(figures/marks.svg)" in section and "**films**: Without a marked text F1 top-K is" in section
        assert "What marked texts bring" in (finished / "reports" / "report.html").read_text(encoding="utf-8")
        assert "films: AUROC" in (finished / "reports" / "figures" / "marks.svg").read_text(encoding="utf-8")

    def test_attribute_writes_a_file_a_method(self, finished: Path) -> None:
        folder = finished / "data" / "attributions" / "films"
        found = {path.parent.name: [] for path in folder.glob("*/*.parquet")}
        for path in sorted(folder.glob("*/*.parquet")):
            found[path.parent.name].append(path.stem)
        alone = {name: [name] for name in (*REFINERS, *BASELINES["costly"])}
        learned = {
            "learned_expnet": ["expnet", "expnet_in_domain", "expnet_paper"],
            "learned_l2e": ["l2e"],
            "learned_aml": ["paml"],
            "on_ivra": ["input_x_gradient", "ivra", "raw_attention"],
        }
        assert found == {**alone, **learned, "quick": sorted(BASELINES["quick"])}

    def test_a_variant_is_trained_and_explains_with_its_own_options(self, finished: Path) -> None:
        folder = finished / "data" / "variants" / "films"
        options = json.loads((folder / "cls_row" / "explainer" / "config.json").read_text())["options"]
        assert options["features"] == "task_to_token" and options["epochs"] == 3  # the run's own
        sparse = json.loads((folder / "ivra_sparse" / "explainer" / "config.json").read_text())["options"]
        assert sparse["norm"] == "sparsemax" and sparse["criteria"] == ["cons"]
        assert sparse["schedule"]["epochs"] == 1 and sparse["schedule"]["batch_size"] == 24
        stands_for = json.loads((folder / "first_layer" / "explainer" / "variant.json").read_text())
        assert stands_for == {"of": "raw_attention", "options": {"layer": 0}}
        files = {path.relative_to(folder).as_posix() for path in folder.glob("*/attributions/*.parquet")}
        on_sparse = {
            f"ivra_sparse/attributions/{n}.parquet" for n in ("ivra_sparse", "raw_attention", "input_x_gradient")
        }
        assert files == {
            "cls_row/attributions/cls_row.parquet",
            "first_layer/attributions/first_layer.parquet",
            *on_sparse,
        }
        metrics = finished / "reports" / "metrics"
        figures = json.loads((metrics / "explanations" / "films.json").read_text())
        assert figures["first_layer"]["aopc_sufficiency"] != figures["raw_attention"]["aopc_sufficiency"]
        assert set(json.loads((metrics / "own_model" / "films.json").read_text())) == {"ivra", "ivra_sparse"}

    def test_an_explainer_with_a_classifier_of_its_own_is_judged_on_it(self, finished: Path) -> None:
        folder = finished / "data" / "attributions" / "films"
        of = {path.relative_to(folder).as_posix(): read_run(path).classifier for path in folder.glob("*/*.parquet")}
        own = of.pop("on_ivra/ivra.parquet")
        assert {of.pop(f"on_ivra/{name}.parquet") for name in ("raw_attention", "input_x_gradient")} == {own}
        assert len(set(of.values())) == 1 and own not in of.values()
        metrics = finished / "reports" / "metrics"
        found = json.loads((metrics / "own_model" / "films.json").read_text())["ivra"]
        main = json.loads((metrics / "explanations" / "films.json").read_text())["ivra"]
        assert set(found["methods"]) == {"ivra", "raw_attention", "input_x_gradient"}
        for name in ("aopc_comprehensiveness", "aopc_sufficiency", "consistency", "infidelity", "important_words"):
            # Asked in other batches, so up to rounding.
            assert found["methods"]["ivra"][name] == pytest.approx(main[name], abs=1e-6)
        history = json.loads((finished / "data/explainers/films/ivra/config.json").read_text())["history"]
        assert found["criteria"] == ["cons"] and history[found["best_epoch"]]["best"]
        assert found["epochs"] == len(history) - 1 == 16
        assert np.shape(found["coefficients"]["heads"]) == (tiny.LAYERS, tiny.HEADS)
        assert 0 <= found["classifier"]["test"]["accuracy"] <= 1
        report = (finished / "reports" / "report.md").read_text(encoding="utf-8")
        section = report.partition("\n### On the classifier of ivra: films\n")[2].partition("\n### ")[0]
        assert section.count("\n| raw_attention |") == 1 == section.count("\n| ivra |")
        assert (finished / "reports" / "figures" / "coefficients.svg").is_file()

    def test_transfer_judges_what_was_trained_on_each_task_on_all_with_its_classes(self, finished: Path) -> None:
        metrics = finished / "reports" / "metrics"
        found = json.loads((metrics / "transfer" / "ivra.json").read_text())
        assert found["criteria"] == ["cons"] and found["texts"] == {"films": 8, "meals": 8}
        assert {task: set(sources) for task, sources in found["tasks"].items()} == {
            task: {"films", "meals"} for task in ("films", "meals")
        }
        for task in ("films", "meals"):
            own = json.loads((metrics / "own_model" / f"{task}.json").read_text())["ivra"]
            here = found["tasks"][task][task]
            assert here["accuracy"] == own["classifier"]["test"]["accuracy"]
            for name in ("aopc_comprehensiveness", "aopc_sufficiency", "consistency"):
                assert here[name] == pytest.approx(own["methods"]["ivra"][name], abs=1e-6)
        assert found["tasks"]["films"]["meals"] != found["tasks"]["films"]["films"]
        report = (finished / "reports" / "report.md").read_text(encoding="utf-8")
        section = report.partition("\n## On other tasks\n")[2].partition("\n## ")[0]
        assert "\n| films | films |" in section and "\n| films | meals |" in section
        assert (
            "![Gains of ivra trained elsewhere over trained here, by criterion](figures/transfer-ivra.svg)" in section
        )
        assert (finished / "reports" / "figures" / "transfer-ivra.svg").is_file()
        page = (finished / "reports" / "report.html").read_text(encoding="utf-8")
        assert '<h2 id="transfer">' in page and "Gains of ivra trained elsewhere" in page

    def test_transfer_needs_two_tasks_with_the_same_classes(self, project: Path) -> None:
        path = project / "data" / "examples" / "meals" / "task.json"
        document = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**document, "labels": ["yes", "no"]}), encoding="utf-8")
        assert "expected two tasks with the same classes among" in complaint(project, "transfer", "--explainer", "ivra")

    def test_attribute_says_what_a_method_costs(self, finished: Path) -> None:
        folder = finished / "data" / "attributions" / "films"
        passes = {path.stem: read_run(path) for path in folder.glob("*/*.parquet")}
        for name in ("random", "raw_attention", "rollout", "expnet", "paml", "ivra"):
            assert (passes[name].forward_passes, passes[name].backward_passes) == (1, 0)
        assert (passes["input_x_gradient"].forward_passes, passes["input_x_gradient"].backward_passes) == (1, 1)
        # The whole text for its class and for the metric; two steps of two masked texts; up to three maps.
        assert 2 + 2 * 2 + 2 <= passes["faml"].forward_passes <= 2 + 2 * 2 + 3 * 11
        assert passes["faml"].backward_passes == 4
        # Six or seven words, each masked once, and the whole text.
        assert 7 <= passes["occlusion"].forward_passes <= 8

    def test_what_differs_from_run_to_run_is_kept_apart(self, finished: Path) -> None:
        costs = json.loads((finished / "data" / "costs" / "films" / "on_ivra.json").read_text())
        assert set(costs) == {"ivra", "raw_attention", "input_x_gradient"}
        for cost in costs.values():
            assert cost["seconds"] > 0 and cost["forward_seconds"] > 0 and cost["texts"] == 8
        shown = json.loads((finished / "reports" / "costs.json").read_text())["tasks"]["films"]
        assert all(row["throughput"] > 0 for row in shown.values())
        assert set(shown) == {*LEARNED, *VARIANTS, *BASELINES["quick"], *BASELINES["costly"]}
        for name in ("metrics.json", "headline.json", "report.md", "metrics/own_model/films.json"):
            assert "throughput" not in (finished / "reports" / name).read_text(encoding="utf-8")

    def test_report_gives_the_metrics_of_every_task_and_method(self, finished: Path) -> None:
        found = json.loads((finished / "reports" / "metrics.json").read_text())
        assert set(found["tasks"]) == {"films", "meals"}
        methods = {*LEARNED, *VARIANTS, *BASELINES["quick"], *BASELINES["costly"]}
        for metrics in found["tasks"].values():
            assert set(metrics) == methods
        report = (finished / "reports" / "report.md").read_text(encoding="utf-8")
        for task in ("films", "meals"):
            leaderboard = report.partition(f"\n### Leaderboard: {task}\n")[2].partition("\n### ")[0]
            for name in methods:
                # Agreement with the words, agreement with the model, behaviour, cost.
                assert leaderboard.count(f"\n| {get_info(name).family} | {marked(name)} | ") == 4
            assert f"How paml was trained: {task}" in report
            assert "**faml looks at the metric while it explains.**" in report

    def test_the_report_is_also_a_page_and_the_command_line_writes_both(self, project: Path) -> None:
        page = (project / "reports" / "report.html").read_text(encoding="utf-8")
        for word in ("films", "meals", "occlusion"):
            assert word in page
        expected = {name: (project / "reports" / name).read_bytes() for name in ("report.md", "report.html")}
        for name in expected:
            (project / "reports" / name).unlink()
        with contextlib.chdir(project):
            result = CliRunner().invoke(app, ["report"], env={"EXPLEARN_SEED": None})
        assert result.exit_code == 0, result.output
        assert {name: (project / "reports" / name).read_bytes() for name in expected} == expected

    def test_evaluate_keeps_the_texts_own_values_and_the_tests(self, finished: Path) -> None:
        folder = finished / "reports" / "metrics"
        methods = {*LEARNED, *VARIANTS, *BASELINES["quick"], *BASELINES["costly"]}
        by_text = read_by_text(folder / "texts" / "films.parquet")
        assert set(by_text["aopc_comprehensiveness"]) == methods
        assert all(len(values) == 8 for values in by_text["aopc_comprehensiveness"].values())
        summary, pairs = folder / "comparisons" / "films.json", folder / "pairs" / "films.parquet"
        comparisons, agreement = read_comparisons(summary, pairs)
        assert set(comparisons) == set(METRICS)
        # ivra and its variant explain other classifiers than the others.
        compared = methods - {"ivra", "ivra_sparse"}
        assert set(comparisons["aopc_sufficiency"].methods) == compared
        figures = json.loads((folder / "explanations" / "films.json").read_text())
        assert set(comparisons["f1_topk"].methods) == {m for m in methods if figures[m]["f1_topk"] is not None}
        plot = (finished / "reports" / "plots" / "faithfulness" / "films.csv").read_text().splitlines()
        assert plot[0] == "task,method,family,value,low,high" and len(plot) == 1 + len(methods)
        best = comparisons["aopc_sufficiency"].best[0]
        assert figures[best]["aopc_sufficiency"] == min(figures[m]["aopc_sufficiency"] for m in compared)
        assert {matrix.shape for matrix in agreement.values()} == {(len(methods), len(methods))}

    def test_sanity_checks_the_learned_and_the_quick_methods(self, finished: Path) -> None:
        found = json.loads((finished / "reports" / "metrics" / "sanity" / "films.json").read_text())
        assert found["texts"] == 4
        assert set(found["methods"]) == {*TRAINED, *BASELINES["quick"], "cls_row", "ivra_sparse"}
        random = found["methods"]["random"]
        assert random["random_model"]["embeddings"]["spearman"] == pytest.approx(1)
        assert random["max_sensitivity"] == 0 and random["random_labels"] is None
        skipped = {name: method["skipped"] for name, method in found["methods"].items() if method["skipped"]}
        assert list(skipped) == ["l2e"] and "has learned to explain another classifier" in skipped["l2e"]

    def test_sanity_takes_the_methods_it_is_told_and_permuted_labels(self, project: Path) -> None:
        change_params(project, sanity={"methods": ["occlusion"], "texts": 2, "noise_samples": 0, "random_labels": True})
        succeed(project, "sanity", "--task", "films")
        found = json.loads((project / "reports" / "metrics" / "sanity" / "films.json").read_text())
        assert list(found["methods"]) == ["occlusion"]
        assert -1 <= found["methods"]["occlusion"]["random_labels"]["spearman"] <= 1

    def test_no_stage_leaves_half_a_file(self, finished: Path) -> None:
        assert [p for p in finished.rglob(".*") if "partial" in p.name] == []

    def test_stages_that_draw_at_random_repeat_themselves(self, project: Path) -> None:
        expected = files(project / "data" / "explainers")
        succeed(project, "train", "--task", "films", "--explainer", "expnet")
        assert files(project / "data" / "explainers") == expected
        succeed(project, "train", "--task", "films", "--explainer", "paml")
        assert files(project / "data" / "explainers") == expected
        succeed(project, "train", "--task", "films", "--explainer", "expnet", "--seed", "99")
        assert files(project / "data" / "explainers") != expected


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

    def test_without_a_curve_it_says_how_to_get_one(self, project: Path) -> None:
        self.unmark(project, [f"films-train-{number}" for number in range(6, 20)])
        (project / "reports" / "metrics" / "curve" / "films.json").unlink()
        assert "`python stages/marks_curve.py --task films` does" in self.next(project).stdout

    def test_where_every_text_is_marked(self, project: Path) -> None:
        result = self.next(project)
        assert result.exit_code == 2
        assert "each of the 24 texts with signals is marked already" in result.stderr

    def test_a_split_without_signals(self, project: Path) -> None:
        result = self.next(project, "--split", "test")
        assert result.exit_code == 2 and "split 'test': its texts have no signals" in result.stderr

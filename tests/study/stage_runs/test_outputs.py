"""What each stage writes."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import tiny
from stage_cases import (
    BASELINES,
    REFINERS,
    TRAINED,
    VARIANTS,
    change_params,
    complaint,
    files,
    succeed,
)
from typer.testing import CliRunner

from explearn.cli.app import app
from explearn.core.storage import read_examples, read_rationales
from explearn.judge.catalogue import METRICS
from explearn.judge.runs import read_run
from explearn.judge.significance import compare_methods
from explearn_study.metric_files import read_agreement, read_by_text
from explearn_study.params import load_params

LEARNED = (*TRAINED, *REFINERS)


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

    def test_signals_are_of_so_many_texts_and_of_unmarked_ones_besides(self, project: Path) -> None:
        """All texts are marked, so that those beyond the first number stay out."""
        change_params(project, signals={"max_texts": 6, "unmarked_texts": 4})
        succeed(project, "signals", "--task", "films")
        folder = project / "data" / "signals" / "films"
        assert [pq.read_metadata(folder / f"{s}.parquet").num_rows for s in ("train", "validation")] == [6, 6]

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
        tables = report.partition("\n## Students against their teachers\n")[2].partition("\n## ")[0]
        assert tables.count("\n| ensemble:occlusion,input_x_gradient | A |") == 7
        assert "\n| random |  | " in tables and "\n| occlusion | both | " in tables

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
        section = report.partition("\nOn the classifier of ivra: films:\n")[2].partition("\n</details>")[0]
        assert section.count("\n| raw_attention |") == 1 == section.count("\n| ivra † |")
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
        assert "](figures/transfer-ivra.svg)" in section
        assert (finished / "reports" / "figures" / "transfer-ivra.svg").is_file()
        page = (finished / "reports" / "report.html").read_text(encoding="utf-8")
        assert '<h2 id="on-other-tasks">' in page and "Gain of ivra trained elsewhere" in page

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
        # The names of its variants are known where its parameters have been read.
        load_params(finished / "params.yaml")
        found = json.loads((finished / "reports" / "metrics.json").read_text())
        assert set(found["tasks"]) == {"films", "meals"}
        methods = {*LEARNED, *VARIANTS, *BASELINES["quick"], *BASELINES["costly"]}
        for metrics in found["tasks"].values():
            assert set(metrics) == methods
        report = (finished / "reports" / "report.md").read_text(encoding="utf-8")
        for task in ("films", "meals"):
            section = report.partition(f"\n## Task: {task}\n")[2].partition("\n## ")[0]
            for name in methods:
                # Agreement with the words, agreement with the model, behaviour, cost.
                assert len(re.findall(rf"\n\| {name}( [†‡])? \| ", section)) >= 4
            assert f"\n| paml | {task} | " in report
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
        figures = json.loads((folder / "explanations" / "films.json").read_text())
        # ivra and its variant explain other classifiers than the others.
        compared = methods - {"ivra", "ivra_sparse"}
        comparisons = compare_methods(figures, by_text, methods - compared)
        assert set(comparisons["aopc_sufficiency"].methods) == compared
        leaders = json.loads((folder / "comparisons" / "films.json").read_text())
        assert set(leaders) == set(METRICS)
        assert leaders["aopc_sufficiency"]["best"] == list(comparisons["aopc_sufficiency"].best)
        agreement = read_agreement(folder / "pairs" / "films.parquet")
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

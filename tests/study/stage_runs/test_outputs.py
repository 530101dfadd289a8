"""What each stage writes."""

import contextlib
import os
import re
from itertools import product

import numpy as np
import pyarrow.parquet as pq
import pytest
import tiny
from cli_cases import run
from stage_cases import BASELINES, LEARNED, METHODS, TASKS, change_params, complaint, files, succeed

from explearn import Evaluation
from explearn.core.documents import read_json
from explearn.metrics.runs import read_run

pytestmark = pytest.mark.slow
SIZES = {"train": 24, "validation": 8, "test": 8}


def document(root, name):
    return read_json(root / name)


def evaluation(root):
    return Evaluation.load(root / "reports" / "metrics" / "films")


def runs(root):
    return {path.stem: read_run(path) for path in (root / "data" / "attributions" / "films").glob("*.parquet")}


def report(root):
    return (root / "reports" / "report.md").read_text(encoding="utf-8")


def test_features_are_of_all_splits_and_signals_of_so_many_texts(project):
    """All texts are marked, so that those beyond the first number stay out."""
    change_params(project, signals={"max_texts": 6, "unmarked_texts": 4})
    succeed(project, "features", "--task", "films")
    features, signals = (project / "data" / kind / "films" for kind in ("features", "signals"))
    assert {split: pq.read_metadata(features / f"{split}.parquet").num_rows for split in SIZES} == SIZES
    assert [pq.read_metadata(signals / f"{split}.parquet").num_rows for split in ("train", "validation")] == [6, 6]


def test_no_features_where_the_parameters_ask_for_none(project):
    change_params(project, attend=None, signals=None)
    # Not even the classifier is looked at.
    config = project / "data" / "classifiers" / "films" / "config.json"
    aside = config.rename(project / "config.json")
    succeed(project, "features", "--task", "films")
    aside.rename(config)
    for kind in ("features", "signals"):
        (path,) = (project / "data" / kind / "films").iterdir()
        assert "is null" in document(path.parent, path.name)["reason"]
    message = complaint(project, "fit", "--task", "films", "--method", "marker_in_domain")
    assert "there are no attention features, for the run's parameter 'attend' is null" in message


def test_features_step_aside_where_attention_cannot_be_captured(project):
    tiny.save(project / "data" / "classifiers" / "films", "longformer")
    succeed(project, "features", "--task", "films")
    (path,) = (project / "data" / "features" / "films").iterdir()
    assert document(path.parent, path.name)["reason"].startswith("attention of a 'longformer' model cannot be captured")
    message = complaint(project, "fit", "--task", "films", "--method", "marker_in_domain")
    assert "attention of a 'longformer' model cannot be captured" in message


def test_fit_keeps_to_the_protocol_and_to_a_variant_s_options(finished):
    def config(name, task="films"):
        return document(finished, f"data/explainers/{task}/{name}/config.json")

    assert config("marker")["trained_on"] == config("expnet")["trained_on"] == ["meals"]
    assert config("marker_in_domain")["trained_on"] == config("marker", "meals")["trained_on"] == ["films"]
    options = config("cls_row")["options"]
    assert options["features"] == "task_to_token" and options["epochs"] == 3
    sparse = config("ivra_sparse")["options"]
    assert sparse["norm"] == "sparsemax" and sparse["schedule"]["epochs"] == 1
    figures = evaluation(finished).figures
    assert figures["first_layer"]["aopc_sufficiency"] != figures["raw_attention"]["aopc_sufficiency"]


def test_fitting_repeats_itself(project):
    expected = files(project / "data" / "explainers")
    for name in ("marker", "paml"):
        succeed(project, "fit", "--task", "films", "--method", name)
        assert files(project / "data" / "explainers") == expected
    succeed(project, "fit", "--task", "films", "--method", "marker", "--seed", "99")
    assert files(project / "data" / "explainers") != expected


class TestExplain:
    def test_writes_a_file_a_method_and_the_classifier_that_it_explains(self, finished):
        explained = {name: run.classifier for name, run in runs(finished).items()}
        assert set(explained) == set(METHODS)
        # One epoch of the variant is no gain, so that it keeps the classifier that it started from.
        own = explained.pop("ivra")
        assert len(set(explained.values())) == 1 and own not in explained.values()

    def test_says_how_many_passes_a_method_takes(self, finished):
        passes = {name: (run.forward_passes, run.backward_passes) for name, run in runs(finished).items()}
        for name in ("random", "raw_attention", "rollout", "marker", "paml", "ivra"):
            assert passes[name] == (1, 0)
        assert passes["input_x_gradient"] == (1, 1)
        # The whole text for its class and for the metric; two steps of two masked texts; up to three maps.
        assert 2 + 2 * 2 + 2 <= passes["faml"][0] <= 2 + 2 * 2 + 3 * 11 and passes["faml"][1] == 4
        # Six or seven words, each masked once, and the whole text.
        assert 7 <= passes["occlusion"][0] <= 8

    def test_a_trained_explainer_and_its_classifier_are_a_task_to_compare_baselines_on(self, project):
        folder = "data/explainers/films/ivra"
        ivra = {"options": {"criteria": ["cons"]}, "path": "data/explainers/{task}/ivra"}
        names = ("raw_attention", "input_x_gradient")
        change_params(
            project,
            classifiers={"films": f"{folder}/classifier"},
            methods={"ivra": ivra, **dict.fromkeys(names)},
            learned={},
            studies={},
            explainer="ivra",
        )
        before = evaluation(project).figures["ivra"]
        for stage in ("finetune", "explain", "judge"):
            succeed(project, stage, "--task", "films")
        judged = evaluation(project)
        figures = judged.figures
        assert set(figures) == {"ivra", *names}
        for name in ("aopc_comprehensiveness", "aopc_sufficiency", "consistency", "infidelity"):
            # Asked in other batches, so up to rounding.
            assert figures["ivra"][name] == pytest.approx(before[name], abs=1e-6)
        assert set(judged.comparisons["consistency"].best) <= set(figures)

    def test_explains_anew_by_what_has_changed_alone(self, project):
        folder = project / "data" / "attributions" / "films"
        fingerprint = project / "data" / "code" / "methods" / "occlusion.txt"

        def explained():
            """The files that the stage writes."""
            for path in folder.rglob("*.parquet"):
                os.utime(path, ns=(0, 0))
            succeed(project, "explain", "--task", "films")
            return {path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet") if path.stat().st_mtime}

        assert explained() == set()
        fingerprint.write_text(f"{fingerprint.read_text()}another module\n", encoding="utf-8")
        assert explained() == {"occlusion.parquet"}
        (folder / "random.parquet").write_bytes(b"PAR1 damaged")
        change_params(project, methods={**METHODS, "first_layer": {"of": "raw_attention", "options": {"layer": 1}}})
        assert explained() == {"random.parquet", "first_layer.parquet"}
        config = project / "data" / "explainers" / "films" / "marker" / "config.json"
        config.write_text(f"{config.read_text()} ", encoding="utf-8")
        methods = {name: entry for name, entry in METHODS.items() if name != "rollout"}
        change_params(project, methods=methods)
        # What is no longer of the run goes.
        assert explained() == {"marker.parquet", "first_layer.parquet"} and not (folder / "rollout.parquet").exists()

        def scores():
            return [one.scores for one in runs(project)["raw_attention"].attributions]

        largest = scores()
        change_params(project, methods=methods, attribute={"pooling": "sum"})
        anew = explained()
        assert "raw_attention.parquet" in anew and not {"occlusion.parquet", "random.parquet", "paml.parquet"} & anew
        pairs = list(zip(scores(), largest, strict=True))
        assert all((a >= b).all() for a, b in pairs) and any((a > b).any() for a, b in pairs)


def test_what_differs_from_run_to_run_is_kept_apart(finished):
    costs = document(finished, "data/costs/films/methods.json")
    assert set(costs) == set(METHODS)
    for cost in costs.values():
        assert cost["seconds"] > 0 and cost["forward_seconds"] > 0 and cost["texts"] == 8
    shown = document(finished, "reports/costs.json")["tasks"]["films"]
    assert set(shown) == set(METHODS) and all(row["throughput"] > 0 for row in shown.values())
    assert "throughput" not in report(finished)


class TestJudge:
    def test_keeps_the_texts_own_values_and_the_tests(self, finished):
        judged = evaluation(finished)
        by_text = judged.by_text["aopc_comprehensiveness"]
        assert set(by_text) == set(METHODS) and all(len(values) == 8 for values in by_text.values())
        # ivra and its variant explain other classifiers than the others.
        compared = set(METHODS) - {"ivra", "ivra_sparse"}
        tests = judged.comparisons["aopc_sufficiency"]
        assert set(tests.methods) == compared
        lowest = min(judged.figures[m]["aopc_sufficiency"] for m in compared)
        assert {judged.figures[name]["aopc_sufficiency"] for name in tests.best} == {lowest}

    def test_keeps_what_the_report_shows(self, finished):
        judged = evaluation(finished)
        assert judged.splits == SIZES
        assert judged.options["marker"]["protocol"] == "universal" and judged.marks["mean_length"] is not None
        assert {text.method for text in judged.attributions} == set(METHODS) == set(judged.infos)
        assert 0 <= judged.performance["test"]["accuracy"] <= 1

    def test_notes_say_how_a_method_was_trained(self, finished):
        notes = runs(finished)["ivra"].notes
        history = document(finished, "data/explainers/films/ivra/config.json")["history"]
        assert notes["criteria"] == ["cons"] and history[notes["best_epoch"]]["best"]
        assert notes["epochs"] == history and len(history) - 1 == 16
        assert np.shape(notes["coefficients"]["heads"]) == (tiny.LAYERS, tiny.HEADS)
        assert (finished / "reports" / "figures" / "coefficients.svg").is_file()

    def test_checks_the_learned_and_the_quick_methods(self, finished):
        judged = evaluation(finished)
        assert judged.checked == 4
        assert set(judged.sanity) == {*LEARNED, *BASELINES} - {"occlusion"}
        random = judged.sanity["random"]
        assert random.random_model["embeddings"].spearman == pytest.approx(1)
        assert random.max_sensitivity == 0 and random.random_labels is None
        skipped = {name: result.skipped for name, result in judged.sanity.items() if result.skipped}
        assert list(skipped) == ["l2e"] and "another classifier" in skipped["l2e"]


def test_the_explainer_under_study_and_baselines_are_judged_on_the_classifier_that_it_trained(project):
    change_params(project, explainer="ivra", own_classifier={"baselines": ["random", "occlusion"]})
    succeed(project, "own_classifier")
    judged = Evaluation.load(project / "reports/metrics/own_classifier/films")
    assert judged.classifier == runs(project)["ivra"].classifier
    # All explain one classifier, so that all are compared.
    assert set(judged.figures) == {*judged.comparisons["consistency"].methods} == {"ivra", "random", "occlusion"}
    before = evaluation(project).figures["ivra"]
    for name in ("aopc_comprehensiveness", "consistency"):
        assert judged.figures["ivra"][name] == pytest.approx(before[name], abs=1e-6)
    succeed(project, "report")
    chapter = report(project).partition("\n## The explainer under study: ivra\n")[2].partition("\n## ")[0]
    assert "| occlusion | best baseline, F1 top-K |" in chapter and "| ivra_sparse † | criteria" not in chapter
    assert "losses.cons" in (project / "reports/figures/training.svg").read_text(encoding="utf-8")
    change_params(project, explainer="marker")
    succeed(project, "own_classifier")
    (empty,) = (project / "reports/metrics/own_classifier").iterdir()
    assert empty.name == "methods.json" and read_json(empty) == []


class TestStudies:
    def test_students_are_set_against_their_teacher(self, finished):
        ensemble = "ensemble:occlusion,input_x_gradient"
        for name, formulation in product(("occlusion", ensemble), ("ranking", "labelling")):
            judged = Evaluation.load(finished / f"reports/metrics/studies/students/films/{name}/{formulation}")
            assert list(judged.figures) == ["teacher", "random", "13", "14"] and len(judged.example_ids) == 8
            assert all(0 <= figures["prediction_agreement"] <= 1 for figures in judged.figures.values())
            signed = judged.figures["teacher"]["delta_log_odds_negative"] is not None
            assert signed is (formulation == "labelling"), "under ranking the sign does not count"
            costs = document(finished, f"data/costs/films/students-{name}.json")[formulation]
            assert costs["seconds"]["teacher"] > costs["seconds"]["student"] > 0 and len(costs["training"]) == 2
        tables = report(finished).partition("\n## Students against their teachers\n")[2].partition("\n## ")[0]
        # A row for each task and formulation.
        for side in ("teacher", "L2E", "random"):
            assert len(re.findall(rf"\n\| \w+ \| {ensemble} \| {side} \| ", tables)) == 4

    def test_the_curve_of_marks_goes_from_no_mark_to_all(self, finished):
        curve = document(finished, "reports/metrics/studies/marks_curve/films.json")
        points = curve["points"]
        assert [point["protocol"] for point in points] == ["universal", "few_shot", "in_domain"]
        assert [point["marks"] for point in points][:2] == [0, 4] and 4 < points[-1]["marks"] <= 24
        for point in points:
            assert 0 <= point["f1_topk_low"] <= point["f1_topk"] <= point["f1_topk_high"] <= 1
            assert len(point["by_draw"]["auroc"]) == 2
        marker = evaluation(finished).figures["marker"]
        # Its first draw without marks is the run's Marker. Stored attention is rounded to float16, which may turn the
        # order of two words.
        assert points[0]["by_draw"]["auroc"][0] == pytest.approx(marker["auroc"], abs=0.02)
        assert curve["texts"] == marker["plausibility_texts"]
        section = report(finished).partition("What marked texts bring")[2]
        assert "(figures/marks.svg)" in section
        assert "films: AUROC" in (finished / "reports" / "figures" / "marks.svg").read_text(encoding="utf-8")


class TestReport:
    def test_gives_the_metrics_of_every_task_and_method(self, finished):
        metrics = document(finished, "reports/metrics.json")
        assert set(metrics["tasks"]) == set(TASKS)
        text = report(finished)
        for task in TASKS:
            assert set(metrics["tasks"][task]) == set(METHODS)
            section = text.partition(f"\n## Texts: {task}\n")[2].partition("\n## ")[0]
            for name in METHODS:
                # Agreement with the words, agreement with the model, all else.
                assert len(re.findall(rf"\n\| {name}( [†‡])? \| ", section)) >= 3
            assert f"\n| paml | {task} | " in text
        assert "| faml ‡ |" in text

    def test_is_also_a_page_and_the_command_line_writes_both(self, project):
        page = (project / "reports" / "report.html").read_text(encoding="utf-8")
        for words in ("films", "meals", "occlusion", "What marked texts bring"):
            assert words in page
        expected = {name: (project / "reports" / name).read_bytes() for name in ("report.md", "report.html")}
        for name in expected:
            (project / "reports" / name).unlink()
        with contextlib.chdir(project):
            result = run("report", EXPLEARN_SEED=None)
        assert result.exit_code == 0, result.output
        assert {name: (project / "reports" / name).read_bytes() for name in expected} == expected


def test_no_stage_leaves_half_a_file(finished):
    assert [path for path in finished.rglob(".*") if "partial" in path.name] == []

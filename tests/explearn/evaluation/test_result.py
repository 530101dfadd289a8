"""An evaluation: which methods are best in a table, and its files."""

import numpy as np
import pytest
from evaluations import metrics, paired, shown, task, text
from fakes import FakeClassifier, attribution, random_probability

from explearn import DataError, Evaluation, evaluate, read_report
from explearn.metrics.registry import CATALOGUE


def column(of, metric):
    return [(row[1].text, row[1].mark) for row in of.table([metric]).rows]


class TestTable:
    def test_the_best_is_marked_in_its_direction_and_ties_are_all_marked(self):
        figures = {
            "marker": metrics(0.4001, 0.3, 0.5, sufficiency=-0.2),
            "rollout": metrics(0.3999, sufficiency=0.3),
            "random": metrics(0.1, sufficiency=-0.0001),
        }
        of = task(figures=figures)
        # Rows are in the order of families.
        assert of.table().methods == ["marker", "random", "rollout"]
        assert column(of, "f1") == [("0.400", "best"), ("0.100", ""), ("0.400", "best")]
        assert column(of, "sufficiency") == [("-0.200", "best"), ("0.000", ""), ("0.300", "")]
        assert of.table(["f1"]).rows[0][1].note == "0.30 to 0.50"

    def test_where_there_are_tests_they_say_what_is_tied(self):
        values = {"marker": 0.5, "cam": 0.45, "random": 0.1}
        better = {("marker", "random"): 0.01, ("cam", "random"): 0.01}
        of = task(figures={m: metrics(v) for m, v in values.items()}, comparisons={"f1": paired("f1", values, better)})
        assert [mark for _, mark in column(of, "f1")] == ["best", "", "tied"]

    def test_a_column_that_cannot_tell_methods_from_random_scores_says_so_and_marks_none(self):
        values = {"cam": 0.3, "lime": 0.4, "random": 0.25}
        of = task(
            figures={name: metrics(infidelity=value) for name, value in values.items()},
            comparisons={"infidelity": paired("infidelity", values, larger_is_better=False)},
        )
        assert of.like_chance("infidelity")
        assert [mark for _, mark in column(of, "infidelity")] == ["", "", ""]
        assert of.table(["infidelity"]).columns[1].title == "Infidelity ↓ ≈ chance"
        # Neither figures and test that disagree, nor worse ones, are better.
        worse = paired("infidelity", {"random": 0.1, "cam": 0.5}, {("random", "cam"): 0.001}, larger_is_better=False)
        assert task(figures=of.figures, comparisons={"infidelity": worse}).like_chance("infidelity")
        better = paired("infidelity", {"random": 0.5, "cam": 0.1}, {("random", "cam"): 0.001}, larger_is_better=False)
        assert not task(figures=of.figures, comparisons={"infidelity": better}).like_chance("infidelity")

    def test_the_f1_of_every_word_stands_in_the_heading_of_f1(self):
        every_word = {"ivra": 0.3, "cam": 0.4}
        of = task(figures={method: metrics(f1_every_word=value) for method, value in every_word.items()})
        # IvRA's own classifier gets other texts right.
        assert of.table(["f1", "auroc"]).columns[1].title == "F1 ↑ (every word 0.400)"
        assert of.table(["f1", "auroc"]).columns[2].title == "AUROC ↑"

    def test_every_word_is_not_a_random_draw(self):
        of = task(figures={method: metrics() for method in ("every_word", "random", "cam")})
        assert of.chance == {"every_word", "random"} and of.random("f1") == "random"

    def test_what_explains_its_own_classifier_is_not_best_in_what_asks_the_classifier(self):
        figures = {"ivra": metrics(0.9, aopc_comprehensiveness=0.9), "cam": metrics(0.5, aopc_comprehensiveness=0.3)}
        of = task(figures=figures)
        assert column(of, "aopc_comprehensiveness") == [("0.900", ""), ("0.300", "best")]
        assert of.table().rows[0][0] == "ivra †"

    def test_counted_passes_that_are_not_all_the_work_say_so_and_are_never_best(self):
        of = task(figures={"full_lrp": metrics(forward_passes=1.0), "faml": metrics(forward_passes=2.0)})
        assert column(of, "forward_passes") == [("2.0+", ""), ("1.0+", "")]

    def test_costs_within_the_clock_s_noise_are_all_best_and_nothing_beats_classifying_alone(self):
        times = {"marker": 0.93, "raw_attention": 1.08, "rollout": 1.2, "lime": 31.0}
        of = task(figures={method: metrics(time=time) for method, time in times.items()})
        assert column(of, "time") == [("1.0×", "best"), ("1.1×", "best"), ("1.2×", ""), ("31.0×", "")]
        assert of.table(["time"]).columns[1].machine

    def test_methods_without_any_of_the_figures_have_no_row(self):
        of = task(figures={"cam": metrics(), "llm_rationale": {"reason_gain": 0.5}})
        assert of.table(["reason_gain"]).methods == ["llm_rationale"]


class TestFiles:
    def test_everything_comes_back(self, tmp_path):
        texts = {
            name: [attribution(("a", "fine", "film"), [0.1, s, 0.2], example_id="a", method=name)]
            for name, s in (("cam", 0.9), ("random", 0.3))
        }
        classifier = FakeClassifier(random_probability)
        before = evaluate(classifier, texts, {"a": [0, 1, 0]}, ["comprehensiveness", "f1_topk"])
        before = before.model_copy(update={**shown(text()), "left_out": {"lime": "slow"}, "notes": {"cam": {"x": [1]}}})
        before.by_text["mosaics"] = {"cam": np.array([0.5, 0.75])}
        before.save(tmp_path / "evaluation")
        after = Evaluation.load(tmp_path / "evaluation")
        assert after.model_dump() == before.model_dump() and after.figures["cam"]["f1_topk"] == 1.0
        for metric, methods in before.by_text.items():
            for method, values in methods.items():
                np.testing.assert_array_equal(after.by_text[metric][method], values)
        assert after.comparisons.keys() == before.comparisons.keys()
        assert repr(after.comparisons) == repr(before.comparisons)
        np.testing.assert_array_equal(after.agreement, before.agreement)
        assert [a.to_dict() for a in after.attributions] == [a.to_dict() for a in before.attributions]
        assert str(after) == str(before)

    def test_a_damaged_file_is_named(self, tmp_path):
        task().save(tmp_path / "evaluation")
        document = tmp_path / "evaluation" / "evaluation.json"
        document.write_text(document.read_text().replace('"seed": 13', '"seed": "x"'))
        with pytest.raises(DataError, match=r"evaluation\.json, field 'seed'"):
            Evaluation.load(tmp_path / "evaluation")
        (tmp_path / "evaluation" / "pairs.parquet").unlink()
        document.write_text(document.read_text().replace('"seed": "x"', '"seed": 13'))
        with pytest.raises(DataError, match=r"pairs\.parquet"):
            Evaluation.load(tmp_path / "evaluation")


class TestFrame:
    def test_a_run_is_one_frame_by_task_and_method_or_by_text(self, tmp_path):
        values = {"sufficiency": {"cam": np.array([0.1, 0.2, 0.3, np.nan])}, "mosaics": {"cam": np.array([0.5])}}
        for name, f1 in (("films", 0.5), ("meals", 0.25)):
            of = task(name, {"cam": metrics(f1), "random": metrics(0.1)}, by_text=values)
            of.save(tmp_path / "metrics" / name)
        of.save(tmp_path / "metrics" / "own_classifier" / "films")
        frame = read_report(tmp_path)
        assert frame.index.names == ["task", "method"]
        assert frame["f1"].to_dict() == {
            ("films", "cam"): 0.5, ("films", "random"): 0.1, ("meals", "cam"): 0.25, ("meals", "random"): 0.1
        }  # fmt: skip
        by_text = read_report(tmp_path, by_text=True)
        assert by_text.index.names == ["task", "method", "text"] and list(by_text) == ["sufficiency"]
        assert by_text.loc[("meals", "cam", "b"), "sufficiency"] == 0.2
        # One evaluation is a run of one task.
        assert read_report(tmp_path / "metrics" / "films")["f1"]["films", "cam"] == 0.5

    def test_a_folder_without_an_evaluation_is_named(self, tmp_path):
        with pytest.raises(DataError, match=r"evaluation\.json"):
            read_report(tmp_path)


def test_a_catalogue_s_metric_is_shown_by_default():
    assert task().metrics is CATALOGUE

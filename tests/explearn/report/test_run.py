"""Evaluations of several tasks are put together over all their texts."""

import numpy as np
import pytest
from evaluations import metrics, run, task

from explearn.metrics.registry import CATALOGUE
from explearn.report.run import MARKS, MODEL, pooled

WEAK = {"test": {"accuracy": 0.52, "majority_rate": 0.5}}
NOISE = np.random.default_rng(13).normal(0, 0.01, 40)


def around(figures):
    """Values by text: each method's figure, with some noise."""
    return {m: np.clip(value + np.roll(NOISE, 7 * i), -1, 1) for i, (m, value) in enumerate(figures.items())}


def judged(f1, name="films", **changes):
    by_text = {CATALOGUE[MARKS].by_text: around(f1)}
    return task(name, {method: metrics(value) for method, value in f1.items()}, by_text=by_text, **changes)


class TestPooled:
    def test_figures_are_means_and_methods_that_lack_a_task_have_none(self):
        films = judged({"marker": 0.5, "rollout": 0.4})
        meals = judged({"marker": 0.3}, "meals")
        overall = pooled([films, meals])
        assert overall.values("f1") == {"marker": pytest.approx(0.4)}
        # A task where nobody has the figure does not count.
        empty = task("empty", {"marker": metrics(None)})
        assert pooled([films, meals, empty]).values("f1")["marker"] == pytest.approx(0.4)

    def test_tests_are_over_the_texts_of_all_tasks(self):
        # Against rollout, cam wins on one task what it loses on the other; raw_attention loses on both.
        films = judged({"raw_attention": 0.4, "cam": 0.6, "rollout": 0.5})
        meals = judged({"raw_attention": 0.4, "cam": 0.39, "rollout": 0.5}, "meals")
        tests = pooled([films, meals]).comparisons[MARKS]
        assert tests.texts.max() == 80
        assert tests.outcome("rollout", "raw_attention", 0.05) == 1 and tests.outcome("rollout", "cam", 0.05) == 0

    def test_one_task_is_itself(self):
        films = task()
        assert pooled([films]) is films and run(films).overall.figures == films.figures


class TestCounted:
    def test_tasks_whose_classifier_learned_nothing_do_not_count(self):
        weak = task("films", performance=WEAK)
        good = task("meals")
        assert run(weak, good).counted == [good] and run(weak).counted == [weak]

    @pytest.mark.parametrize(
        ("accuracy", "majority", "weak"),
        [(0.61, 0.5, False), (0.59, 0.5, True), (0.98, 0.95, False), (0.97, 0.95, True), (0.7, 1.0, False)],
    )
    def test_a_classifier_counts_that_avoids_half_of_the_errors(self, accuracy, majority, weak):
        of = task(performance={"test": {"accuracy": accuracy, "majority_rate": majority}})
        assert (run(of).near_chance(of) is not None) is weak


class TestAnnotators:
    def test_each_kind_of_annotators_is_a_metric_of_its_own(self):
        films = judged({"marker": 0.6, "cam": 0.4}, marks={"marked_by": {"llm": ["a"]}})
        meals = judged({"marker": 0.4, "cam": 0.5}, "meals", marks={"marked_by": {"llm": ["a"]}})
        posts = judged({"marker": 0.2, "cam": 0.3}, "posts", marks={"marked_by": {"human": ["b", "c"]}})
        of = run(films, meals, posts)
        assert of.of_some_tasks == ["marks_human", "marks_llm"]
        assert of.overall.values("marks_human") == {"marker": 0.2, "cam": 0.3}
        assert of.overall.values("marks_llm") == pytest.approx({"marker": 0.5, "cam": 0.45})
        assert of.overall.standing(of.overall.metrics["marks_human"])[0] == ("cam",)
        assert of.overall.values(MARKS)["marker"] == pytest.approx(0.4)

    def test_one_kind_needs_no_metric(self):
        of = run(judged({"marker": 0.6}, marks={"marked_by": {"llm": ["a"]}}), task("empty", {"marker": metrics(None)}))
        assert of.of_some_tasks == []


class TestPlanted:
    METHODS = ("marker_in_domain", "rollout", "random", "ivra")
    OPTIONS = {"marker_in_domain": {"protocol": "in_domain"}}  # noqa: RUF012

    def overall(self):
        right = dict.fromkeys(self.METHODS, np.array([1.0, 0.5, np.nan, 1.0] * 3))
        figures = {method: metrics(0.833, 0.7, 0.9) for method in self.METHODS}
        figures["random"] = metrics(0.0)
        values = {CATALOGUE[MARKS].by_text: {**right, "random": right["random"] * 0}}
        order = task("order", figures, by_text=values, options=self.OPTIONS)
        films = task("films", {method: metrics() for method in self.METHODS})
        return run(films, planted=[order]).overall

    def test_they_are_a_metric_of_their_own_with_the_task_s_interval(self):
        overall = self.overall()
        # Marker's marks in its domain were the planted words.
        assert overall.values("planted_order") == {"rollout": 0.833, "random": 0.0, "ivra": 0.833}
        assert overall.figures["ivra"]["planted_order_low"] == 0.7
        best, tied = overall.standing(overall.metrics["planted_order"])
        assert {"rollout", "ivra"} <= {*best, *tied} and "random" not in {*best, *tied}

    def test_what_explains_its_own_classifier_is_compared_in_them_but_not_in_what_asks_the_classifier(self):
        overall = self.overall()
        assert overall.comparable("ivra", "planted_order") and not overall.comparable("ivra", MODEL)

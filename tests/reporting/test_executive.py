"""The report's first page says what follows from the numbers, and no more."""

from __future__ import annotations

import numpy as np
import pytest

from explearn.params import Params
from explearn.reporting.caveats import caveats
from explearn.reporting.executive import leader_rows, leaders, means, overview
from explearn.reporting.papers import EXPNET_F1, EXPNET_PRECISION, EXPNET_RECALL, left_out, side_by_side
from explearn.reporting.sections import agreement_rows, sanity_rows, significance_matrix
from task_reports import check, comparison, metrics, similarity, task


def params(tasks=("films", "meals"), adapters=("corpus", "corpus")) -> Params:
    sources = {name: {"kind": "embedded", "adapter": adapter} for name, adapter in zip(tasks, adapters, strict=True)}
    return Params.model_validate({"profile": "test", "tasks": list(tasks), "sources": sources})


def two_tasks(first, second, **p_values):
    """Two tasks whose methods have the F1s given; tests between methods as in `p_values`, A__B=p."""
    tests = {tuple(pair.split("__")): p for pair, p in p_values.items()}
    return [
        task(
            name,
            {m: metrics(f1, relative_throughput=1 / (i + 1)) for i, (m, f1) in enumerate(figures.items())},
            comparisons={"f1": comparison("f1", figures, tests)},
        )
        for name, figures in (("films", first), ("meals", second))
    ]


def test_means_leave_out_methods_that_lack_a_task():
    tasks = two_tasks({"expnet": 0.5, "rollout": 0.4}, {"expnet": 0.3})
    assert means("f1", tasks) == {"expnet": pytest.approx(0.4)}
    assert means("time", tasks) == {"expnet": 1.0}
    # A task where nobody has the figure does not count.
    tasks.append(task("empty", {"expnet": metrics(None)}))
    assert means("f1", tasks) == {"expnet": pytest.approx(0.4)}


def test_the_leader_and_the_cheapest_that_keeps_up():
    figures = {"random": 0.1, "raw_attention": 0.4, "rollout": 0.5}
    tests = {"random__rollout": 0.001, "random__raw_attention": 0.001}
    (found, *_) = leaders(two_tasks(figures, figures, **tests))
    assert (found.method, found.value, found.chance, found.kept_up, found.tasks) == ("rollout", 0.5, 0.1, 2, 2)
    assert (found.rivals, found.cheapest, found.cheapest_time) == (1, "raw_attention", 2.0)


def test_nobody_keeps_up_everywhere_when_each_loses_somewhere():
    tests = {"raw_attention__rollout": 0.001}
    (found, *_) = leaders(
        two_tasks({"raw_attention": 0.4, "rollout": 0.5}, {"raw_attention": 0.5, "rollout": 0.3}, **tests)
    )
    assert (found.method, found.kept_up, found.rivals, found.cheapest) == ("raw_attention", 1, 0, None)


def test_overview_marks_the_best_mean_and_gives_the_time():
    columns, rows = overview(two_tasks({"expnet": 0.5, "rollout": 0.4}, {"expnet": 0.3, "rollout": 0.5}))
    f1 = [column.metric for column in columns].index("f1")
    assert {row.method: (row.cells[f1].text, row.cells[f1].best) for row in rows} == {
        "expnet": ("0.400", False),
        "rollout": ("0.450", True),
    }
    assert [row.cells[-1].text for row in rows] == ["1.0×", "2.0×"]


def said(tasks) -> str:
    return " ".join(caveats(params(), tasks))


def test_weak_classifiers_and_disagreeing_annotators_are_named():
    weak = task("films", classifier={"test": {"accuracy": 0.55, "majority_rate": 0.5}})
    assert "**Weak classifiers:** films." in said([weak]) and "Weak" not in said([task("films")])
    assert "disagree on the words:** films (0.30)" in said([task("films", agreement={"alpha": 0.3})])
    assert "disagree" not in said([task("films", agreement={"alpha": 0.7})])
    assert "in films no text is marked by two" in said([task("films", agreement={"alpha": None, "kinds": {"llm": 3}})])


def test_methods_that_do_not_notice_the_model_are_named():
    checked = {"texts": 4, "methods": {"rollout": check(0.9), "cam": check(0.2), "random": check(1.0)}}
    text = said([task("films", sanity=checked)])
    assert "**Hardly notice the model:** rollout (0.90)." in text
    assert "Hardly notice" not in said([task("films", sanity={"texts": 4, "methods": {"cam": check(0.4)}})])


def test_the_last_part_drawn_anew_decides():
    steps = check(0.1, random_model={"head": similarity(0.95), "embeddings": similarity(0.1)})
    assert "Hardly notice" not in said([task("films", sanity={"texts": 4, "methods": {"cam": steps}})])


def test_methods_and_figures_no_better_than_random_scores_are_named():
    figures = {"random": 0.5, "rollout": 0.55, "cam": 0.9}
    sure = comparison("auroc", figures, {("random", "cam"): 0.001})
    text = said([task("films", comparisons={"auroc": sure})])
    assert "finding marked words:** rollout." in text and "AUROC (" not in text
    assert "AUROC (0 of 2)" in said([task("films", comparisons={"auroc": comparison("auroc", figures)})])


def test_a_significantly_worse_method_is_no_better_than_random_scores():
    figures = {"random": 0.5, "rollout": 0.1}
    worse = comparison("auroc", figures, {("random", "rollout"): 0.001})
    assert "finding marked words:** rollout." in said([task("films", comparisons={"auroc": worse})])


@pytest.mark.parametrize(("without", "named"), [(0.85, False), (0.6, True)])
def test_a_fall_of_confidence_is_named(without, named):
    figures = metrics(confidence_full=0.9, confidence_without=without, confidence_only=0.9, confidence_masked=0.9)
    assert ("distribution:** films (0.90 to 0.60)" in said([task("films", {"cam": figures})])) is named


def test_the_matrix_says_who_is_better_in_the_metric_s_direction():
    figures = {"expnet": 0.1, "rollout": 0.4, "cam": 0.35}
    found = comparison("sufficiency", figures, {("expnet", "rollout"): 0.01}, larger_is_better=False)
    assert significance_matrix(found, 0.05) == [
        ("expnet", ["", "+", "·"]),
        ("rollout", ["−", "", "·"]),
        ("cam", ["·", "·", ""]),
    ]


def test_agreement_between_methods_is_in_leaderboard_order_and_percent():
    matrix = np.array([[1, 0.5, -0.25], [0.5, 1, np.nan], [-0.25, np.nan, 1]])
    methods = {"rollout": metrics(), "expnet": metrics(), "cam": metrics()}
    rows = agreement_rows(task(methods=methods, method_agreement={"rank_agreement": matrix}))
    assert rows == [("expnet", ["", "50", "–"]), ("rollout", ["50", "", "-25"]), ("cam", ["–", "-25", ""])]


def test_sanity_rows_have_a_column_for_each_part_and_say_why_a_method_was_skipped():
    checked = {
        "cam": check(0.2, random_labels=similarity(0.4)),
        "lime": check(random_model={}, max_sensitivity=None, skipped="too slow"),
    }
    headings, rows = sanity_rows(task(sanity={"texts": 4, "methods": checked}))
    assert headings[1:3] == ["Rank correlation, new weights", "Top words kept, new weights"]
    assert rows[0] == ["cam", "0.20 (0.20 to 0.20)", "0.50", "0.40 (0.40 to 0.40)", "0.50", "0.250"]
    assert rows[1][1:] == ["–", "–", "–", "–", "not checked: too slow"]
    assert sanity_rows(task())[1] == []


def test_a_paper_s_table_stands_beside_ours_only_where_its_data_sets_are():
    names = ("sst2", "cola", "hx")
    tasks = [task(name, {"expnet": metrics(0.1 * i), "rollout": metrics(0.9)}) for i, name in enumerate(names, 1)]
    found = side_by_side(params(names, ("sst2", "cola", "hatexplain")), tasks)[0]
    assert found.headings == [f"{n}, {w}" for n in ("SST-2", "CoLA", "HateXplain") for w in ("paper", "ours")]
    rows = dict(found.rows)
    assert rows["expnet"] == [
        ("0.398", True), ("0.100", False), ("0.468", True), ("0.200", False), ("0.473", True), ("0.300", False),
    ]  # fmt: skip
    assert rows["rollout"][1] == ("0.900", True) and rows["lime"][1] == ("–", False)
    assert set(rows) == set(EXPNET_F1.figures)
    assert side_by_side(params(), [task("films"), task("meals")]) == []


@pytest.mark.parametrize(
    ("encoder", "differ"),
    [("google-bert/bert-base-uncased", False), ("bert-base-cased", False), ("FacebookAI/roberta-base", True),
     ("distilbert/distilbert-base-uncased", True), ("embedded", True)],
)  # fmt: skip
def test_a_paper_s_encoder_is_named_beside_ours(encoder, differ):
    names = ("sst2", "cola", "hatexplain")
    run = params(names, names).model_copy(update={"encoder": encoder})
    shown = side_by_side(run, [task(name) for name in names])
    assert [side.table.column.metric for side in shown] == ["f1", "precision", "recall", "throughput"]
    for side in shown:
        assert f"bert-base, here: {encoder}." in side.note and ("They differ" in side.note) == differ
    assert left_out(shown).count("Of ExpNet's results, left out: Table 4 ") == 1 and left_out([]) == ""


def test_the_paper_s_precision_and_recall_give_its_f1():
    for method, recalls in EXPNET_RECALL.figures.items():
        for p, r, f1 in zip(EXPNET_PRECISION.figures[method], recalls, EXPNET_F1.figures[method], strict=True):
            assert 2 * p * r / (p + r) == pytest.approx(f1, abs=0.002), method


def test_of_aml_s_tables_the_smallest_sufficiency_is_the_best():
    adapters = ("sst2", "rotten_tomatoes", "imdb", "emotion")
    run = params(adapters, adapters).model_copy(update={"explainers": ["paml"], "refiners": ["faml"]})
    found = side_by_side(run, [task(name, {"paml": metrics(sufficiency=0.1)}) for name in adapters])
    assert [side.table.title for side in found] == [
        "Sufficiency", "Log-odds", "Comprehensiveness", "AOPC sufficiency", "AOPC comprehensiveness",
    ]  # fmt: skip
    rows = dict(found[0].rows)
    assert rows["faml"][:2] == [("-0.010", True), ("–", False)] and rows["paml"][1] == ("0.100", True)
    assert rows["solvex"][4] == ("–", False)


def test_of_ivra_s_tables_ours_are_of_the_norm_of_the_run_and_on_its_own_classifier():
    adapters = ("imdb", "snli")
    run = params(adapters, adapters).model_copy(update={"explainers": ["ivra"]})
    own = {"ivra": {"methods": {"ivra": {"aopc_comprehensiveness": 0.5}}}}
    tasks = [task(name, {"ivra": metrics(aopc_comprehensiveness=0.1)}, own_models=own) for name in adapters]
    rows = dict(side_by_side(run, tasks)[0].rows)
    assert rows["ivra, softmax"][1] == ("0.500", True) and rows["ivra, sparsemax"][1] == ("–", False)


def test_what_trains_its_own_classifier_or_looks_at_a_metric_is_named_with_its_price():
    own = {
        "ivra": {"classifier": {"test": {"accuracy": 0.75}}, "methods": {}, "criteria": ["comp"], "coefficients": {}}
    }
    methods = {"ivra": metrics(0.9), "faml": metrics(0.2, aopc_comprehensiveness=0.9)}
    of = task("films", methods, own_models=own, notes={"faml": {"optimised_for": "aopc_difference"}})
    said = caveats(params(), [of])
    (another,) = (sentence for sentence in said if sentence.startswith("**Another classifier:** ivra"))
    change = 100 * (0.75 - of.classifier["test"]["accuracy"])
    assert f"films {change:+.1f}." in another
    (watching,) = (sentence for sentence in said if sentence.startswith("**Looks at the metric:** faml"))
    assert "aopc" in watching
    ahead = {row[0]: row[1] for row in leader_rows(leaders([of]))}
    assert ahead["Chooses the words that people marked"] == "**ivra** (on its own classifier)"
    assert ahead["Finds the words the classifier depends on"] == "**faml** (looks at a metric)"
    plain = caveats(params(), [task("films", {"cam": metrics()})])
    assert not any(sentence.startswith(("**Another", "**Looks")) for sentence in plain)

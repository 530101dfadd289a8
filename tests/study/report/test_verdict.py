"""The report's first page says what follows from the numbers, and no more."""

from __future__ import annotations

import runpy
from dataclasses import replace

import numpy as np
import pytest
from task_reports import check, comparison, metrics, similarity, task

from explearn.judge.catalogue import CATALOGUE
from explearn.show import verdict
from explearn.show.caveats import caveats
from explearn.show.task_sections import agreement_rows, own_model_blocks, sanity_rows, significance_matrix
from explearn.show.verdict import (
    LEADER_HEADINGS,
    QUESTION_COLUMNS,
    TIME,
    counted_tasks,
    counting_sentence,
    headline_sentences,
    leader_rows,
    leaders,
    means,
    only_times,
    overview,
    without_times,
)
from explearn_study.params import Params
from explearn_study.report.papers import EXPNET_F1, EXPNET_PRECISION, EXPNET_RECALL, left_out, side_by_side


def params(tasks=("films", "meals"), adapters=("corpus", "corpus")) -> Params:
    sources = {name: {"kind": "embedded", "adapter": adapter} for name, adapter in zip(tasks, adapters, strict=True)}
    return Params.of({"profile": "test", "tasks": list(tasks), "sources": sources})


NOISE = np.array([0.0, -0.04, 0.03, 0.02, -0.01, 0.05, -0.05, 0.01])
"""What is added to a method's figure on eight texts."""


def two_tasks(first, second, **p_values):
    """Two tasks whose methods have the F1s given, and eight texts' F1s about them; tests between the methods of each
    task as in `p_values`, A__B=p."""
    tests = {tuple(pair.split("__")): p for pair, p in p_values.items()}
    return [
        task(
            name,
            {m: metrics(f1, relative_throughput=1 / (i + 1)) for i, (m, f1) in enumerate(figures.items())},
            comparisons={"f1_topk": comparison("f1_topk", figures, tests)},
            by_text={"text_f1_topk": {m: f1 + NOISE for m, f1 in figures.items()}},
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


def test_the_texts_of_all_tasks_together_say_who_is_not_told_apart_from_the_best():
    # Against rollout: cam wins on one task what it loses on the other, raw_attention loses on both.
    films = {"random": 0.1, "raw_attention": 0.4, "cam": 0.6, "rollout": 0.5}
    meals = {"random": 0.1, "raw_attention": 0.4, "cam": 0.39, "rollout": 0.5}
    (found, *_) = leaders(two_tasks(films, meals), 0.05)
    assert (found.method, found.value, found.chance) == ("rollout", 0.5, 0.1)
    assert (found.rivals, found.fastest, found.fastest_time) == (1, "cam", 3.0)
    # By task, the tests given say that none is beaten.
    assert (found.unbeaten, found.tasks) == (2, 2)


def test_random_scores_are_no_alternative_to_the_best():
    figures = {"random": 0.5, "rollout": 0.5 + 1e-9}
    tasks = [replace(t, by_text={"text_f1_topk": dict.fromkeys(figures, NOISE)}) for t in two_tasks(figures, figures)]
    (found, *_) = leaders(tasks, 0.05)
    assert (found.method, found.rivals, found.fastest) == ("rollout", 0, "rollout")
    (row,) = leader_rows([found])
    assert row[5] == "0, and random"
    assert row[1] == "none clearly (first: rollout)" and row[6] == "–"
    assert len(row) == len(LEADER_HEADINGS)
    assert without_times(LEADER_HEADINGS) == [
        "Question",
        "Best method",
        "Its figure",
        "Not beaten on",
        "Others not significantly worse",
    ]
    assert only_times(row)[2:] == [row[4], row[6]]


def test_a_leader_may_be_beaten_on_a_task():
    tests = {"raw_attention__rollout": 0.001}
    (found, *_) = leaders(
        two_tasks({"raw_attention": 0.4, "rollout": 0.5}, {"raw_attention": 0.5, "rollout": 0.3}, **tests), 0.05
    )
    assert (found.method, found.unbeaten, found.tasks) == ("raw_attention", 1, 2)


def test_without_values_by_text_nothing_is_said_of_tests():
    (row, *_) = leader_rows(leaders([task("films")], 0.05))
    assert [str(cell) for cell in row[3:]] == ["not tested", "4.0×", "not tested", "not tested"]


def test_tasks_whose_classifier_learned_nothing_do_not_count():
    weak = task("films", classifier={"test": {"accuracy": 0.55, "majority_rate": 0.5}})
    of, good = params(), task("meals")
    assert counted_tasks(of, [weak, good]) == [good] and counted_tasks(of, [weak]) == [weak]
    said = counting_sentence(of, [weak, good])
    assert "over 1 of 2 tasks" in said and "films (accuracy 0.550, most frequent class 0.500)" in said
    assert "No evidence" in counting_sentence(of, [weak])
    assert counting_sentence(of, [good]) == "Means are over all tasks."


def test_who_is_ahead_does_not_depend_on_a_method_s_own_rule():
    own_rule = {"expnet": {**metrics(0.5), "f1": 0.1}, "rollout": metrics(0.4)}
    assert leaders([task(methods=own_rule)], 0.05)[0].method == "expnet"
    said = " ".join(headline_sentences(params().model_copy(update={"explainer": "expnet"}), [task(methods=own_rule)]))
    assert "F1 of **0.500**" in said and "When it chooses words by its own rule, its F1 is 0.100." in said


def test_a_method_that_explains_its_own_classifier_is_not_ahead_in_what_asks_the_classifier():
    figures = {"ivra": metrics(0.9, aopc_comprehensiveness=0.9), "cam": metrics(0.5, aopc_comprehensiveness=0.3)}
    found = {leader.column.metric: leader.method for leader in leaders([task(methods=figures)], 0.05)}
    assert (found["f1_topk"], found["aopc_comprehensiveness"]) == ("ivra", "cam")
    columns, rows = overview([task(methods=figures)], QUESTION_COLUMNS)
    aopc = [column.metric for column in columns].index("aopc_comprehensiveness")
    assert {row.method: (row.cells[aopc].text, row.cells[aopc].best) for row in rows} == {
        "ivra": ("0.900", False),
        "cam": ("0.300", True),
    }


def test_overview_marks_the_best_mean_and_gives_the_time():
    columns, rows = overview(
        two_tasks({"expnet": 0.5, "rollout": 0.4}, {"expnet": 0.3, "rollout": 0.5}), (*QUESTION_COLUMNS, TIME)
    )
    f1 = [column.metric for column in columns].index("f1_topk")
    assert {row.method: (row.cells[f1].text, row.cells[f1].best) for row in rows} == {
        "expnet": ("0.400", False),
        "rollout": ("0.450", True),
    }
    assert [row.cells[-1].text for row in rows] == ["1.0×", "2.0×"]


@pytest.mark.parametrize("place", range(len(QUESTION_COLUMNS)))
def test_a_question_s_figure_is_as_the_catalogue_declares_it(monkeypatch, place):
    name = QUESTION_COLUMNS[place].metric
    other = "lower" if CATALOGUE[name].larger_is_better else "higher"
    monkeypatch.setitem(CATALOGUE, name, replace(CATALOGUE[name], heading="Tempo", direction=other, decimals=7))
    found = runpy.run_path(verdict.__file__)["QUESTION_COLUMNS"][place]
    # What two metrics of stability share is all that is said here.
    heading = "Stability" if name == "stability_semantic" else "Tempo"
    assert (found.heading, found.larger_is_better, found.decimals) == (heading, other == "higher", 7)


def said(tasks) -> str:
    return " ".join(caveats(params(), tasks))


def test_disagreeing_annotators_are_named():
    assert "disagree on the words:** films (0.30)" in said([task("films", agreement={"alpha": 0.3})])
    assert "disagree" not in said([task("films", agreement={"alpha": 0.7})])
    assert "in films no text was marked by two annotators" in said(
        [task("films", agreement={"alpha": None, "kinds": {"llm": 3}})]
    )


def test_methods_that_do_not_notice_the_model_are_named():
    checked = {"texts": 4, "methods": {"rollout": check(0.9), "cam": check(0.2), "random": check(1.0)}}
    text = said([task("films", sanity=checked)])
    assert "**Hardly notice the model:** rollout (0.90)." in text
    assert "Hardly notice" not in said([task("films", sanity={"texts": 4, "methods": {"cam": check(0.4)}})])


def test_methods_and_checks_that_were_left_out_of_the_sanity_checks_are_named():
    methods = dict.fromkeys(("cam", "lime", "l2e", "random"), metrics())
    checked = {"texts": 4, "methods": {"cam": check(0.2), "l2e": check(random_model={}, skipped="another")}}
    text = said([task("films", methods, sanity=checked)])
    assert "checked on 4 texts per task, and not for lime." in text and "(permuted labels) was not checked" in text
    assert "**Hardly notice the model:** l2e sees only the text and the predicted label" in text
    checked["methods"] |= {"lime": check(random_labels=similarity(0.1))}
    text = said([task("films", methods, sanity=checked)])
    assert "checked on 4 texts per task." in text and "permuted" not in text
    assert "No sanity check was run" in said([task("films", methods)])


def test_what_every_run_of_such_methods_has_against_it_is_said():
    text = said([task("films", dict.fromkeys(("expnet", "lime", "deep_shap", "cam"), metrics()))])
    assert "**One training run:** expnet, and the classifiers," in text and "with seed 13" in text
    assert "**Close to the metric:** lime is fitted" in text
    text = said([task("films", {"cam": metrics()})])
    assert "One training run" not in text and "Close to the metric" not in text


@pytest.mark.parametrize(("confidence", "named"), [(0.85, False), (0.4, True)])
def test_a_classifier_less_sure_than_right_is_named(confidence, named):
    of = task("films", {"ivra": metrics(confidence_full=0.1), "cam": metrics(confidence_full=confidence)})
    assert ("films (accuracy 0.90, mean confidence 0.40)" in said([of])) is named


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


@pytest.mark.parametrize(("without", "named"), [(0.81, False), (0.79, True)])
def test_a_fall_of_confidence_on_texts_shortened_at_random_is_named(without, named):
    # Of two classes: guessing is 0.5, so that a quarter of the way is at 0.8.
    figures = metrics(confidence_full=0.9, confidence_without=without, confidence_only=0.9, confidence_masked=0.9)
    assert ("distribution:** films (0.90 to 0.79)" in said([task("films", {"random": figures})])) is named
    assert "distribution:**" not in said([task("films", {"cam": figures})])


def test_the_matrix_says_who_is_better_in_the_metric_s_direction():
    figures = {"expnet": 0.1, "rollout": 0.4, "cam": 0.35}
    found = comparison("sufficiency", figures, {("expnet", "rollout"): 0.01}, larger_is_better=False)
    assert significance_matrix(found, 0.05) == [
        ("expnet", ["", "+", "·"]),
        ("rollout", ["−", "", "·"]),
        ("cam", ["·", "·", ""]),
    ]


def test_where_figures_and_test_disagree_on_who_is_better_nothing_is_said():
    figures = {"random": 0.5, "cam": 0.9}
    against = np.array([[0, 1], [-1, 0]], dtype=np.int8)
    found = comparison("auroc", figures, {("random", "cam"): 0.001}, direction=against)
    assert significance_matrix(found, 0.05) == [("random", ["", "·"]), ("cam", ["·", ""])]
    assert "finding marked words:** cam." in said([task("films", comparisons={"auroc": found})])


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
    headings, rows = sanity_rows(task(methods={}, sanity={"texts": 4, "methods": checked}))
    assert headings[1:3] == ["Rank correlation, new weights", "Top words kept, new weights"]
    assert rows[0] == ["cam", "0.20 (0.20 to 0.20)", "0.50", "0.40 (0.40 to 0.40)", "0.50", "0.250"]
    assert rows[1][1:] == ["–", "–", "–", "–", "not checked: too slow"]
    assert [row[0] for row in rows] == ["cam", "lime"]
    _, rows = sanity_rows(task(methods={"cam": metrics(), "shap": metrics()}, sanity={"texts": 4, "methods": checked}))
    assert rows[-1][0] == "shap" and rows[-1][-1] == "not checked: not among sanity.methods"
    assert sanity_rows(task())[1] == []


def test_on_another_classifier_too_ties_are_those_of_the_tests():
    figures = {"ivra": 0.5, "cam": 0.45, "rollout": 0.1}
    own = {
        "ivra": {
            "criteria": ["comp"],
            "epochs": 4,
            "best_epoch": 3,
            "classifier": {},
            "methods": {name: {"aopc_comprehensiveness": value} for name, value in figures.items()},
            "tied": {"aopc_comprehensiveness": ["ivra", "cam"]},
        }
    }
    (block,) = own_model_blocks(task(own_models=own))
    assert {row[0]: row[2] for row in block.rows} == {"ivra": "**0.500**", "cam": "<u>0.450</u>", "rollout": "0.100"}
    assert block.sentence.startswith("Trained for comp: epoch 3 of 4 was the best. ")
    assert not any("Not trained" in sentence for sentence in caveats(params(), [task(own_models=own)]))


def test_an_explainer_that_came_out_untrained_is_named():
    own = {"ivra": {"criteria": ["comp", "suff"], "epochs": 4, "best_epoch": 0, "classifier": {}, "methods": {}}}
    (block,) = own_model_blocks(task(own_models={"ivra": {**own["ivra"], "tied": {}}}))
    assert block.sentence.startswith("**Not trained:** it was to be trained for comp, suff, but none of 4 epochs")
    assert "Trained for" not in block.sentence and "the untrained module on the task's own classifier" in block.sentence
    trained = {"ivra": {**own["ivra"], "best_epoch": 1}}
    said = caveats(params(), [task("films", own_models=own), task("meals", own_models=trained)])
    (found,) = (sentence for sentence in said if sentence.startswith("**Not trained:**"))
    assert found.startswith("**Not trained:** ivra on films. No epoch")


def test_a_masking_model_that_came_out_untrained_is_named():
    epochs = [{"metric": value} for value in (0.5, 0.25, 0.375)]
    notes = {"paml": {"metric": "comprehensiveness", "weights": {}, "trials": [], "epochs": epochs}}
    methods = {name: metrics() for name in ("paml", "faml", "rollout")}
    better = {"paml": {**notes["paml"], "epochs": epochs[1:]}}
    said = caveats(params(), [task("films", methods, notes=notes), task("meals", methods, notes=better)])
    found = [sentence.partition(".")[0] for sentence in said if "ntrained:**" in sentence or "Not trained" in sentence]
    assert found == ["**Not trained:** paml on films", "**Begins untrained:** faml on films"]


def test_a_paper_s_table_stands_beside_ours_only_where_its_data_sets_are():
    names = ("sst2", "cola", "hx")
    tasks = [task(name, {"expnet_paper": metrics(0.1 * i), "rollout": metrics(0.9)}) for i, name in enumerate(names, 1)]
    found = side_by_side(params(names, ("sst2", "cola", "hatexplain")), tasks)[0]
    assert found.headings == [f"{n}, {w}" for n in ("SST-2", "CoLA", "HateXplain") for w in ("paper", "ours")]
    rows = dict(found.rows)
    assert rows["expnet_paper"] == [
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
    assert left_out(shown).count("Of ExpNet's results, left out: LRP and FullLRP ") == 1 and left_out([]) == ""


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
    adapters = ("imdb", "snli", "squad")
    run = params(adapters, adapters).model_copy(update={"explainers": ["ivra"]})
    own = {"ivra": {"methods": {"ivra": {"aopc_comprehensiveness": 0.5}}}}
    tasks = [task(name, {"ivra": metrics(aopc_comprehensiveness=0.1)}, own_models=own) for name in adapters]
    rows = dict(side_by_side(run, tasks)[0].rows)
    assert rows["ivra, softmax"][1] == ("0.500", True) and rows["ivra, sparsemax"][1] == ("–", False)


def test_what_trains_its_own_classifier_or_looks_at_a_metric_is_named_with_its_price():
    own = {"ivra": {"classifier": {"test": {"accuracy": 0.75}}, "methods": {}, "criteria": ["comp"], "tied": {}}}
    methods = {"ivra": metrics(0.9), "faml": metrics(0.2, aopc_comprehensiveness=0.9), "solvex": metrics(0.1)}
    of = task("films", methods, own_models=own, notes={"faml": {"optimised_for": "aopc_difference"}})
    said = caveats(params(), [of])
    (another,) = (sentence for sentence in said if sentence.startswith("**Another classifier:** ivra"))
    change = 100 * (0.75 - of.classifier["test"]["accuracy"])
    assert f"films {change:+.1f}." in another
    (watching,) = (sentence for sentence in said if sentence.startswith("**Looks at the metric:** faml"))
    assert "aopc" in watching
    (searching,) = (sentence for sentence in said if sentence.startswith("**Looks at the metric:** solvex"))
    assert "a metric of faithfulness" in searching
    ahead = {row[0]: row[1] for row in leader_rows(leaders([of], 0.05))}
    assert ahead["Chooses the words that people marked"] == "**ivra** (on its own classifier)"
    assert ahead["Finds the words the classifier depends on"] == "**faml** (looks at a metric)"
    plain = caveats(params(), [task("films", {"cam": metrics()})])
    assert not any(sentence.startswith(("**Another", "**Looks")) for sentence in plain)

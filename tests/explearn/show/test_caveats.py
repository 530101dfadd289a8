"""Caveats are those that the numbers support, and those that may change the verdict come first."""

from itertools import chain

import numpy as np
import pytest
from task_reports import check, comparison, metrics, run, similarity, task

from explearn.metrics.registry import CATALOGUE
from explearn.report.caveats import OPEN_CAVEATS, RULES, Caveat, find_caveats, part_caveats
from explearn.report.columns import leaderboard
from explearn.report.verdict import unranked_metrics


def said(*tasks, **changes):
    names = {}
    for of in tasks:
        names |= dict.fromkeys([*of.methods, *of.sanity.get("methods", {})])
    for of in tasks:
        names |= dict.fromkeys(chain(*(test.methods for test in of.comparisons.values())))
    facts = run(*names, **{"trained": [n for n in names if n == "marker"], **changes})
    return " ".join(c.text.replace("\x02", "").replace("\x03", "") for c in find_caveats(facts, tasks))


def test_disagreeing_annotators_are_named():
    assert "Annotators disagree: films (0.30)" in said(task(agreement={"alpha": 0.3}))
    assert "disagree" not in said(task(agreement={"alpha": 0.7}))
    assert "in films no text was marked by two annotators" in said(task(agreement={"alpha": None, "kinds": {"llm": 3}}))


def test_what_is_missing_and_the_remarks_of_the_run_are_told():
    text = said(task(agreement={"texts": {"test": 0}}, classifier={}), remarks=["Left out: lime (slow)."])
    assert "No marks: films." in text and "No labels: films." in text and "Left out: lime (slow)." in text


def test_methods_that_do_not_notice_the_model_are_named():
    checked = {"texts": 4, "methods": {"rollout": check(0.9), "cam": check(0.2), "random": check(1.0)}}
    assert "Hardly depend on the model: rollout (0.90)." in said(task(sanity=checked))
    # The last part that is drawn anew decides.
    steps = check(0.1, random_model={"head": similarity(0.95), "embeddings": similarity(0.1)})
    assert "Hardly depend" not in said(task(sanity={"texts": 4, "methods": {"cam": steps}}))


def test_methods_and_checks_that_were_left_out_of_the_sanity_checks_are_named():
    methods = dict.fromkeys(("cam", "lime", "l2e", "random"), metrics())
    checked = {"texts": 1, "methods": {"cam": check(0.2), "l2e": check(random_model={}, skipped="another")}}
    text = said(task("films", methods, sanity=checked))
    assert "Not checked: lime. Whether" in text
    assert "Hardly depend on the model: l2e sees only the text and the predicted label" in text
    checked["methods"] |= {"lime": check()}
    assert "Not checked" not in said(task("films", methods, sanity=checked))
    assert "Not checked: all methods." in said(task("films", methods))


def test_what_every_run_of_such_methods_has_against_it_is_said():
    text = said(task("films", dict.fromkeys(("marker", "lime", "deep_shap", "cam"), metrics())))
    assert "One training run: marker, and the classifiers," in text and "with seed 13" in text
    assert "Close to the metric: lime is fitted" in text
    both = task("films", dict.fromkeys(("lime", "reader"), metrics()))
    text = said(both, options={"reader": {"teacher": "answers"}})
    assert "lime is fitted" in text and "; reader is trained on its predictions for such texts." in text
    assert "such texts" not in said(both, options={"reader": {"teacher": "attcat"}})
    text = said(task("films", {"cam": metrics()}))
    assert "One training run" not in text and "Close to the metric" not in text


@pytest.mark.parametrize(("confidence", "named"), [(0.85, False), (0.4, True)])
def test_a_classifier_less_sure_than_right_is_named(confidence, named):
    of = task("films", {"ivra": metrics(confidence_full=0.1), "cam": metrics(confidence_full=confidence)})
    assert ("films (accuracy 0.90, mean confidence 0.40)" in said(of)) is named


@pytest.mark.parametrize(("without", "named"), [(0.81, False), (0.79, True)])
def test_a_fall_of_confidence_on_texts_shortened_at_random_is_named(without, named):
    # Of two classes: guessing is 0.5, so that a quarter of the way is at 0.8.
    figures = metrics(confidence_full=0.9, confidence_without=without, confidence_only=0.9, confidence_masked=0.9)
    assert ("distribution: films (0.90 to 0.79)" in said(task("films", {"random": figures}))) is named
    assert "distribution:" not in said(task("films", {"cam": figures}))


def test_methods_and_figures_no_better_than_random_scores_are_named():
    figures = {"random": 0.5, "rollout": 0.55, "cam": 0.9}
    text = said(task(comparisons={"auroc": comparison("auroc", figures, {("random", "cam"): 0.001})}))
    assert "finding the marked words: rollout." in text and "AUROC (" not in text
    assert "AUROC (0 of 2)" in said(task(comparisons={"auroc": comparison("auroc", figures)}))
    # Neither is one that is significantly worse, nor one of which figures and test disagree.
    worse = comparison("auroc", {"random": 0.5, "cam": 0.1}, {("random", "cam"): 0.001})
    against = np.array([[0, 1], [-1, 0]], dtype=np.int8)
    unclear = comparison("auroc", {"random": 0.5, "cam": 0.9}, {("random", "cam"): 0.001}, direction=against)
    for test in (worse, unclear):
        assert "finding the marked words: cam." in said(task(comparisons={"auroc": test}))


def test_methods_whose_scores_miss_their_sum_by_a_tenth_are_named():
    shap = metrics(completeness_error=0.09)
    lift = metrics(completeness_error=0.3)
    text = said(task("films", {"shap": shap, "deep_lift": lift}))
    assert "Scores that do not add up: deep_lift (30%)." in text
    assert "add up" not in said(task("films", {"shap": shap}))


def test_methods_trained_for_less_than_half_as_long_are_named():
    methods = {name: metrics(training_seconds=t) for name, t in (("reader", 40.0), ("paml", 19.0), ("ivra", 21.0))}
    text = said(task("films", {**methods, "lime": metrics(training_seconds=None)}))
    assert "Less training: paml 19 s. reader was trained for 40 s" in text
    assert "Less training" not in said(task("films", {name: methods[name] for name in ("reader", "ivra")}))


def test_an_explainer_that_came_out_untrained_is_named():
    films, meals = (
        task(name, {"ivra": metrics()}, notes={"ivra": {"criteria": ["comp"], "best_epoch": best}})
        for name, best in (("films", 0), ("meals", 1))
    )
    assert "Not trained: ivra on films. No epoch" in said(films, meals)
    notes = {"paml": {"metric": "aopc_difference", "epochs": [{"metric": 0.5}, {"metric": 0.4}], "best_epoch": 0}}
    text = said(task("films", dict.fromkeys(("paml", "faml"), metrics()), notes=notes))
    assert "Not trained: paml on films." in text
    assert "Not trained: faml on films. No epoch was better than the start when training paml" in text


def test_gravest_caveats_on_the_verdict_s_methods_are_open_and_all_others_folded():
    noise = Caveat("Small differences", "small")
    cam, gae = (Caveat("Optimises the metric", name, methods=[name]) for name in ("cam", "gae"))
    folded = Caveat("Two questions", "two", grave=False)
    assert part_caveats([cam, gae, noise, folded], ["cam", "lime"]) == ([cam, noise], [gae, folded])
    assert len(part_caveats([noise] * 5, [])[0]) == OPEN_CAVEATS
    notes = {"marker": {"optimised_for": "aopc_difference"}}
    of = task("films", {"marker": metrics(), "cam": metrics()}, notes=notes)
    found = [caveat.title for caveat in find_caveats(run("marker", "cam"), [of])]
    assert found == [rule.title for rule in RULES if rule.title in found] and "Optimises the metric" in found


def test_methods_whose_own_choice_is_worse_than_random_are_named():
    figures = {"cam": metrics(0.2), "lime": metrics(0.3), "random": metrics(0.25)}
    text = said(task("films", figures))
    assert "Below chance by its own rule: cam (0.200). F1 of the words that these methods choose" in text
    assert "chosen at random have 0.250" in text


def test_no_method_is_best_by_figures_that_hardly_tell_methods_from_random_scores():
    values = {"cam": 0.3, "lime": 0.4, "random": 0.25}
    tests = {"infidelity": comparison("infidelity", values, larger_is_better=False)}
    of = task("films", {name: metrics(infidelity=value) for name, value in values.items()}, comparisons=tests)
    assert "Infidelity (0 of 2)" in said(of)
    unranked = unranked_metrics(run(*values), [of])
    assert unranked == {"infidelity": (0, 2)}
    board = leaderboard(run(*values), "", of.methods, [CATALOGUE["infidelity"]], of.standings, unranked)
    assert [row[1].mark for row in board.rows] == ["", "", ""]

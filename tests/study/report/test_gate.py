"""A gate lets through what its rules allow, and nothing else."""

import pytest

from explearn import DataError, ParamsError
from explearn.core.documents import read_json
from explearn_study.report.gate import METRICS, Gate, GateRule, check, load_gate, summary


def verdicts(rule, old, new):
    gate = Gate.model_validate({"rules": [{"tolerance": 0.1, "direction": "higher", **rule}]})
    return {change.metric: change.verdict for change in check(gate, old, new)}


@pytest.mark.parametrize(
    ("rule", "old", "new", "verdict"),
    [
        ({}, 0.5, 0.39, "worse"),
        ({}, 0.5, 0.4, "within noise"),
        ({}, 0.5, 0.5, "same"),
        ({}, 0.5, 0.9, "better"),
        ({"direction": "lower"}, 0.5, 0.61, "worse"),
        ({}, 0.5, None, "gone"),
        # A share of the earlier value.
        ({"direction": "lower", "relative": True}, 50, 55, "within noise"),
        ({"tolerance": 0}, 0.5, 0.5 - 1e-8, "within noise"),
        ({"tolerance": 0}, 0.5, 0.5 - 1e-6, "worse"),
        ({"direction": "lower", "relative": True}, -50, -44, "worse"),
    ],
)
def test_a_figure_may_differ_by_the_tolerance(rule, old, new, verdict):
    assert verdicts({"metric": "a.f1", **rule}, {"a": {"f1": old}}, {"a": {"f1": new}}) == {"a.f1": verdict}


def test_a_star_stands_for_any_keys_and_new_or_lost_figures_are_told_apart():
    old = {"tasks": {"films": {"cam": {"f1": 0.5, "auroc": 0.5}, "lime": {"f1": 0.5}}}}
    new = {"tasks": {"films": {"cam": {"f1": 0.5, "auroc": 0.1}, "alti": {"f1": 0.5}}}}
    assert verdicts({"metric": "tasks.*.f1"}, old, new) == {
        "tasks.films.cam.f1": "same",
        "tasks.films.lime.f1": "gone",
        "tasks.films.alti.f1": "new",
    }


@pytest.mark.parametrize(("metric", "direction"), [("f1", "higher"), ("tasks.*.sufficiency", "lower")])
def test_a_rule_takes_its_direction_from_the_catalogue_and_may_say_otherwise(metric, direction):
    assert GateRule(metric=metric, tolerance=0.1).direction == direction
    other = {"higher": "lower", "lower": "higher"}[direction]
    assert GateRule(metric=metric, tolerance=0.1, direction=other).direction == other


@pytest.mark.parametrize("old", [[], {}, {"f2": 1}])
def test_an_earlier_run_without_figures_is_an_error(old):
    with pytest.raises(DataError, match="of the earlier run: none of the figures"):
        verdicts({"metric": "f1"}, old, {"f1": 1})


def test_a_rule_that_speaks_of_nothing_is_an_error():
    with pytest.raises(DataError, match="no such figure in reports"):
        verdicts({"metric": "f2"}, {"f1": 1}, {"f1": 1})


def test_the_headline_is_compared_only_for_the_same_explainer():
    old, new = ({"headline": {"explainer": name, "f1": f1}} for name, f1 in (("marker", 0.5), ("ivra", 0.1)))
    assert verdicts({"metric": "headline.f1"}, old, new) == {"headline.f1": "not comparable"}


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (["lime"], ["lime"], "same"),
        (["lime", "reader"], ["reader", "shap"], "within noise"),
        (["lime"], ["reader"], "worse"),
        ([], ["lime"], "better"),
    ],
)
def test_a_verdict_is_worse_if_no_method_that_was_best_is_best(old, new, verdict):
    before, after = ({"f1": 0.5, "verdict": {"f1_topk": methods}} for methods in (old, new))
    assert verdicts({"metric": "f1"}, before, after)["verdict.f1_topk"] == verdict


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rules: []", "rules: got []; expected"),
        ("rules: [{metric: a, direction: lower}]", "rules.0.tolerance: got none"),
        ("rules: [{metric: tasks.*.confidence_full, tolerance: 0}]", "rules.0.direction: got none"),
        ("rules: [", "not valid YAML"),
    ],
)
def test_bad_rules_are_named(tmp_path, text, words):
    (tmp_path / "gate.yaml").write_text(text)
    with pytest.raises(ParamsError, match=r"gate\.yaml") as error:
        load_gate(tmp_path / "gate.yaml")
    assert words in str(error.value)


def test_the_repository_s_own_rules_speak_of_figures_that_there_are(repository):
    metrics = read_json(repository / METRICS)
    changes = check(load_gate(repository / "conf" / "gate.yaml"), metrics, metrics)
    assert summary(changes) == f"Within noise: all {len(changes)} figures ({len(changes)} same)."

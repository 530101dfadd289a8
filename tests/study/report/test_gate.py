"""A gate lets through what its rules allow, and nothing else."""

import contextlib
import json
import subprocess

import pytest
import yaml
from cli_cases import run

from explearn import DataError, ParamsError
from explearn.core.documents import read_json
from explearn_study.report.gate import METRICS, Gate, GateRule, check, load_gate, summary


def verdicts(rule, old, new):
    gate = Gate.model_validate({"rules": [{"tolerance": 0.1, "direction": "higher", **rule}]})
    return {change.metric: change.verdict for change in check(gate, old, new)}


@pytest.mark.parametrize(
    ("direction", "new", "verdict"),
    [
        ("higher", 0.39, "worse"),
        ("higher", 0.4, "within noise"),
        ("higher", 0.5, "same"),
        ("higher", 0.9, "better"),
        ("lower", 0.61, "worse"),
        ("higher", None, "gone"),
    ],
)
def test_a_figure_may_differ_by_the_tolerance(direction, new, verdict):
    rule = {"metric": "a.f1", "direction": direction}
    assert verdicts(rule, {"a": {"f1": 0.5}}, {"a": {"f1": new}}) == {"a.f1": verdict}


def test_a_relative_tolerance_is_a_share_of_the_earlier_value():
    rule = {"metric": "x", "relative": True, "direction": "lower"}
    assert verdicts(rule, {"x": 50}, {"x": 55}) == {"x": "within noise"}
    assert verdicts(rule, {"x": -50}, {"x": -44}) == {"x": "worse"}


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


def test_an_earlier_run_without_figures_is_an_error():
    for old in ([], {}, {"f2": 1}):
        with pytest.raises(DataError, match="of the earlier run: none of the figures"):
            verdicts({"metric": "f1"}, old, {"f1": 1})


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


def test_a_rule_that_speaks_of_nothing_is_an_error():
    with pytest.raises(DataError, match="no such figure in reports"):
        verdicts({"metric": "f2"}, {"f1": 1}, {"f1": 1})


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


def gate(folder, *arguments):
    with contextlib.chdir(folder):
        return run("gate", *arguments)


def write(folder, f1):
    (folder / METRICS).parent.mkdir(parents=True, exist_ok=True)
    (folder / METRICS).write_text(json.dumps({"f1": f1, "auroc": 0.5}))


@pytest.fixture
def project(tmp_path):
    rules = [{"metric": name, "direction": "higher", "tolerance": 0.1} for name in ("f1", "auroc")]
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "gate.yaml").write_text(yaml.safe_dump({"rules": rules}))
    write(tmp_path, 0.5)
    return tmp_path


def test_files_and_folders_are_compared(project):
    write(project / "better", 0.9)
    write(project / "worse", 0.1)
    forth = gate(project, "--base", f"worse/{METRICS}")
    assert forth.exit_code == 0
    assert forth.stdout == "Not worse: none of 2 figures became worse than allowed (1 better, 1 same).\n"
    back = gate(project, "conf/gate.yaml", "--base", "better")
    assert back.exit_code == 1 and "| ±0.1 | **worse** |" in back.stdout and "auroc" not in back.stdout
    assert "Worse: 1 of 2 figures became worse than allowed (1 worse, 1 same)." in back.stdout


def test_by_default_the_last_commit_with_the_files_as_they_stand(project):
    def git(*arguments):
        identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=project, check=True, capture_output=True)

    git("init", "--quiet", "--initial-branch=main")
    git("add", "--all")
    git("commit", "--quiet", "--message", "first")
    same = gate(project)
    assert same.exit_code == 0 and same.stdout == "Within noise: all 2 figures (2 same).\n"
    write(project, 0.3)
    worse = gate(project, "--base", "main")
    assert worse.exit_code == 1 and "-0.2000" in worse.stdout
    for revision in ("nowhere", "--output=x"):
        unknown = gate(project, f"--base={revision}")
        assert unknown.exit_code == 2 and f"reports/metrics.json at {revision}" in unknown.stderr
    unset = gate(project, "--base", "")
    assert unset.exit_code == 2 and "--base: got ''" in unset.stderr

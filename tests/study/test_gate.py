"""A gate lets through what its rules allow, and nothing else."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from explearn.cli.app import app
from explearn.core.errors import DataError, ParamsError
from explearn_study.report.gate import Gate, Rule, check, figures, load_gate

FILE = "reports/metrics.json"


def verdicts(rule: dict[str, Any], old: Any, new: Any) -> dict[str, str]:
    gate = Gate.model_validate({"rules": [{"tolerance": 0.1, "direction": "higher", **rule}]})
    return {change.metric: change.verdict for change in check(gate, {FILE: old}, {FILE: new})}


@pytest.mark.parametrize(
    ("direction", "new", "verdict"),
    [
        ("higher", 0.39, "worse"),
        ("higher", 0.4, "within tolerance"),
        ("higher", 0.5, "same"),
        ("higher", 0.9, "better"),
        ("lower", 0.61, "worse"),
        ("lower", 0.6, "within tolerance"),
        ("lower", 0.1, "better"),
        ("higher", None, "gone"),
    ],
)
def test_a_figure_may_become_worse_by_the_tolerance_in_its_direction(direction, new, verdict):
    assert verdicts({"metric": "a.f1", "direction": direction}, {"a": {"f1": 0.5}}, {"a": {"f1": new}}) == {
        "a.f1": verdict
    }


def test_a_relative_tolerance_is_a_share_of_the_earlier_value():
    rule = {"metric": "x", "relative": True, "direction": "lower"}
    assert verdicts(rule, {"x": 50}, {"x": 55}) == {"x": "within tolerance"}
    assert verdicts(rule, {"x": 50}, {"x": 56}) == {"x": "worse"}
    assert verdicts(rule, {"x": -50}, {"x": -44}) == {"x": "worse"}


def test_rounding_alone_is_no_regression():
    assert verdicts({"metric": "x"}, {"x": 0.3}, {"x": 0.2}) == {"x": "within tolerance"}


def test_a_star_stands_for_any_keys_and_new_or_lost_figures_are_told_apart():
    old = {"tasks": {"films": {"cam": {"f1": 0.5, "auroc": 0.5}, "lime": {"f1": 0.5}}}}
    new = {"tasks": {"films": {"cam": {"f1": 0.5, "auroc": 0.1}, "alti": {"f1": 0.5}}}}
    assert verdicts({"metric": "tasks.*.f1"}, old, new) == {
        "tasks.films.cam.f1": "same",
        "tasks.films.lime.f1": "gone",
        "tasks.films.alti.f1": "new",
    }


def test_only_numbers_and_nulls_are_figures():
    document = {"a": 1, "b": {"c": None, "d": "x", "e": [1], "f": True}, "g": 0.5}
    assert dict(figures(document)) == {"a": 1.0, "b.c": None, "g": 0.5}


@pytest.mark.parametrize(
    ("metric", "direction"), [("f1", "higher"), ("tasks.*.sufficiency", "lower"), ("test.accuracy", "higher")]
)
def test_a_rule_takes_its_direction_from_the_catalogue_and_may_say_otherwise(metric, direction):
    assert Rule(metric=metric, tolerance=0.1).direction == direction
    other = {"higher": "lower", "lower": "higher"}[direction]
    assert Rule(metric=metric, tolerance=0.1, direction=other).direction == other


def test_a_rule_that_speaks_of_nothing_is_an_error():
    with pytest.raises(DataError, match="no such figure in reports"):
        verdicts({"metric": "f2"}, {"f1": 1}, {"f1": 1})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rules: []", "rules: got []; expected"),
        ("rules: [{metric: a, direction: up, tolerance: 0}]", "rules.0.direction"),
        ("rules: [{metric: a, direction: lower, tolerance: -1}]", "rules.0.tolerance"),
        ("rules: [{metric: a, direction: lower}]", "rules.0.tolerance: got none"),
        ("rules: [{metric: a, tolerance: 0}]", "rules.0.direction: got none"),
        ("rules: [{metric: tasks.*.entropy_full, tolerance: 0}]", "rules.0.direction: got none"),
        ("rules: [", "not valid YAML"),
    ],
)
def test_bad_rules_are_named(tmp_path, text, words):
    (tmp_path / "gate.yaml").write_text(text)
    with pytest.raises(ParamsError, match=r"gate\.yaml") as error:
        load_gate(tmp_path / "gate.yaml")
    assert words in str(error.value)


def test_the_repository_s_own_rules_speak_of_figures_that_there_are(repository):
    gate = load_gate(repository / "conf" / "gate.yaml")
    run = {rule.file: json.loads((repository / rule.file).read_text(encoding="utf-8")) for rule in gate.rules}
    assert {change.verdict for change in check(gate, run, run)} == {"same"}


def gate(folder: Path, *arguments: str | Path, columns: int = 200) -> Any:
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, ["gate", *map(str, arguments)], env={"COLUMNS": str(columns)})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    rules = [
        {"metric": "f1", "direction": "higher", "tolerance": 0.1},
        {"metric": "accuracy", "direction": "higher", "tolerance": 0.1, "file": "other.json"},
    ]
    (tmp_path / "gate.yaml").write_text(yaml.safe_dump({"rules": rules}))
    (tmp_path / "reports").mkdir()
    (tmp_path / FILE).write_text(json.dumps({"f1": 0.5}))
    (tmp_path / "other.json").write_text(json.dumps({"accuracy": 0.5}))
    return tmp_path


def test_two_files_are_compared_by_the_rules_of_that_name(project, tmp_path):
    (tmp_path / "better").mkdir()
    (tmp_path / "better" / "metrics.json").write_text(json.dumps({"f1": 0.9}))
    forth = gate(project, "gate.yaml", "--old", FILE, "--new", "better/metrics.json", "--md", "--all")
    assert forth.exit_code == 0 and "| f1 | 0.5000 | 0.9000 | +0.4000 | −0.1 | better |" in forth.stdout
    back = gate(project, "gate.yaml", "--old", "better/metrics.json", "--new", FILE, "--md")
    assert back.exit_code == 1 and "| −0.1 | **worse** |" in back.stdout
    assert "1 of 1 figures became worse than allowed: 1 worse." in back.stdout
    (tmp_path / "odd.json").write_text("{}")
    odd = gate(project, "gate.yaml", "--old", "odd.json", "--new", FILE)
    assert odd.exit_code == 2 and "odd.json: 0 files of the rules have this name" in odd.stderr


def test_a_narrow_terminal_shows_whole_paths_and_only_what_became_worse(tmp_path):
    worse, same = "tasks.reviews.integrated_gradients.aopc_comprehensiveness", "tasks.reviews.lime.f1"
    (tmp_path / "gate.yaml").write_text("rules: [{metric: '*', direction: higher, tolerance: 0}]")
    for name, figure in (("old", 0.25), ("new", 0.125)):
        (tmp_path / name / "reports").mkdir(parents=True)
        (tmp_path / name / FILE).write_text(json.dumps({worse: figure, same: 0.5}))
    found = gate(tmp_path, "gate.yaml", "--old", "old", "--new", "new", columns=80)
    lines = found.stdout.splitlines()
    assert found.exit_code == 1 and max(map(len, lines)) <= 80
    start = next(line.index("Before") for line in lines if "Before" in line)
    assert worse in "".join(line[:start].strip() for line in lines) and same not in found.stdout
    assert all(number in found.stdout for number in ("0.2500", "0.1250", "-0.1250"))
    assert "1 of 2 figures became worse than allowed: 1 worse, 1 same." in found.stdout


def test_revisions_are_compared_through_dvc(project):
    def run(*command: str) -> None:
        subprocess.run(command, cwd=project, check=True, capture_output=True)

    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    run("git", "init", "--quiet", "--initial-branch=main")
    run(sys.executable, "-m", "dvc", "init", "--quiet")
    run("git", "add", "--all")
    run("git", *identity, "commit", "--quiet", "--message", "first")
    same = gate(project, "gate.yaml", "--all")
    assert same.exit_code == 0 and "other.json: accuracy" in same.stdout
    (project / FILE).write_text(json.dumps({"f1": 0.3}))
    worse = gate(project, "gate.yaml", "--base", "main")
    assert worse.exit_code == 1 and "-0.2000" in worse.stdout and "accuracy" not in worse.stdout
    run("git", "rm", "--cached", "--quiet", FILE)
    run("git", *identity, "commit", "--quiet", "--message", "second")
    # The base has no such file: its figures are new.
    assert gate(project, "gate.yaml", "--base", "main").exit_code == 0
    unknown = gate(project, "gate.yaml", "--base", "nowhere")
    assert unknown.exit_code == 2 and "reports/metrics.json at nowhere" in unknown.stderr

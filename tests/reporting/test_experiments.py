"""Experiments side by side, from what `dvc exp show --json` says."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from markdown_it import MarkdownIt

from explearn.core.errors import DataError, UnknownNameError
from explearn.reporting.content.columns import Column
from explearn.reporting.pages.experiments import (
    Experiment,
    changed_params,
    method_rows,
    parse_experiments,
    read_experiments,
    render_html,
    render_markdown,
    write_experiments,
)

F1 = Column("f1", "F1", True)


def state(rev, name=None, f1=0.5, hidden=16):
    metrics = {"reports/headline.json": {"data": {"explainer": "expnet", "f1": f1, "f1_by_task": {"films": f1}}}}
    params = {"params.yaml": {"data": {"expnet": {"hidden": hidden}, "tasks": ["films"]}}}
    return {"rev": rev, "name": name, "data": {"metrics": metrics, "params": params}, "error": None}


def shown():
    wide, failed = state("b" * 40, "wide", 0.6, 32), {"rev": "c" * 40, "name": "failed", "data": None}
    experiments = [{"name": "wide", "revs": [wide]}, {"name": "failed", "revs": [failed]}, {"name": "x", "revs": None}]
    old = {**state("d" * 40, "v1"), "experiments": [{"name": "early", "revs": [state("e" * 40, "early", 0.1)]}]}
    return [state("workspace"), {**state("a" * 40, "main"), "experiments": experiments}, old]


def test_all_experiments_come_with_the_commits_they_start_from_and_unfinished_ones_stay_out():
    assert [e.name for e in parse_experiments(shown())] == ["main", "v1", "wide", "early"]
    assert [e.name for e in parse_experiments(shown(), ["wide"])] == ["main", "wide"]
    with pytest.raises(UnknownNameError, match="unknown experiment"):
        parse_experiments(shown(), ["wild"])
    with pytest.raises(DataError, match="no experiment of failed has reports"):
        parse_experiments(shown(), ["failed"])
    with pytest.raises(DataError, match="has no experiments"):
        parse_experiments(shown()[:1])


def test_an_experiment_named_is_read_whatever_commit_it_starts_from(tmp_path, monkeypatch):
    def run(*command: str) -> None:
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    def write(f1: float) -> None:
        (tmp_path / "reports" / "headline.json").write_text(json.dumps({"explainer": "expnet", "f1": f1}))
        (tmp_path / "reports" / "metrics.json").write_text(json.dumps({"tasks": {"films": {"expnet": {"f1": f1}}}}))
        (tmp_path / "reports" / "costs.json").write_text(json.dumps({"headline": {"relative_throughput": f1 / 2}}))

    monkeypatch.chdir(tmp_path)
    (tmp_path / "reports").mkdir()
    (tmp_path / "params.yaml").write_text("tasks: [films]")
    (tmp_path / "dvc.yaml").write_text("{metrics: [reports/headline.json], params: [params.yaml]}")
    write(0.5)
    run("git", "init", "--quiet", "--initial-branch=main")
    run("git", "config", "user.name", "test")
    run("git", "config", "user.email", "test@example.org")
    run(sys.executable, "-m", "dvc", "init", "--quiet")
    run("git", "add", "--all")
    run("git", "commit", "--quiet", "--message", "first")
    write(0.75)
    run(sys.executable, "-m", "dvc", "exp", "save", "--name", "wide")
    run("git", "commit", "--quiet", "--all", "--message", "second")
    start, wide = read_experiments(["wide"])
    assert (wide.name, wide.headline["f1"], wide.tasks) == ("wide", 0.75, {"films": {"expnet": {"f1": 0.75}}})
    assert (start.headline["f1"], start.headline["relative_throughput"]) == (0.5, 0.25)
    with pytest.raises(UnknownNameError, match="wide"):
        read_experiments(["wid"])


def test_only_parameters_that_differ_are_shown():
    assert changed_params(parse_experiments(shown(), ["wide"])) == [("expnet.hidden", ["16", "32"])]


def test_experiments_that_differ_in_no_parameter_have_a_sentence_for_a_table():
    alike = [Experiment(name, name, {"seed": 13}, {"explainer": "expnet", "f1": 0.5}) for name in ("a", "b")]
    for shown in (render_markdown(alike), render_html(alike)):
        assert "these experiments have the same parameters" in shown and "seed" not in shown


def test_a_method_has_a_mean_where_it_was_judged_on_every_task():
    first = {
        "films": {"expnet": {"f1": 0.2}, "cam": {"f1": 0.4}},
        "meals": {"expnet": {"f1": 0.4}, "cam": {"f1": None}},
    }
    second = {"films": {"expnet": {"f1": 0.5}, "cam": {"f1": 0.6}}}
    rows = method_rows([Experiment("a", "a", {}, {}, first), Experiment("b", "b", {}, {}, second)], F1)
    assert [(row.method, [cell.markdown(False) for cell in row.cells]) for row in rows] == [
        ("expnet", ["0.300", "**0.500**"]),
        ("cam", ["–", "0.600"]),
    ]


def test_both_files_hold_every_experiment_and_names_stay_text(tmp_path):
    nasty = "<script>|x"
    experiments = [
        *parse_experiments(shown(), ["wide"]),
        Experiment(nasty, "f", {"expnet.hidden": nasty}, {"explainer": "expnet", "f1": 0.9}),
    ]
    markdown, page = (path.read_text(encoding="utf-8") for path in write_experiments(tmp_path, experiments))
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    assert rendered.count("<table>") == 3 and "<script" not in rendered and "<strong>0.900</strong>" in rendered
    assert page.count("<script") == 1 and "&lt;script&gt;|x" in page
    for name in ("main", "wide"):
        assert name in markdown and name in page
    assert (markdown, page) == (render_markdown(experiments), render_html(experiments))

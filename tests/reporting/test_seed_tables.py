from __future__ import annotations

import pytest

from explearn.reporting.content.columns import Column
from explearn.reporting.content.seed_tables import mean_and_error, repetitions, seed_blocks
from explearn.reporting.pages.experiments import Experiment, render_html, render_markdown

F1 = (Column("f1", "F1", True),)


def run(name: str, seed: int, f1: float, hidden: int = 16, **others: float | None) -> Experiment:
    tasks = {
        "films": {"expnet": {"f1": f1}, "cam": {"f1": 0.25}, **{k: {"f1": v} for k, v in others.items()}},
        "meals": {"expnet": {"f1": f1 + 0.2}, "cam": {"f1": 0.25}, **{k: {"f1": 0.5} for k in others}},
    }
    return Experiment(name, name, {"seed": seed, "expnet.hidden": hidden}, {"explainer": "expnet", "f1": f1}, tasks)


def test_the_standard_error_is_that_of_the_mean() -> None:
    """Of 0.1, 0.2, 0.6: mean 0.3, sample variance 0.07, error sqrt(0.07 / 3)."""
    assert mean_and_error([0.1, 0.2, 0.6]) == pytest.approx((0.3, 0.152753), abs=1e-6)


def test_only_runs_that_differ_in_the_seed_alone_are_repetitions() -> None:
    runs = [run("a", 1, 0.1), run("b", 2, 0.3), run("wide", 3, 0.9, hidden=32), run("again", 2, 0.5)]
    assert [[r.name for r in group] for group in repetitions(runs)] == [["a", "b"]]
    assert repetitions([run("a", 1, 0.1), Experiment("old", "old", {"seed": 2, "expnet.hidden": 16}, {})]) == []


def test_a_method_s_figure_is_the_mean_over_tasks_and_then_over_seeds() -> None:
    (block,) = seed_blocks([run("a", 1, 0.1, gae=0.2), run("b", 2, 0.3, gae=None)], F1)
    assert block.title == "Over 2 seeds: a, b"
    assert [list(row) for row in block.rows] == [
        ["learned", "expnet", "0.300 ± 0.100"],
        ["relevance", "cam", "0.250 ± 0.000"],
        ["relevance", "gae", "–"],
    ]


def test_both_pages_show_the_seeds_with_names_as_text() -> None:
    runs = [run("<b>|a", 1, 0.1), run("b", 2, 0.3)]
    blocks = seed_blocks(runs, F1)
    markdown, page = render_markdown(runs, seeds=blocks), render_html(runs, seeds=blocks)
    assert "## Over seeds" in markdown and "| learned | expnet | 0.300 ± 0.100 |" in markdown
    assert "<b>|a" not in markdown and "<b>|a" not in page and "0.300 ± 0.100" in page

"""The report from hand-written results: its sections, its pages, and how what depends on the machine is parted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from markdown_it import MarkdownIt
from task_reports import HOSTILE, check, comparison, metrics, run, shown, similarity, task

from explearn.report.figures.intervals import interval_picture
from explearn.report.figures.pareto import CostPoint, cost_points, pareto_front
from explearn.report.figures.style import svg
from explearn.report.page import report_blocks
from explearn.report.task_sections import pair_tables, sanity_table, task_section
from explearn.report.versions import versions
from explearn.show.blocks import Cell, Column, Fold, Heading, Paragraph, Table, bold, walk
from explearn.show.tables import csv_of, latex_of
from explearn_study.report.pages import render_markdown, select, write_report

OF_MACHINE = {"report.html", "machine/costs.md", "machine/glance.svg"}


def costs(f1: float, speed: float, slower: float):
    return metrics(
        f1,
        throughput=100 * speed / slower,
        relative_throughput=speed / slower,
        peak_memory_mb=400 * slower,
        training_seconds=(40 if speed == 1 else 9) * slower,
    )


def whole_run(slower=1.0, names=("films", "a$b$<c>")):
    methods = {"marker": costs(0.5, 1, slower), "rollout": costs(0.4, 0.9, slower), "random": costs(0.2, 0.9, slower)}
    figures = {name: row["f1"] for name, row in methods.items()}
    changes = {
        "texts": [shown(methods=methods), shown(HOSTILE, [1], methods, number=1)],
        "comparisons": {m: comparison(m, figures, {("marker", "random"): 0.01}) for m in ("f1", "f1_topk")},
        "method_agreement": np.eye(3),
        "sanity": {"texts": 4, "methods": {"marker": check(), "rollout": check(0.9)}},
    }
    return [task(name, methods, **changes) for name in names]


def written(folder: Path, slower: float = 1.0) -> dict[str, bytes]:
    write_report(folder, run("marker", "rollout", "random", parameters="a: 1"), whole_run(slower))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, bytes]:
    return written(tmp_path_factory.mktemp("report"))


def test_another_machine_changes_only_what_has_times(files, tmp_path):
    slower = written(tmp_path, 2.5)
    assert {name for name in files if files[name] != slower[name]} == OF_MACHINE
    assert not re.search(rb"\d{4}-\d{2}-\d{2}", files["figures/f1.svg"])


def test_the_pages_hold_what_they_are_for(files):
    report, costs = files["report.md"].decode(), files["machine/costs.md"].decode()
    trained = "Training, processor seconds ↓", "Less training:"
    for words in ("Texts per second ↑", "Memory, MiB ↓", "Time to classify and explain", "Python 3.", *trained):
        assert words in costs and words not in report
    assert "Forward passes" in report and "](glance.svg)" in costs
    titles = re.findall(r"^## (.*)$", report, re.MULTILINE)
    assert titles[:3] == ["Who wins on what", "What not to trust", "All tasks at a glance"]
    assert titles[3:] == [
        "Texts: films", "Texts: a&#36;b&#36;&lt;c&gt;", "What the figures mean", "Parameters and versions of this run",
    ]  # fmt: skip
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(report)
    assert "<p>|" not in rendered and "<script" not in rendered and rendered.count("<img") == 2
    # Random scores have a row of figures, and none in an example text.
    assert report.count("| random | ") > 4 and "| random (" not in report


def test_a_page_is_parted_by_blocks_and_columns():
    both = Table([Column("Method", key=True), Column("F1"), Column("Time", machine=True)], [["a", "0.5", Cell("2×")]])
    blocks = [
        Heading("A"), Heading("B", 3), Paragraph("time", machine=True), Heading("C", 3), both,
        Heading("D"), Fold("more", [Paragraph("times", machine=True)]), Paragraph("page", page_only=True),
    ]  # fmt: skip
    results, machine = render_markdown(select(blocks, machine=False)), render_markdown(select(blocks, machine=True))
    assert results == "## A\n\n### C\n\n| Method | F1 |\n| ---: | ---: |\n| a | 0.5 |\n"
    assert "### B\n\ntime" in machine and "| Method | Time |" in machine and "times" in machine
    assert "page" not in results + machine and "### B" not in results


def test_a_classifier_that_learned_nothing_is_a_warning():
    weak = task(classifier={"test": {"accuracy": 0.55, "majority_rate": 0.5}})
    assert "> [!WARNING]\n> The classifier's test accuracy is 0.550" in render_markdown(task_section(run(), weak))
    assert "[!WARNING]" not in render_markdown(task_section(run(), task()))
    assert render_markdown(report_blocks(run(), [weak])).count("No evidence about the methods") == 1


class TestTables:
    def test_the_matrix_says_who_is_better_in_the_metric_s_direction(self):
        figures = {"marker": 0.1, "rollout": 0.4, "cam": 0.35}
        actual = comparison("aopc_sufficiency", figures, {("marker", "rollout"): 0.01}, larger_is_better=False)
        _, table = pair_tables(run(), task(comparisons={"aopc_sufficiency": actual}))
        assert [[cell if isinstance(cell, str) else cell.text for cell in row] for row in table.rows] == [
            ["marker", "", "+", "·"], ["rollout", "−", "", "·"], ["cam", "·", "·", ""],
        ]  # fmt: skip

    def test_agreement_between_methods_is_in_the_order_of_tables_and_percent(self):
        matrix = np.array([[1, 0.5, -0.25], [0.5, 1, np.nan], [-0.25, np.nan, 1]])
        of = task(methods=dict.fromkeys(("rollout", "marker", "cam"), metrics()), method_agreement=matrix)
        (table,) = pair_tables(run(), of)
        assert [[cell if isinstance(cell, str) else cell.text for cell in row] for row in table.rows] == [
            ["marker", "", "50", "–"], ["rollout", "50", "", "-25"], ["cam", "–", "-25", ""],
        ]  # fmt: skip
        assert table.rows[1][3].shade == -0.25

    def test_sanity_checks_have_a_column_for_each_part_and_say_why_a_method_was_skipped(self):
        checked = {
            "cam": check(0.2, random_labels=similarity(0.4)),
            "lime": check(random_model={}, max_sensitivity=None, skipped="too slow"),
        }
        of = task(methods=dict.fromkeys(("cam", "rollout"), metrics()), sanity={"texts": 4, "methods": checked})
        table = sanity_table(run(), of)
        assert [column.title for column in table.columns][1:4:2] == [
            "Rank correlation, new weights", "Rank correlation, permuted labels",
        ]  # fmt: skip
        rows = [[cell if isinstance(cell, str) else f"{cell.text} ({cell.note})" for cell in row] for row in table.rows]
        assert rows == [
            ["rollout", "–", "–", "–", "–", "not checked: not among sanity.methods"],
            ["cam", "0.20 (0.20 to 0.20)", "0.50", "0.40 (0.40 to 0.40)", "0.50", "0.250"],
            ["lime", "–", "–", "–", "–", "not checked: too slow"],
        ]
        assert sanity_table(run(), task()) is None


class TestPictures:
    def test_the_front_holds_what_nothing_beats_at_its_price(self):
        points = [CostPoint(*p) for p in (("a", 1, 0.2), ("b", 2, 0.1), ("c", 3, 0.4), ("d", 3, 0.3), ("e", 9, 0.4))]
        assert [p.method for p in pareto_front(points, True)] == ["a", "c"]
        assert [p.method for p in pareto_front(points, False)] == ["a", "b"]

    def test_points_are_means_over_the_tasks_that_have_the_measure_and_none_is_faster_than_classifying(self):
        tasks = [
            task("one", {"rollout": metrics(0.2, relative_throughput=0.5), "random": metrics(0.1)}),
            task("two", {"rollout": metrics(0.4, relative_throughput=0.25), "random": metrics(None)}),
            task("three", {"rollout": metrics(None), "random": metrics(None)}),
        ]
        (point,) = cost_points(run(), tasks, "f1")
        assert (point.method, point.cost, point.value) == ("rollout", 3.0, pytest.approx(0.3))
        (point,) = cost_points(run(), [task("one", {"rollout": metrics(relative_throughput=1.08)})], "f1")
        assert point.cost == 1.0


def test_what_methods_say_of_themselves_is_between_the_overview_and_the_tasks():
    notes = {"faml": {"optimised_for": "log_odds", "steps": 1.0, "judged": {"log_odds": {"log_odds": -1.0}}}}
    of = task("films", {"faml": metrics(), "random": metrics()}, notes=notes)
    own = [Heading("Of the caller")]
    titles = [b.text for b in walk(report_blocks(run("faml", "random"), [of], own)) if isinstance(b, Heading)]
    start = titles.index("All methods at a glance")
    assert titles[start + 1].startswith("AML: training") and titles[start + 2 : start + 4] == [
        "Of the caller", "Texts: films",
    ]  # fmt: skip


def test_versions_name_python_and_every_direct_dependency():
    names = {name for name, _ in versions()}
    assert {"python", "explearn", "dvc", "jinja2", "transformers"} <= names and "pytest" not in names


def test_the_report_knows_neither_torch_nor_the_study() -> None:
    heavy = ("torch", "transformers", "explearn_study", "explearn_apps")
    code = f"import sys, explearn.report.page; sys.exit(' '.join(set({heavy}) & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_table_as_csv_has_intervals_in_columns_of_their_own() -> None:
    heads = [Column("Method", numeric=False), Column("F1 ↑"), Column("AUROC")]
    table = Table(
        heads, [["a, b", Cell("0.3", 1 / 3, "best", "0.1 to 0.5"), Cell("–")], [bold("c"), Cell("0", 0), "2"]]
    )
    assert csv_of(table) == 'Method,F1 ↑,F1 ↑ interval,AUROC\n"a, b",0.333333,0.1 to 0.5,–\nc,0,,2\n'
    assert latex_of(table).splitlines()[4:6] == [
        r"a, b & \textbf{0.3} {\scriptsize (0.1 to 0.5)} & -- \\",
        r"\textbf{c} & 0 & 2 \\",
    ]


def test_points_of_pictures_say_their_values_escaped() -> None:
    name = '<i>"&'
    run_of = run(methods={**run("cam").methods, name: run("cam").methods["cam"].model_copy(update={"name": name})})
    of = task("t", {"cam": metrics(0.25, 0.2, 0.3), name: metrics(0.5)})
    drawing = svg(interval_picture(run_of, [of], "f1"))
    assert "<title>cam, t: 0.250 (0.200 to 0.300)</title>" in drawing
    assert '<title>&lt;i&gt;"&amp;, t: 0.500</title>' in drawing and "<i>" not in drawing

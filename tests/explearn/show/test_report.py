"""The report from hand-written results: its sections, its pages, and how what depends on the machine is parted."""

import re

import numpy as np
import pytest
from markdown_it import MarkdownIt
from task_reports import HOSTILE, check, comparison, metrics, run, shown, similarity, task

from explearn.metrics.registry import CATALOGUE
from explearn.report.figures.dots import dot_plot
from explearn.report.figures.style import svg
from explearn.report.page import report_blocks
from explearn.report.task_sections import against_each_other, sanity_blocks, task_section
from explearn.show.blocks import Cell, Column, Fold, Heading, Paragraph, Table, bold, walk
from explearn.show.tables import csv_of, latex_of
from explearn_study.report.pages import render_markdown, select, write_report

OF_MACHINE = {"report.html", "machine/glance.svg"}


def costs(f1, speed, slower):
    return metrics(
        f1,
        throughput=100 * speed / slower,
        relative_throughput=speed / slower,
        peak_memory_mb=400 * slower,
        training_seconds=(40 if speed == 1 else 9) * slower,
    )


def whole_run(slower):
    methods = {"marker": costs(0.5, 1, slower), "rollout": costs(0.4, 0.9, slower), "random": costs(0.2, 0.9, slower)}
    figures = {name: row["f1"] for name, row in methods.items()}
    changes = {
        "texts": [shown(methods=methods), shown(HOSTILE, [1], methods, number=1)],
        "comparisons": {m: comparison(m, figures, {("marker", "random"): 0.01}) for m in ("f1", "f1_topk")},
        "sanity": {"texts": 4, "methods": {"marker": check(), "rollout": check(0.9)}},
    }
    return [task(name, methods, **changes) for name in ("films", "a$b$<c>")]


def texts_of(table):
    return [[cell if isinstance(cell, str) else cell.text for cell in row] for row in table.rows]


def written(folder, slower=1.0):
    write_report(folder, run("marker", "rollout", "random", parameters="a: 1"), whole_run(slower))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return written(tmp_path_factory.mktemp("report"))


def test_another_machine_changes_only_what_has_times(files, tmp_path):
    slower = written(tmp_path, 2.5)
    assert {name for name in files if files[name] != slower[name]} == OF_MACHINE
    assert not re.search(rb"\d{4}-\d{2}-\d{2}", files["machine/glance.svg"])


def test_the_pages_hold_what_they_are_for(files):
    report = files["report.md"].decode()
    page = files["report.html"].decode()
    trained = "Training, processor seconds ↓", "Less training:"
    for words in ("Texts per second ↑", "Memory, MiB ↓", "Time ↓", "Python 3.", *trained):
        assert words in page and words not in report
    assert "Forward passes" in report and "glance.svg" not in report
    titles = re.findall(r"^## (.*)$", report, re.MULTILINE)
    assert titles[:3] == ["All tasks at a glance", "Who wins on what", "What not to trust"]
    assert titles[3:] == [
        "Texts: films", "Texts: a&#36;b&#36;&lt;c&gt;", "Sanity checks", "What the figures mean",
        "Parameters and versions of this run",
    ]  # fmt: skip
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(report)
    assert "<p>|" not in rendered and "<script" not in rendered and "<img" not in rendered
    # Random scores have a row of figures, and none in an example text.
    assert report.count("| random | ") > 4 and "| random (" not in report


def test_markdown_leaves_out_what_depends_on_the_machine():
    both = Table([Column("Method", key=True), Column("F1"), Column("Time", machine=True)], [["a", "0.5", Cell("2×")]])
    blocks = [
        Heading("A"), Heading("B", 3), Paragraph("time", machine=True), Heading("C", 3), both,
        Heading("D"), Fold("more", [Paragraph("times", machine=True)]), Paragraph("page", page_only=True),
    ]  # fmt: skip
    assert render_markdown(select(blocks)) == "## A\n\n### C\n\n| Method | F1 |\n| ---: | ---: |\n| a | 0.5 |\n"


def test_a_classifier_that_learned_nothing_is_a_warning():
    weak = task(classifier={"test": {"accuracy": 0.55, "majority_rate": 0.5}})
    assert "> [!WARNING]\n> The classifier's test accuracy is 0.550" in render_markdown(task_section(run(), weak))
    assert "[!WARNING]" not in render_markdown(task_section(run(), task()))
    assert render_markdown(report_blocks(run(), [weak])).count("No evidence about the methods") == 1


class TestTables:
    def test_ranks_are_over_the_texts_of_all_tasks(self):
        """On 10 texts of each task marker is better; cam has no values on the second."""
        better = np.linspace(0.6, 0.8, 10)
        worse = np.linspace(0.1, 0.3, 10)
        methods = {"marker": metrics(0.7), "rollout": metrics(0.2)}
        name = CATALOGUE["f1_topk"].by_text
        first = task("a", methods, by_text={name: {"marker": better, "rollout": worse, "cam": worse}})
        second = task("b", methods, by_text={name: {"marker": better, "rollout": worse}})
        (picture,) = against_each_other(run(), [first, second])
        drawn = svg(picture)
        assert ">marker  1.00 <" in drawn and ">2.00  rollout<" in drawn.replace("> 2", ">2") and "cam" not in drawn

    def test_sanity_checks_have_a_column_for_each_part_and_say_why_a_method_was_skipped(self):
        checked = {
            "cam": check(0.2, random_labels=similarity(0.4)),
            "lime": check(random_model={}, max_sensitivity=None, skipped="too slow"),
        }
        of = task(methods=dict.fromkeys(("cam", "rollout", "lime"), metrics()), sanity={"texts": 4, "methods": checked})
        note, table = sanity_blocks(run(), [of])[1].blocks
        assert [column.title for column in table.columns] == [
            "Method", "new weights", "permuted labels", "max-sensitivity ↓",
        ]  # fmt: skip
        assert texts_of(table) == [["cam", "0.20", "0.40", "0.250"]]
        assert "rollout (not among sanity.methods)" in note.text and "lime (too slow)" in note.text
        assert sanity_blocks(run(), [task()]) == []


class TestDotPlot:
    def test_methods_are_named_by_the_first_figure_with_their_time(self):
        methods = {
            "rollout": metrics(0.2, relative_throughput=0.5),
            "random": metrics(0.1),
            "cam": metrics(0.4, relative_throughput=0.25),
        }
        drawn = svg(dot_plot(run(), [task("one", methods), task("two", methods)], {"cam"}))
        places = [drawn.index(f">{name}</text>") for name in ("cam", "rollout", "random")]
        assert places == sorted(places) and {"4.0×", "2.0×"} <= set(re.findall(r">([\d.]+×)<", drawn))
        assert "<title>cam: F1 top-K 0.400</title>" in drawn
        assert dot_plot(run(), [task(methods={})], ()) is None


def test_tasks_come_before_what_the_caller_and_the_methods_say():
    notes = {"faml": {"optimised_for": "log_odds", "steps": 1.0, "judged": {"log_odds": {"log_odds": -1.0}}}}
    of = task("films", {"faml": metrics(), "random": metrics()}, notes=notes)
    own = [Heading("Of the caller")]
    titles = [b.text for b in walk(report_blocks(run("faml", "random"), [of], own)) if isinstance(b, Heading)]
    start = titles.index("Texts: films")
    assert titles[start + 1] == "Of the caller" and titles[start + 2].startswith("AML: training")


def test_a_table_as_csv_has_intervals_in_columns_of_their_own():
    heads = [Column("Method", numeric=False), Column("F1 ↑"), Column("AUROC")]
    table = Table(
        heads, [["a, b", Cell("0.3", 1 / 3, "best", "0.1 to 0.5"), Cell("–")], [bold("c"), Cell("0", 0), "2"]]
    )
    assert csv_of(table) == 'Method,F1 ↑,F1 ↑ interval,AUROC\n"a, b",0.333333,0.1 to 0.5,–\nc,0,,2\n'
    assert latex_of(table).splitlines()[4:6] == [
        r"a, b & \textbf{0.3} {\scriptsize (0.1 to 0.5)} & -- \\",
        r"\textbf{c} & 0 & 2 \\",
    ]

"""The page: what is open, what is folded, and how what depends on the machine is parted."""

import re
from itertools import chain

import numpy as np
import pytest
from evaluations import HOSTILE, check, metrics, paired, run, shown, task, text
from markdown_it import MarkdownIt

from explearn.metrics.base import Metric
from explearn.metrics.params import EvaluateParams
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.sanity import ScoreSimilarity
from explearn.report.conclusions import answers
from explearn.report.page import (
    BOARDS,
    MOST_CAVEATS,
    against_each_other,
    meanings,
    question_table,
    report_blocks,
    sanity_blocks,
    training_blocks,
    used_signs,
)
from explearn.report.run import MARKS
from explearn.show.blocks import Bullets, Cell, Column, Fold, Heading, Paragraph, Picture, Table, bold, walk
from explearn.show.tables import csv_of, latex_of

METHODS = ("marker", "rollout", "random")


def costs(f1, speed, slower):
    return metrics(
        f1,
        throughput=100 * speed / slower,
        relative_throughput=speed / slower,
        time=slower / speed,
        peak_memory_mb=400 * slower,
        training_seconds=(40 if speed == 1 else 9) * slower,
    )


def whole_run(slower=1.0, **changes):
    figures = {"marker": costs(0.5, 1, slower), "rollout": costs(0.4, 0.9, slower), "random": costs(0.2, 0.9, slower)}
    f1 = {name: row["f1"] for name, row in figures.items()}
    fields = {
        **shown(text(methods=METHODS), text(HOSTILE, [1], METHODS, number=1)),
        "comparisons": {m: paired(m, f1, {("marker", "random"): 0.01}) for m in ("f1", "f1_topk")},
        "sanity": {"marker": check(), "rollout": check(0.9)},
        "checked": 4,
    }
    return run(*(task(name, figures, **fields) for name in ("films", "a$b$<c>")), parameters="a: 1", **changes)


def texts_of(table):
    return [[cell if isinstance(cell, str) else cell.text for cell in row] for row in table.rows]


class TestWhatIsOpen:
    def test_a_verdict_a_table_a_picture_and_few_caveats(self):
        remarks = [f"Left out: method {number} (slow)." for number in range(12)]
        of = run(task(figures=dict.fromkeys(METHODS, metrics()), remarks=remarks))
        blocks = report_blocks(of)
        lead = [block for block in blocks if isinstance(block, Paragraph) and block.style == "lead"]
        assert len(lead) == 1 and len(lead[0].text.split()) <= 50
        assert len([block for block in blocks if isinstance(block, Table)]) == 1
        assert len([block for block in blocks if isinstance(block, Picture)]) == 1
        place = next(i for i, block in enumerate(blocks) if getattr(block, "text", "") == "What not to trust")
        caveats, more = blocks[place + 1], blocks[place + 2]
        assert len(caveats.items) == MOST_CAVEATS and len(caveats.items) + len(more.blocks[0].items) >= 12

    def test_the_table_has_a_row_for_each_answer_and_its_measures_are_explained_below(self):
        of = whole_run()
        blocks = report_blocks(of)
        table = question_table(of)
        assert len(table.rows) == len(answers(of)) and table in blocks
        explained = blocks[blocks.index(table) + 1]
        assert isinstance(explained, Bullets)
        headings = {found.values["metric"].heading for found in answers(of)}
        assert {item.partition(bold("")[1:])[0].strip("\x02") for item in explained.items} == headings

    def test_the_rows_are_a_line_away(self):
        code = next(b for b in report_blocks(whole_run(folder="reports")) if hasattr(b, "language"))
        assert '\nexplearn.read_report("reports")\n' in code.text


class TestMeanings:
    def test_every_measured_metric_is_in_one_table(self):
        groups = list(chain(*(groups for groups, _ in BOARDS.values())))
        assert len(set(groups)) == len(groups)
        assert {metric.group for metric in CATALOGUE.values()} - {"none"} == set(groups)

    def test_a_metric_of_one_s_own_is_in_a_table_and_explained(self):
        own = Metric("capitals", "Capitals", "share of {unit}s in capitals", "higher")
        of = task(figures={name: metrics(capitals=0.375) for name in METHODS}, metrics={**CATALOGUE, "capitals": own})
        (fold,) = (block for block in report_blocks(run(of)) if getattr(block, "summary", "") == "Other metrics")
        explained, board = (block for block in fold.blocks if isinstance(block, Table))
        assert explained.rows == [["Capitals", "share of words in capitals"]]
        assert [row[1].text for row in board.rows] == ["0.375"] * 3

    def test_every_table_has_the_meaning_of_its_columns_above_it(self):
        for block in walk(report_blocks(whole_run())):
            if not isinstance(block, Fold):
                continue
            tables = [inner for inner in block.blocks if isinstance(inner, Table)]
            boards = [table for table in tables if table.columns[0].title == "Method" and "Family" not in str(table)]
            for board in boards[:1]:
                explained = [row[0] for table in tables if table is not board for row in table.rows]
                titles = [re.sub(r"( [↑↓])?( ≈ chance)?$", "", column.title) for column in board.columns[1:]]
                if "max-sensitivity" not in titles[-1]:
                    assert sorted(explained) == sorted(titles)

    def test_settings_are_filled_in(self):
        table = meanings(list(CATALOGUE.values()), EvaluateParams(headline_percent=37), "word")
        assert "37 %" in str(table.rows) and "{" not in str(table.rows)


class TestMachine:
    @pytest.fixture(scope="class")
    @classmethod
    def pages(cls):
        from explearn_study.report.pages import render_markdown, select

        return [render_markdown(select(report_blocks(whole_run(slower)))) for slower in (1.0, 2.5)]

    def test_another_machine_changes_nothing_under_version_control(self, pages):
        assert pages[0] == pages[1] and "Texts per second" not in pages[0] and "Python 3." not in pages[0]
        titles = [
            block.title
            for table in walk(report_blocks(whole_run()))
            if isinstance(table, Table)
            for block in table.columns
        ]
        for title in ("Texts per second ↑", "Memory, MiB ↓", "Time ↓", "Training, processor seconds ↓"):
            assert title in titles

    def test_the_page_is_whole_and_safe(self, pages):
        rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(pages[0])
        assert "<p>|" not in rendered and "<script" not in rendered
        titles = re.findall(r"^## (.*)$", pages[0], re.MULTILINE)
        assert titles == [
            "What not to trust", "All methods", "Texts: films", "Texts: a&#36;b&#36;&lt;c&gt;", "Sanity checks",
            "Methods, parameters and versions",
        ]  # fmt: skip
        # Random scores have a row of figures, and none in an example text.
        assert pages[0].count("| random | ") > 4 and "| random (" not in pages[0]


class TestTask:
    def test_a_classifier_that_learned_nothing_is_a_warning(self):
        def warnings(of):
            return [b.text for b in report_blocks(of) if isinstance(b, Paragraph) and b.style == "warning"]

        weak = task(performance={"test": {"accuracy": 0.55, "majority_rate": 0.5}})
        assert "0.550" in warnings(run(weak))[0] and warnings(run(task())) == []

    def test_as_many_texts_as_wanted_are_shown_the_first_with_every_method(self):
        fields = shown(*(text(number=number, methods=("marker", "rollout", "cam")) for number in range(5)))
        of = run(task(figures={name: metrics() for name in ("marker", "rollout", "cam")}, **fields), examples=2)
        fold = next(b for b in report_blocks(of) if isinstance(b, Fold) and b.summary == "2 example texts")
        assert len(fold.blocks) == 2 and fold.page_only
        assert len(fold.blocks[0].rows) == 4 and len(fold.blocks[1].rows) < 4


class TestTables:
    def test_ranks_are_over_the_texts_of_all_tasks(self):
        """On 10 texts of each task marker is better."""
        from explearn.report.figures.style import svg

        by_text = {"marker": np.linspace(0.6, 0.8, 10), "rollout": np.linspace(0.1, 0.3, 10)}
        figures = {"marker": metrics(0.7), "rollout": metrics(0.2)}
        values = {CATALOGUE[MARKS].by_text: by_text}
        (picture,) = against_each_other(run(task("a", figures, by_text=values), task("b", figures, by_text=values)))
        drawn = svg(picture)
        assert ">marker  1.00 <" in drawn and ">2.00  rollout<" in drawn.replace("> 2", ">2")

    def test_sanity_checks_have_a_column_for_each_part_and_say_why_a_method_was_skipped(self):
        checked = {
            "cam": check(0.2, random_labels=ScoreSimilarity(0.4, 0.5)),
            "lime": check(random_model={}, max_sensitivity=None, skipped="too slow"),
        }
        of = task(figures=dict.fromkeys(("cam", "rollout", "lime"), metrics()), sanity=checked, checked=4)
        note, table = sanity_blocks(run(of))[1].blocks
        assert [column.title for column in table.columns] == [
            "Method", "new weights", "permuted labels", "max-sensitivity ↓",
        ]  # fmt: skip
        assert texts_of(table) == [["cam", "0.20", "0.40", "0.250"]]
        assert "lime could not be checked (too slow)" in note.text
        assert sanity_blocks(run(task())) == []

    def test_each_validated_training_says_its_best_epoch_and_what_ended_it(self):
        limits = {"patience": 3, "minutes": 4.0}
        stopped = {"best_epoch": 2, "epochs": [{"epoch": 5}], "ended": "patience", **limits}
        late = {"best_epoch": 6, "epochs": [{"epoch": 6}], "ended": "time", **limits}
        notes = {"films": {"l2e": stopped, "paml": late, "marker": {}}, "meals": {"l2e": stopped}}
        about, table = training_blocks(notes)[1].blocks
        assert texts_of(table) == [["l2e", "2 of 5", "2 of 5"], ["paml", "6 of 6 (time)", "–"]]
        assert "3 epochs" in about.text and "4 minutes" in about.text
        assert training_blocks({"films": {"marker": {}}}) == []

    def test_the_accuracy_of_a_method_s_own_classifier_stands_above_the_table(self):
        of = run(task(figures={"ivra": metrics()}, notes={"ivra": {"accuracy": [0.9, 0.85]}}))
        assert used_signs(of).endswith("ivra on films 0.850 (0.900).") and used_signs(run(task())) == ""

    def test_a_table_as_csv_has_intervals_in_columns_of_their_own(self):
        heads = [Column("Method", numeric=False), Column("F1 ↑"), Column("AUROC")]
        table = Table(
            heads, [["a, b", Cell("0.3", 1 / 3, "best", "0.1 to 0.5"), Cell("–")], [bold("c"), Cell("0", 0), "2"]]
        )
        assert csv_of(table) == 'Method,F1 ↑,F1 ↑ interval,AUROC\n"a, b",0.333333,0.1 to 0.5,–\nc,0,,2\n'
        assert latex_of(table).splitlines()[4:6] == [
            r"a, b & \textbf{0.3} {\scriptsize (0.1 to 0.5)} & -- \\",
            r"\textbf{c} & 0 & 2 \\",
        ]


def test_what_the_caller_says_comes_before_the_tasks_and_what_the_methods_say_after():
    notes = {"faml": {"optimised_for": "log_odds", "steps": 1.0, "judged": {"log_odds": {"log_odds": -1.0}}}}
    of = run(task("films", {"faml": metrics(), "random": metrics()}, notes=notes))
    titles = [b.text for b in walk(report_blocks(of, [Heading("Of the caller")])) if isinstance(b, Heading)]
    start = titles.index("Texts: films")
    assert titles[start - 1 : start + 2] == ["Of the caller", "Texts: films", "AML"]

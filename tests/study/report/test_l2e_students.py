from __future__ import annotations

from typing import Any

import pytest

from explearn_study.report.l2e_students import student_tables, student_times
from explearn_study.student_figures import COMPARED


def figures(teacher: float, student: float, p_value: float) -> dict[str, Any]:
    return {
        "teacher": teacher,
        "teacher_error": 0.01,
        "student": student,
        "student_error": 0.02,
        "random": 0.1,
        "both": 0.5,
        "p_value": p_value,
    }


def document(task: str, teacher: str, of_metric: dict[str, Any]) -> dict[str, Any]:
    metrics = {name: of_metric for name in COMPARED}
    seconds = {"teacher": 0.5, "classifier": 0.01, "student_classified": 0.02, "student": 0.001}
    formulations = {"labelling": metrics}
    return {
        "task": task,
        "teacher": teacher,
        "formulations": formulations,
        "students": [],
        "seconds": seconds,
        "training": [10.0, 20.0],
    }


def rows(tables: Any, start: str) -> list[list[str]]:
    (table,) = (table for table in tables if table.title.startswith(start))
    return [[str(cell) for cell in row] for row in table.rows]


def test_rows_and_columns_are_those_of_the_paper() -> None:
    tables = student_tables([document("sst2", "lime", figures(0.2, 0.3, 0.9))], 0.05)
    assert rows(tables, "Agreement of predictions") == [
        ["random", "", "10"],
        ["lime", "A", "20"],
        ["", "L2E", "30"],
        ["", "both", "50"],
    ]
    assert rows(tables, "Stability among texts of similar meaning")[1:] == [
        ["lime", "A", "20.0 ± 1.0"],
        ["", "L2E", "30.0 ± 2.0"],
    ]
    assert rows(tables, "Precision")[2] == ["", "L2E", "30 / 30 / 30"]


def test_times_and_their_ratios() -> None:
    tables = student_times([document("sst2", "lime", figures(0.2, 0.3, 0.9))])
    assert rows(tables, "Time") == [["lime", "sst2", "500.00", "10.00", "20.00", "1.00", "500.0×", "25.0×", "15"]]


@pytest.mark.parametrize(
    ("start", "better"),
    [("Stability among texts of similar meaning", "L2E"), ("Log-odds lost by masking words against", "A")],
)
def test_the_better_of_a_pair_is_bold_where_they_differ_after_holm_s_correction(start: str, better: str) -> None:
    """Of two cells, 0.02 passes 0.05 / 2 and 0.06 does not pass 0.05; 0.03 and 0.03 both fail 0.05 / 2."""
    certain = [document("sst2", "lime", figures(0.2, 0.3, 0.02)), document("cola", "lime", figures(0.2, 0.3, 0.06))]
    bold = {row[1]: [cell.startswith("**") for cell in row[2:]] for row in rows(student_tables(certain, 0.05), start)}
    assert bold[better] == [True, False]
    assert not any(any(cells) for name, cells in bold.items() if name != better)
    unsure = [document(task, "lime", figures(0.2, 0.3, 0.03)) for task in ("sst2", "cola")]
    assert not any("**" in cell for row in rows(student_tables(unsure, 0.05), start) for cell in row)


def test_a_teacher_that_one_task_has_not_gets_a_dash() -> None:
    documents = [
        document("sst2", "lime", figures(0.2, 0.3, 0.9)),
        document("cola", "occlusion", figures(0.2, 0.3, 0.9)),
    ]
    assert rows(student_tables(documents, 0.05), "Stability among texts of similar wording")[1][2:] == [
        "20.0 ± 1.0",
        "–",
    ]


def test_a_metric_that_no_cell_has_makes_no_table() -> None:
    nothing = {**dict.fromkeys(figures(0, 0, 0)), "texts": 0}
    assert student_tables([document("sst2", "lime", nothing)], 0.05) == []
    assert [table.title for table in student_times([document("sst2", "lime", nothing)])] == [
        "Time (L2E figures 3 to 6)"
    ]
    assert student_tables([], 0.05) == [] and student_times([]) == []


def test_the_paper_s_figures_stand_in_brackets_where_the_data_are_its_own() -> None:
    (agreement,) = (
        t
        for t in student_tables([document("reviews", "lime", figures(0.2, 0.3, 0.9))], 0.05, {"reviews": "sst2"})
        if t.title.startswith("Agreement")
    )
    assert [row[2] for row in agreement.rows] == ["10", "20 (84)", "30 (82)", "50 (80)"]
    assert "In brackets" in agreement.sentence
    (other,) = (
        t
        for t in student_tables([document("sst2", "lime", figures(0.2, 0.3, 0.9))], 0.05, {"sst2": None})
        if t.title.startswith("Agreement")
    )
    assert other.rows[1][2] == "20"

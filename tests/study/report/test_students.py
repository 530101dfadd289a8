"""Students next to their teachers."""

import numpy as np
import pytest
from evaluations import paired, task
from parameter_cases import params_of

from explearn.metrics.registry import CATALOGUE
from explearn.show.blocks import Table, walk
from explearn_study.report.students import Students, student_blocks
from explearn_study.sections import COMPARED


def judged(p_value=0.01, second=0.3):
    """A teacher at 0.2 and two students, of which each differs from it with this p."""
    values = {"teacher": 0.2, "random": 0.1, "13": 0.4, "14": second}
    figures = {side: {**dict.fromkeys(COMPARED, value), "f1_topk": None} for side, value in values.items()}
    pairs = {("teacher", "13"): p_value, ("teacher", "14"): p_value}
    comparisons = {name: paired(name, values, pairs, CATALOGUE[name].larger_is_better) for name in COMPARED[:-1]}
    agreement = np.array([[1, 0, 0.5, 0.7], *np.zeros((3, 4))])
    evaluation = task("films", figures, comparisons=comparisons, agreement=agreement)
    seconds = {"teacher": 0.5, "classifier": 0.01, "student_classified": 0.02, "student": 0.001}
    return Students("films", "lime", "labelling", evaluation, {"seconds": seconds, "training": [10.0, 20.0]})


def tables(students):
    of = params_of(("sst2", "cola"), teachers={"lime": {}}, studies={"students": {"teachers": ["lime"]}})
    found = [block for block in walk(student_blocks(of, [students])) if isinstance(block, Table)]
    return {block.caption: block for block in found if block.caption}


def sides(students):
    return tables(students)["Students that learned by labelling"]


def test_a_side_is_a_row_with_the_paper_s_figures_beside():
    table = sides(judged())
    student = [cell if isinstance(cell, str) else cell.text for cell in table.rows[1]]
    assert student[:4] == ["films", "lime", "L2E", "0.350"] and student[-1] == "0.60"
    # Agreement on SST-2: 84 and 82 %.
    assert [row[3].note for row in table.rows] == ["0.840", "0.820", ""]
    assert not any("F1" in column.title for column in table.columns), "nothing was marked"


@pytest.mark.parametrize(
    ("p_value", "second", "larger", "smaller"),
    [(0.01, 0.3, ["", "best"], ["best", ""]), (0.2, 0.3, ["", ""], ["", ""]), (0.01, 0.1, ["", ""], ["", ""])],
)
def test_the_better_side_is_bold_where_every_student_differs(p_value, second, larger, smaller):
    table = sides(judged(p_value, second))
    falling = [column.title for column in table.columns].index("Δ log-odds − ↓")
    assert [row[3].mark for row in table.rows[:2]] == larger
    assert [row[falling].mark for row in table.rows[:2]] == smaller


def test_times_are_of_the_machine():
    times = tables(judged())["L2E figures 3 to 6"]
    expected = ["films", "lime", "labelling", "500.00", "10.00", "20.00", "1.00", "25.0×", "15"]
    assert times.machine and times.rows == [expected]
    assert "L2E figures 3 to 6" not in tables(judged()._replace(costs={}))
    assert student_blocks(params_of(), []) == []

"""The curve of marks in the report: its drawing, its sentences, and its section on both pages."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_reports import metrics, task

from explearn_study.report.curves import baselines_beside, curve_block, curve_sentences
from explearn_study.report.marks_curves_figure import apart, write_marks_curves


def point(marks: int, value: float | None) -> dict[str, Any]:
    names = ("f1_topk", "auroc", "f1")
    low, high = (None, None) if value is None else (value - 0.1, value + 0.1)
    return {
        "marks": marks,
        **dict.fromkeys(names, value),
        **{f"{n}_low": low for n in names},
        **{f"{n}_high": high for n in names},
    }


CURVE = {"task": "films", "points": [point(0, 0.4), point(10, 0.5), point(80, 0.6)]}
METHODS = {
    "expnet": metrics(0.9, auroc=0.9),
    **{
        name: metrics(value, auroc=value)
        for name, value in {"rollout": 0.5, "lime": 0.4, "cam": 0.3, "random": 0.2, "gae": 0.1}.items()
    },
}


def test_the_best_baselines_and_gae_are_drawn_beside() -> None:
    assert baselines_beside(task(methods=METHODS), "f1_topk") == {"rollout": 0.5, "lime": 0.4, "cam": 0.3, "gae": 0.1}


def test_a_sentence_a_task_says_what_the_next_marks_bring() -> None:
    (found,) = curve_sentences([task("fil*ms", curve=CURVE), task("other")])
    assert found.startswith("**fil&#42;ms**: Without a marked text F1 top-K is 0.400; 10 more change it by +0.100")
    assert "With 50 marked texts" in found


def test_the_table_has_a_row_for_each_point_of_each_task() -> None:
    found = curve_block([task(curve={**CURVE, "points": [point(0, None), point(9, 0.25)]}), task("other")])
    assert [list(row) for row in found.rows] == [
        ["films", "0", "–", "–", "–"],
        ["films", "9", "0.250", "0.250", "0.250"],
    ]


def test_the_drawing_names_tasks_marks_and_baselines(tmp_path: Path) -> None:
    write_marks_curves(tmp_path, [task(curve=CURVE, methods=METHODS), task("other")], 0.95)
    svg = (tmp_path / "marks.svg").read_text(encoding="utf-8")
    for text in ("films: F1 top-K", "films: AUROC", "rollout 0.50", "gae 0.10", ">80<", "95 % interval"):
        assert text in svg, text
    assert "other" not in svg and "random 0.2" not in svg


def test_nothing_is_drawn_without_a_curve(tmp_path: Path) -> None:
    write_marks_curves(tmp_path, [task()], 0.95)
    assert not list(tmp_path.iterdir())


class TestApart:
    def test_labels_that_touch_are_moved_as_little_as_needed(self) -> None:
        assert apart([0.2, 0.21, 0.8], 0.1) == pytest.approx([0.155, 0.255, 0.8])

    @given(st.lists(st.floats(0, 1), max_size=8))
    def test_they_keep_their_order_and_distance(self, places: list[float]) -> None:
        found = apart(sorted(places), 0.1)
        assert len(found) == len(places)
        assert all(later - sooner >= 0.1 - 1e-9 for sooner, later in pairwise(found))

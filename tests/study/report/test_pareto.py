"""The figure of what methods give against what they cost."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from task_reports import metrics, task

from explearn.show.figures.pareto import PANELS, Panel, Point, pareto_front, points, write_pareto
from explearn.show.figures.style import draw_legend, family_styles

F1, SUFFICIENCY = Panel("f1", "F1", True), Panel("aopc_sufficiency", "sufficiency", False)


def test_the_front_holds_what_nothing_beats_at_its_price() -> None:
    found = [Point("a", 1, 0.2), Point("b", 2, 0.1), Point("c", 3, 0.4), Point("d", 3, 0.3), Point("e", 9, 0.4)]
    assert [p.method for p in pareto_front(found, True)] == ["a", "c"]
    assert [p.method for p in pareto_front(found, False)] == ["a", "b"]
    assert pareto_front([], True) == []


def test_points_are_means_over_the_tasks_that_have_the_measure() -> None:
    tasks = [
        task("one", {"rollout": metrics(0.2, relative_throughput=0.5), "random": metrics(0.1)}),
        task("two", {"rollout": metrics(0.4, relative_throughput=0.25), "random": metrics(None)}),
        task("three", {"rollout": metrics(None), "random": metrics(None)}),
    ]
    (point,) = points(F1, tasks)
    assert (point.method, point.cost, point.value) == ("rollout", 3.0, pytest.approx(0.3))


def test_no_method_is_faster_than_classifying_alone() -> None:
    (point,) = points(F1, [task("one", {"rollout": metrics(0.2, relative_throughput=1.08)})])
    assert point.cost == 1.0


def test_the_figure_names_every_method_and_is_the_same_every_time(tmp_path) -> None:
    methods = {name: metrics(0.3, relative_throughput=0.5) for name in ("expnet", "rollout", "random")}
    for run in ("first.svg", "second.svg"):
        write_pareto(tmp_path / run, [task(methods=methods)])
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()
    root = ElementTree.fromstring((tmp_path / "first.svg").read_text(encoding="utf-8"))
    texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
    for name in methods:
        assert texts.count(name) == len(PANELS)


def test_nothing_measured_is_said(tmp_path) -> None:
    nothing = {name: None for name in metrics()}
    write_pareto(tmp_path / "f.svg", [task(methods={"rollout": nothing})])
    assert "nothing measured" in (tmp_path / "f.svg").read_text(encoding="utf-8")


def test_a_panel_without_a_point_is_left_out_beside_others(tmp_path) -> None:
    write_pareto(tmp_path / "f.svg", [task(methods={"rollout": metrics(None, relative_throughput=0.5)})])
    drawn = (tmp_path / "f.svg").read_text(encoding="utf-8")
    assert "Agreement with people" not in drawn
    assert "Agreement with the model" in drawn


@pytest.mark.parametrize("width", [3.6, 8.0])
def test_no_name_of_a_family_is_cut_at_the_figure_s_edge(width: float) -> None:
    families = ["attention", "chance", "decomposition", "gradient", "learned", "perturbation", "relevance"]
    figure = Figure(figsize=(width, 3), layout="constrained")
    FigureCanvasSVG(figure)
    draw_legend(figure, families, family_styles(families), 7)
    (legend,) = figure.legends
    assert legend.get_window_extent().width <= figure.bbox.width
    assert sorted(text.get_text() for text in legend.get_texts()) == families

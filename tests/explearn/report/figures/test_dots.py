"""The first picture: a row a method."""

from evaluations import metrics, run, task

from explearn.report.figures.dots import dot_plot
from explearn.report.figures.style import svg


def test_methods_are_ordered_by_the_first_figure_with_their_passes():
    figures = {
        "rollout": metrics(0.2, forward_passes=1.0, backward_passes=0.0),
        "random": metrics(0.1, forward_passes=1.0, backward_passes=0.0),
        "cam": metrics(0.4, forward_passes=41.0, backward_passes=2.0),
    }
    drawn = svg(dot_plot(run(task("one", figures), task("two", figures)), {"cam"}))
    places = [drawn.index(f">{name}</text>") for name in ("cam", "rollout", "random")]
    assert places == sorted(places) and ">43</text>" in drawn
    assert "<title>cam: F1 top-K 0.400</title>" in drawn
    assert dot_plot(run(task(figures={})), ()) is None


def test_planted_words_have_a_panel_with_intervals():
    figures = {"rollout": metrics(0.8, 0.7, 0.9), "random": metrics(0.1)}
    order = task("order", figures, by_text={"text_f1_topk": {name: [0.1, 0.2] for name in figures}})
    drawn = svg(dot_plot(run(task(figures=figures), planted=[order]), ()))
    assert "rollout: Planted: order 0.800 (0.700 to 0.900)" in drawn

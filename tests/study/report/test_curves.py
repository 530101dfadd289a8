"""The section on what marked texts bring."""

from evaluations import metrics, run, task

from explearn.report.figures.style import svg
from explearn.show.blocks import Picture
from explearn_study.report.curves import curve_blocks

METHODS = {
    "marker": metrics(0.9),
    **{name: metrics(0.5 - 0.1 * i) for i, name in enumerate(("rollout", "lime", "cam", "random", "gae"))},
}


def point(marks, value):
    low, high = (None, None) if value is None else (value - 0.1, value + 0.1)
    figures = {}
    for name in ("f1_topk", "auroc", "f1"):
        figures |= {name: value, f"{name}_low": low, f"{name}_high": high}
    return {"marks": marks, **figures}


def test_the_section_has_a_drawing_and_all_points():
    curve = {"task": "films", "points": [point(0, 0.4), point(10, 0.5), point(80, None)]}
    blocks = curve_blocks(run(task(figures=METHODS), task("other")), {"films": curve})
    drawn = svg(next(block for block in blocks if isinstance(block, Picture)))
    for text in ("films: F1 top-K", "films: AUROC", "rollout 0.50", "95 % interval"):
        assert text in drawn, text
    assert blocks[-1].blocks[0].rows[2] == ["films", "80", "–", "–", "–"]
    assert curve_blocks(run(task()), {}) == []

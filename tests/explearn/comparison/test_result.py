"""What a comparison shows of itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from task_reports import comparison, metrics, run, task

from explearn.comparison.result import Comparison
from explearn.core.errors import ParamsError, UnknownNameError

AOPC = "aopc_comprehensiveness"


@pytest.fixture
def result() -> Comparison:
    figures = {"attn_lrp": 0.3, "lime": 0.31, "random": 0.05}
    methods = {
        name: metrics(None, **{AOPC: value, f"{AOPC}_low": value - 0.02, f"{AOPC}_high": value + 0.02})
        for name, value in figures.items()
    }
    of = task(
        "texts",
        methods,
        comparisons={AOPC: comparison(AOPC, figures, {("lime", "random"): 0.01, ("attn_lrp", "random"): 0.01})},
    )
    return Comparison(Path("report.html"), 20, methods, {}, {}, of, run(*methods))


def test_the_best_method_by_a_figure(result: Comparison) -> None:
    assert result.best() == "lime"
    with pytest.raises(UnknownNameError, match="did you mean"):
        result.best("aopc_comprehensivenes")
    with pytest.raises(ParamsError, match="no method has"):
        result.best("f1_topk")


def test_it_is_shown_in_a_line_and_as_a_table(result: Comparison) -> None:
    assert repr(result) == "Comparison(3 methods on 20 texts: report.html)"
    page = result._repr_html_()
    for shown in ("<b>0.310</b> <small>0.29 to 0.33</small>", "<td>0.300* <small>", "<td>0.050 <small>"):
        assert shown in page


def test_latex_has_intervals_and_marks(result: Comparison) -> None:
    lines = result.to_latex([AOPC]).splitlines()
    assert lines[0] == r"\begin{tabular}{lr}" and lines[-1] == r"\end{tabular}"
    assert r"attn\_lrp & 0.300$^*$ {\scriptsize (0.28 to 0.32)} \\" in lines
    assert r"lime & \textbf{0.310} {\scriptsize (0.29 to 0.33)} \\" in lines
    assert r"random & 0.050 {\scriptsize (0.03 to 0.07)} \\" in lines


def test_a_frame_has_a_row_a_method(result: Comparison) -> None:
    pytest.importorskip("pandas")
    frame = result.to_pandas()
    assert list(frame.index) == ["attn_lrp", "lime", "random"]
    np.testing.assert_allclose(frame[AOPC], [0.3, 0.31, 0.05])

"""What a comparison shows of itself."""

from pathlib import Path

import numpy as np
import pytest
from evaluations import metrics, paired, task

from explearn import Comparison, ParamsError, UnknownNameError
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.significance import paired_tests
from explearn.report.figures.critical_difference import groups, mean_ranks

AOPC = "aopc_comprehensiveness"


def compared(figures, **changes):
    return Comparison(**task("texts", figures, **changes).fields(), page=Path("report.html"))


@pytest.fixture
def result():
    figures = {"attn_lrp": 0.3, "lime": 0.31, "random": 0.05}
    methods = {}
    for name, value in figures.items():
        methods[name] = metrics(None, **{AOPC: value, f"{AOPC}_low": value - 0.02, f"{AOPC}_high": value + 0.02})
    tests = paired(AOPC, figures, {("lime", "random"): 0.01, ("attn_lrp", "random"): 0.01})
    return compared(methods, comparisons={AOPC: tests})


def test_the_best_method_by_a_figure(result):
    assert result.best() == "lime"
    with pytest.raises(UnknownNameError, match="did you mean"):
        result.best("aopc_comprehensivenes")
    with pytest.raises(ParamsError, match="no method has"):
        result.best("f1_topk")
    with pytest.raises(ParamsError, match="no two methods"):
        result.critical_difference("auroc")


def test_it_is_shown_in_sentences_and_as_a_table(result):
    assert result.sentences() == ["3 methods on 4 texts.", result.verdict]
    fewer = result.model_copy(update={"left_out": {"occlusion": "it has no mask"}})
    assert fewer.sentences()[:2] == ["3 methods (1 left out) on 4 texts.", "left out: occlusion (it has no mask)"]
    assert "report.html" in str(result).splitlines()[-1]
    page = result._repr_html_()
    for shown in ("<b>0.310</b> <small>0.29 to 0.33</small>", "<td>0.300* <small>", "<td>0.050 <small>"):
        assert shown in page
    assert result.verdict.isprintable()


def test_latex_has_intervals_and_marks(result):
    lines = result.to_latex([AOPC]).splitlines()
    assert lines[0] == r"\begin{tabular}{lr}" and lines[-1] == r"\end{tabular}"
    assert r"attn\_lrp & 0.300$^*$ {\scriptsize (0.28 to 0.32)} \\" in lines
    assert r"lime & \textbf{0.310} {\scriptsize (0.29 to 0.33)} \\" in lines
    assert r"random & 0.050 {\scriptsize (0.03 to 0.07)} \\" in lines


def test_a_diagram_of_ranks_says_what_cannot_be_told_apart():
    noise = np.random.default_rng(0).normal(scale=0.1, size=40)
    values = {"attn_lrp": noise + 0.3, "lime": noise + 0.3 + np.tile([-0.01, 0.01], 20), "random": noise}
    tests = paired_tests(AOPC, {name: float(of.mean()) for name, of in values.items()}, values)
    ranked = mean_ranks(tests, values)
    assert ranked.sum() == pytest.approx(6) and ranked[2] > 2.5
    assert groups(tests, np.argsort(ranked)) == [(0, 1)]
    figures = {name: metrics(None) for name in values}
    of = compared(figures, comparisons={AOPC: tests}, by_text={CATALOGUE[AOPC].by_text: values})
    drawn = of.critical_difference()
    assert drawn.count("<svg") == 1 and all(name in drawn for name in values)


def test_a_frame_has_a_row_a_method(result):
    pytest.importorskip("pandas")
    frame = result.to_frame()
    assert list(frame.index) == ["attn_lrp", "lime", "random"]
    np.testing.assert_allclose(frame[AOPC], [0.3, 0.31, 0.05])
    assert frame.notna().any().all()

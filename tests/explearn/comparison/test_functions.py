"""A comparison on a function of texts: what needs no inside of a model is judged, as on any other classifier."""

import numpy as np
import pytest
from comparison_cases import LABELS, TEXTS
from rounding import tolerance

import explearn
from explearn import UnsupportedError
from explearn.metrics.params import EvaluateParams
from explearn.metrics.protocols import top_count

METHODS = "random,occlusion,rollout"


def long_texts(texts):
    """Each word counts a tenth."""
    long = np.array([min(0.9, 0.1 * len(text.split())) for text in texts])
    return np.stack([1 - long, long], axis=1)


def classifier(function=long_texts):
    return explearn.FunctionPredictor(function, ["no", "yes"])


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("function") / "work"


@pytest.fixture(scope="module")
def comparison(work):
    out = work.with_name("report.html")
    return explearn.compare(classifier(), list(TEXTS), labels=LABELS, methods=METHODS, out=out, work=work)


def test_faithfulness_is_that_of_the_function(comparison):
    # Of n words, none below ten, k are taken away: the probability of "yes" falls by k tenths, of "no" it rises.
    falls = []
    for text in TEXTS:
        n = len(text.split())
        sign = 1 if 0.1 * n > 0.5 else -1
        falls.append(sign * 0.1 * top_count(n, EvaluateParams().headline_percent))
    shown = comparison.figures["random"]["comprehensiveness"]
    assert shown == pytest.approx(np.mean(falls), abs=tolerance())


def test_what_needs_an_inside_is_left_out_or_undefined(comparison):
    assert set(comparison.figures) == {"random", "occlusion"}
    assert "has no model to look into" in comparison.left_out["rollout"]
    for figures in comparison.figures.values():
        assert isinstance(figures["infidelity"], float)
        assert figures["consistency"] is None
        assert figures["simulatability"] is None
        assert figures["forward_passes"] is None
    page = comparison.page.read_text(encoding="utf-8")
    assert "(the function has no model to look into)" in page


def test_work_goes_on_while_the_function_answers_the_same(comparison, work):
    def lines(function):
        told = []
        options = explearn.CompareOptions(tell=told.append)
        explearn.compare(
            classifier(function), list(TEXTS), METHODS, labels=LABELS, out=None, work=work, options=options
        )
        return [line for line in told if "of an earlier run" in line]

    assert len(lines(long_texts)) == 2
    assert not lines(lambda texts: long_texts(texts)[:, ::-1])


@pytest.mark.parametrize("roster", ["quick", "light"])
def test_rosters_leave_nothing_out(roster):
    comparison = explearn.compare(long_texts, list(TEXTS), roster, out=None)
    assert not comparison.left_out and {"random", "occlusion"} <= set(comparison.figures)
    assert comparison.labels == ["0", "1"]


def test_random_scores_alone_are_refused_with_advice(tmp_path):
    for methods in ("random", "random,rollout"):
        with pytest.raises(UnsupportedError, match=r"left to judge but random scores.* such as occlusion \("):
            explearn.compare(long_texts, list(TEXTS), methods, out=tmp_path / "r.html")
    assert not list(tmp_path.iterdir())

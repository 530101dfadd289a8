"""Figures of Marker by the number of marked texts."""

import numpy as np
import pytest

from explearn_study.marks_curve import judge_draws

MARKED = [np.array([True, False, False]), np.array([False, True, False, False])]
RIGHT = [np.array([0.9, 0.1, 0.2]), np.array([0.1, 0.8, 0.2, 0.3])]
WRONG = [1 - text for text in RIGHT]


def judged(draws):
    return judge_draws(draws, MARKED, 1, "expected_f1", 0.95)


class TestJudging:
    def test_the_figure_is_the_mean_over_the_draws(self):
        actual = judged([RIGHT, WRONG])
        assert actual["by_draw"]["auroc"] == [1.0, 0.0] and actual["auroc"] == 0.5
        assert actual["by_draw"]["f1_topk"] == [1.0, 0.0] and actual["f1_topk"] == 0.5

    def test_draws_that_disagree_widen_the_interval(self):
        actual = judged([RIGHT, WRONG])
        # Without a text the means stay .5; the draws' variance is .5, that of their mean .25, on the logit's scale
        # sqrt(.25) / .25 = 2; Student's 97.5 % quantile of one degree of freedom is 12.706.
        odds = np.exp(2 * 12.7062)
        assert actual["f1_topk_high"] == pytest.approx(odds / (1 + odds)) == 1 - actual["f1_topk_low"]

    def test_words_that_were_not_read_are_never_chosen_and_come_last(self):
        # As in test_unread: of a, b, c, d only a and b are read; a and d are marked.
        text = np.array([0.5, 0.1, np.nan, np.nan])
        actual = judge_draws([[text]], [np.array([True, False, False, True])], 5, "top_k", 0.95)
        # Five of four words: TP a, FP b, FN d.
        assert actual["f1_topk"] == actual["f1"] == 0.5
        # a > b, a > c, d < b, d = c.
        assert actual["auroc"] == pytest.approx((1 + 1 + 0 + 0.5) / 4)

"""Intervals and paired tests: scipy's own figures, small tables by hand, and definitions tried in full."""

import numpy as np
import pytest
from scipy.stats import binomtest, mannwhitneyu, t, ttest_1samp, wilcoxon
from sklearn.metrics import average_precision_score, roc_auc_score

from explearn.metrics import significance as s


def test_intervals_of_means_are_scipys_where_there_is_no_skewness_and_of_0_and_1():
    values = np.random.default_rng(0).normal(size=15)
    values = np.r_[values, -values, np.nan]
    expected = ttest_1samp(values[:-1], 0).confidence_interval(0.9)
    assert s.mean_interval(values, 0.9) == pytest.approx((expected.low, expected.high))
    exact = binomtest(2, 20).proportion_ci(0.95)
    assert s.mean_interval([1, 1] + [0] * 18, 0.95) == pytest.approx((exact.low, exact.high))
    # Nothing of twenty: 1 - 0.025^(1/20).
    assert s.mean_interval([0] * 20, 0.95) == pytest.approx((0, 1 - 0.025**0.05))
    assert s.mean_interval([0.5, np.nan], 0.95) == (None, None)


def test_the_interval_of_a_skewed_mean_leans_to_the_long_side():
    low, high = s.mean_interval(values := np.random.default_rng(0).exponential(size=30), 0.95)
    expected = ttest_1samp(values, 0).confidence_interval(0.95)
    assert low > expected.low and high > expected.high and high - values.mean() > values.mean() - low


def test_the_interval_of_a_pooled_figure_is_the_jackknife_s_on_the_logit():
    """Pooled, a mean of 4 texts: its jackknife has the standard error of a mean."""
    values = np.array([0.2, 0.4, 0.5, 0.9])
    without = (values.sum() - values) / 3
    low, high = s.pooled_interval(0.5, without, 0.95)
    step = t.ppf(0.975, 3) * values.std(ddof=1) / 2 / 0.25
    assert (low, high) == pytest.approx((1 / (1 + np.exp(step)), 1 / (1 + np.exp(-step))))
    assert s.pooled_interval(0.5, [np.nan, 0.4], 0.95) == (None, None)


def test_equal_texts_leave_a_doubt():
    """Of ten texts none differs: of all, up to 1 - 0.025^(1/10) = 0.308 may, and then be at an end of the range."""
    assert s.mean_interval([0.5] * 10, 0.95, 0, 1) == pytest.approx((0.346, 0.654), abs=5e-4)
    assert s.mean_interval([0.5] * 10, 0.95) == (None, None)
    assert s.pooled_interval(1.0, [1.0] * 10, 0.95) == pytest.approx((0.692, 1), abs=5e-4)
    assert s.pooled_interval(0.0, [0.0] * 10, 0.95, least=-1) == pytest.approx((-0.308, 0.308), abs=5e-4)


def test_intervals_end_at_the_range_of_the_metric():
    rhos = [-1, 1, 0.9, 0.95, 1]
    assert s.mean_interval(rhos, 0.95)[0] < -1 == s.mean_interval(rhos, 0.95, -1, 1)[0]
    assert s.mean_interval(rhos, 0.95, -1, 1)[1] <= 1


def test_areas_of_resamples_are_scikit_learns():
    rng = np.random.default_rng(3)
    scores = [rng.integers(0, 4, size=n) / 3 for n in (5, 8, 3, 6)]
    marked = [rng.random(len(t)) < 0.4 for t in scores]
    for seed in range(20):
        counts = np.random.default_rng(seed).multinomial(4, np.full(4, 1 / 4), size=1)
        drawn = np.repeat(np.arange(4), counts[0])
        values, truth = (np.concatenate([x[i] for i in drawn]) for x in (scores, marked))
        (area,), (precision,) = s.resampled_areas(scores, marked, counts)
        if truth.any() and not truth.all():
            assert area == pytest.approx(roc_auc_score(truth, values))
            assert precision == pytest.approx(average_precision_score(truth, values))
        else:
            assert np.isnan(area) and np.isnan(precision)


def table(texts=40):
    rng = np.random.default_rng(1)
    base = rng.normal(size=texts)
    return {m: base + shift + 0.3 * rng.normal(size=texts) for m, shift in (("good", 0.5), ("fair", 0.45), ("bad", 0))}


def means(by_text):
    return {method: float(np.nanmean(values)) for method, values in by_text.items()}


def test_p_values_are_scipys_and_holms():
    by_text = table()
    actual = s.paired_tests("m", means(by_text), by_text)
    pairs = [("good", "fair"), ("good", "bad"), ("fair", "bad")]
    raw = [wilcoxon(by_text[a], by_text[b]).pvalue for a, b in pairs]
    for (a, b), p, adjusted in zip(pairs, raw, s.holm(raw), strict=True):
        i = actual.methods.index(a)
        j = actual.methods.index(b)
        assert actual.p_values[i, j] == actual.p_values[j, i] == pytest.approx(p)
        assert actual.p_value(a, b) == actual.p_value(b, a) == pytest.approx(adjusted)
    assert (np.diag(actual.adjusted) == 1).all() and (actual.texts == 40).all()


def test_the_best_is_alone_and_those_not_significantly_worse_tie():
    by_text = table()
    actual = s.paired_tests("m", means(by_text), by_text)
    assert (actual.best, actual.tied) == (("good",), ("fair",))
    turned = s.paired_tests("m", means(by_text), by_text, larger_is_better=False)
    assert (turned.best, turned.tied) == (("bad",), ())


def test_the_direction_is_that_of_the_signed_ranks():
    # Differences 0, NaN, -1 and 3: ranks 1 and 2.
    few = s.paired_tests("m", {"a": 1.0, "b": 0.0}, {"a": [1.0, np.nan, 0.0, 3.0], "b": [1.0, 1.0, 1.0, 0.0]})
    assert few.direction.tolist() == [[0, 1], [-1, 0]]


def test_where_the_test_contradicts_the_figures_nobody_is_better():
    by_text = table()
    figures = {"good": 0.2, "fair": 0.1, "bad": 0.9}
    actual = s.paired_tests("m", figures, by_text)
    assert actual.p_value("good", "bad") < 0.05 and actual.outcome("good", "bad", 0.05) == 0
    assert (actual.best, actual.tied) == (("bad",), ("good", "fair"))
    sure = s.paired_tests("m", means(by_text), by_text, larger_is_better=False)
    assert (sure.outcome("bad", "good", 0.05), sure.outcome("good", "bad", 0.05)) == (1, -1)
    assert sure.outcome("good", "fair", 0.05) == 0


def test_a_pair_s_p_value_does_not_depend_on_who_else_is_compared():
    by_text = table(20)
    by_text["rounded"] = np.round(by_text["good"])
    by_text["zero"] = by_text["fair"] * (np.arange(20) > 3)
    whole = s.paired_tests("m", means(by_text), by_text)
    for i, first in enumerate(by_text):
        for j, second in list(enumerate(by_text))[i + 1 :]:
            pair = {name: by_text[name] for name in (first, second)}
            alone = s.paired_tests("m", means(pair), pair)
            assert whole.p_values[i, j] == alone.p_values[0, 1]


def test_differences_that_float32_cannot_tell_are_ties():
    draw = np.random.default_rng(2)
    first = draw.choice([0.1, 0.2, 0.3, 0.7], 40)
    second = draw.choice([0.1, 0.4, 0.6], 40)
    for factor in (1.0, 1e-6, 1e6):
        exact = {"a": first * factor, "b": second * factor}
        noisy = {name: values + factor * draw.uniform(-1e-8, 1e-8, 40) for name, values in exact.items()}
        expected = s.paired_tests("m", means(exact), exact)
        actual = s.paired_tests("m", means(exact), noisy)
        assert actual.p_values.tolist() == expected.p_values.tolist()
        assert actual.direction.tolist() == expected.direction.tolist()
        assert expected.p_value("a", "b") < 0.05
    # What does not differ from 0 by what float32 can tell of probabilities has no rank.
    assert s.signed_rank_test(np.full((1, 30), 1.5e-18)).tolist() == [1.0]
    tiny = {"a": np.full(30, 1e-9), "b": np.zeros(30)}
    assert s.paired_tests("m", means(tiny), tiny, scale=1.0).p_value("a", "b") == 1
    assert s.paired_tests("m", means(tiny), tiny).p_value("a", "b") < 0.05


def test_of_few_texts_and_many_methods_nothing_can_be_significant():
    # 2^-7 of eight texts, times the ten pairs of five methods, is .078; six pairs of four are .047.
    rows = {name: np.arange(8.0) * k for k, name in enumerate("abcde")}
    assert not s.paired_tests("m", means(rows), rows).can_differ()
    del rows["e"]
    assert s.paired_tests("m", means(rows), rows).can_differ()


def test_undefined_texts_are_left_out_pair_by_pair():
    by_text = table(30)
    by_text["fair"][:10] = np.nan
    actual = s.paired_tests("m", means(by_text), by_text)
    assert actual.texts.tolist() == [[30, 20, 30], [20, 20, 20], [30, 20, 30]]
    i = actual.methods.index("good")
    j = actual.methods.index("fair")
    assert actual.p_values[i, j] == pytest.approx(wilcoxon(by_text["good"][10:], by_text["fair"][10:]).pvalue)
    nothing = s.paired_tests("m", {"a": 1.0, "b": 2.0}, {"a": [np.nan, 1.0], "b": [1.0, np.nan]})
    assert nothing.p_value("a", "b") == 1 and nothing.tied == ("a",) and nothing.texts[0, 1] == 0


@pytest.mark.parametrize("texts", [1, 5, 7])
def test_few_texts_with_ties_and_zeros_are_tested_exactly_as_by_scipy(texts):
    rng = np.random.default_rng(texts)
    by_text = {name: np.r_[rng.integers(0, 4, texts) / 4, np.full(60 - texts, np.nan)] for name in ("a", "b", "c")}
    values = {name: float(np.nanmean(rows)) for name, rows in by_text.items()}
    actual = s.paired_tests("m", values, by_text)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        first = by_text[actual.methods[i]][:texts]
        second = by_text[actual.methods[j]][:texts]
        expected = wilcoxon(first - second).pvalue if (first != second).any() else 1.0
        assert actual.p_values[i, j] == pytest.approx(expected)


def test_holm_of_a_table_by_hand():
    # In order: 4 x 0.005, 3 x 0.01, 2 x 0.03, and 0.04 takes the 0.06 before it.
    assert s.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert s.holm([0.4, 0.02, 0.9]) == pytest.approx([0.8, 0.06, 0.9])
    assert s.holm([0.7, 0.6]) == pytest.approx([1, 1])


def test_two_samples_are_compared_exactly_and_by_random_orders_where_values_are_tied():
    rng = np.random.default_rng(1)
    first, second = rng.normal(0.5, size=12), rng.normal(size=30)
    assert s.rank_sum_test(first, second) == pytest.approx(mannwhitneyu(first, second, method="exact").pvalue)
    # Two of the 70 choices of four of these eight are as extreme.
    tied = s.rank_sum_test(np.array([1.0, 1, 1, 1]), np.array([0.0, 0, 0, 0]))
    assert tied == pytest.approx(2 / 70, abs=0.005)
    assert s.rank_sum_test(np.zeros(9), np.zeros(20)) == 1
    many = rng.integers(0, 9, size=(2, 200))
    assert s.rank_sum_test(*many) == mannwhitneyu(*many, method="asymptotic").pvalue


def test_shares_of_groups_are_compared_by_random_assignments():
    # Fisher's exact test of the same table, whose two sides are alike here: 2 / C(8, 4).
    assert s.shares_test([4, 0], [4, 4]) == pytest.approx(2 / 70, abs=0.005)
    assert s.shares_test([5, 5, 5], [9, 9, 9]) == 1
    assert s.shares_test([80, 70, 40], [80, 80, 80]) == 1 / (s.DRAWS + 1)

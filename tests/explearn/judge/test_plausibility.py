"""Choosing words and counting agreement: values by hand, from scikit-learn, and from ERASER's own code."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT
from scipy.stats import bootstrap, rankdata

from explearn.core.errors import DataError
from explearn.judge import plausibility as p

REFERENCE = ROOT / "tests" / "reference" / "metrics.json"

scores_lists = st.lists(st.floats(-5, 5, width=32) | st.sampled_from([-1.0, 0.0, 1.0]), min_size=1, max_size=30)


def test_top_k_takes_the_largest():
    assert p.select_top_k([0.1, 0.9, 0.3, 0.8], 2).tolist() == [False, True, False, True]


def test_top_k_ties_go_to_the_earlier_word():
    assert p.select_top_k([0.5, 0.7, 0.5, 0.5], 2).tolist() == [True, True, False, False]


def test_top_k_leaves_negative_scores_out():
    assert p.select_top_k([-0.1, 0.9, -0.3, 0.0], 3).tolist() == [False, True, False, True]
    assert not p.select_top_k([-1.0, -2.0], 2).any()


def test_top_k_of_a_shorter_text_is_all_of_it_whatever_the_signs():
    assert p.select_top_k([-1.0, 0.5], 3).all()


def test_top_k_needs_a_k():
    with pytest.raises(ValueError, match="at least 1"):
        p.select_top_k([1.0], 0)


@given(scores_lists, st.integers(1, 35))
def test_top_k_never_prefers_a_lower_or_a_later_equal_word(scores, k):
    mask = p.select_top_k(scores, k)
    if len(scores) < k:
        assert mask.all()
        return
    assert mask.sum() == min(k, sum(s >= 0 for s in scores))
    for i, chosen in enumerate(mask):
        for j, other in enumerate(mask):
            if chosen and not other:
                assert scores[i] > scores[j] or (scores[i] == scores[j] and i < j)


def test_threshold_includes_its_own_value():
    assert p.select_threshold([0.5, 0.49, 0.7], 0.5).tolist() == [True, False, True]


def test_threshold_falls_back_to_the_first_best_word():
    assert p.select_threshold([0.1, 0.4, 0.4], 0.5).tolist() == [False, True, False]


@given(scores_lists, st.floats(-5, 5))
def test_threshold_chooses_at_least_one_word_and_never_below_an_unchosen(scores, threshold):
    mask = p.select_threshold(scores, threshold)
    assert mask.any()
    reaching = [s >= threshold for s in scores]
    assert (
        mask.tolist() == reaching if any(reaching) else (mask.sum() == 1 and scores[int(mask.argmax())] == max(scores))
    )


def test_positive_rate_chooses_that_share_of_uniform_scores_and_may_choose_none():
    uniform = (np.arange(100) + 0.5) / 100
    assert p.select_positive_rate(uniform, 0.2).sum() == 20
    assert not p.select_positive_rate([0.1, 0.2], 0.2).any()


def test_binarise_refuses_an_unknown_rule():
    with pytest.raises(ValueError, match="top_k, threshold, positive_rate or expected_f1"):
        p.binarise([1.0], "median", k=1, threshold=0.5, positive_rate=0.1)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_scores_must_be_finite(bad):
    for select in (lambda s: p.select_top_k(s, 1), lambda s: p.select_threshold(s, 0.5)):
        with pytest.raises(DataError, match="word 1 has score"):
            select([0.0, bad])
    with pytest.raises(DataError, match="at least one word"):
        p.select_threshold([], 0.5)


def test_agreement_is_pooled_over_words():
    # Text 1: one hit, one false alarm. Text 2: one hit, two misses. TP 2, FP 1, FN 2.
    selected = [[1, 1, 0], [1, 0, 0, 0]]
    gold = [[1, 0, 0], [1, 1, 1, 0]]
    found = p.precision_recall_f1(selected, gold)
    assert (found.precision, found.recall, found.f1) == pytest.approx((2 / 3, 2 / 4, 4 / 7))
    # Each text's own F1: 2/3 and 2/4.
    assert p.macro_f1(p.rationale_counts(selected, gold)) == pytest.approx((2 / 3 + 1 / 2) / 2)


def test_undefined_agreement_is_none():
    nothing = p.precision_recall_f1([[0, 0]], [[0, 0]])
    assert (nothing.precision, nothing.recall, nothing.f1) == (None, None, None)
    missed = p.precision_recall_f1([[0, 0]], [[0, 1]])
    assert (missed.precision, missed.recall, missed.f1) == (None, 0.0, 0.0)
    assert p.macro_f1(np.zeros((2, 3), dtype=np.int64)) is None
    assert p.precision_recall_f1([], []).f1 is None


def test_masks_of_other_lengths_are_refused():
    with pytest.raises(DataError, match="text 0"):
        p.rationale_counts([[1, 0]], [[1, 0, 0]])
    with pytest.raises(DataError, match="2 texts"):
        p.rationale_counts([[1], [0]], [[1]])
    with pytest.raises(DataError, match="text 0"):
        p.auroc([[0.5, 0.1]], [[1, 0, 0]])


def test_auroc_is_the_rank_sum_statistic_of_the_pooled_words():
    rng = np.random.default_rng(0)
    scores = [rng.integers(0, 5, size=n) / 4 for n in (7, 12, 5)]
    gold = [rng.random(len(s)) < 0.4 for s in scores]
    pooled, marked = np.concatenate(scores), np.concatenate(gold)
    positives, negatives = marked.sum(), (~marked).sum()
    u = rankdata(pooled)[marked].sum() - positives * (positives + 1) / 2
    assert p.auroc(scores, gold) == pytest.approx(u / (positives * negatives))


def test_auprc_is_average_precision():
    # Down the list: hit (precision 1/1), miss, hit (2/3), miss; each hit is half of the recall.
    assert p.auprc([[0.9, 0.8], [0.7, 0.1]], [[1, 0], [1, 0]]) == pytest.approx((1 + 2 / 3) / 2)


@pytest.mark.parametrize("gold", [[[0, 0]], [[1, 1]]])
def test_areas_need_both_kinds_of_word(gold):
    assert p.auroc([[0.1, 0.2]], gold) is None
    assert p.auprc([[0.1, 0.2]], gold) is None
    assert p.auroc([], []) is None


def _pooled_f1(tp, fp, fn, axis=-1):
    tp, fp, fn = (np.sum(x, axis=axis) for x in (tp, fp, fn))
    return 2 * tp / (2 * tp + fp + fn)


def test_bootstrap_agrees_with_scipys_percentile_interval():
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 4, size=(80, 3)) + np.array([1, 0, 0])
    low, high = p.bootstrap_interval(counts, samples=4000, confidence=0.95, seed=1)
    expected = bootstrap(
        tuple(counts.T),
        _pooled_f1,
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=4000,
        rng=np.random.default_rng(2),
    ).confidence_interval
    # Two independent draws of 4,000 resamples: their quantiles agree to a few parts in a thousand.
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.006)


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_bootstrap_of_equal_texts_is_the_point_itself(tp, fp, fn, texts, seed):
    counts = np.tile(np.array([tp, fp, fn]), (texts, 1))
    low, high = p.bootstrap_interval(counts, samples=100, confidence=0.9, seed=seed)
    point = p.agreement_of_counts(counts).f1
    if point is None:
        assert (low, high) == (None, None)
    else:
        assert low == pytest.approx(point) and high == pytest.approx(point)


@given(st.integers(0, 1000), st.integers(2, 15))
def test_bootstrap_follows_the_seed_and_keeps_its_order(seed, texts):
    counts = np.random.default_rng(seed).integers(0, 3, size=(texts, 3)) + np.array([1, 0, 0])
    first = p.bootstrap_interval(counts, 200, 0.95, seed)
    assert first == p.bootstrap_interval(counts, 200, 0.95, seed)
    low, high = first
    assert 0 <= low <= high <= 1
    narrow_low, narrow_high = p.bootstrap_interval(counts, 200, 0.5, seed)
    assert low <= narrow_low and narrow_high <= high


def test_bootstrap_of_nothing_is_undefined():
    assert p.bootstrap_interval(np.zeros((0, 3), dtype=np.int64), 100, 0.95, 0) == (None, None)


def test_bootstrap_in_chunks_still_takes_every_resample(monkeypatch):
    counts = np.random.default_rng(0).integers(0, 4, size=(50, 3)) + np.array([1, 0, 0])
    whole = p.bootstrap_interval(counts, 2000, 0.95, 7)
    monkeypatch.setattr(p, "INDICES_PER_CHUNK", 333)
    assert p.bootstrap_interval(counts, 2000, 0.95, 7) == pytest.approx(whole, abs=0.02)


def test_macro_f1_is_erasers_token_f1():
    """A key is (annotation, document); ERASER's spans [start, end) become word masks."""
    reference = json.loads(REFERENCE.read_text(encoding="utf-8"))["eraser_rationale"]
    documents = reference["inputs"]["documents"]
    gold: dict[tuple[str, str], np.ndarray] = {}
    chosen: dict[tuple[str, str], np.ndarray] = {}
    for annotation in reference["inputs"]["annotations"]:
        for group in annotation["evidences"]:
            for span in group:
                key = annotation["annotation_id"], span["docid"]
                mask = gold.setdefault(key, np.zeros(len(documents[span["docid"]]), dtype=bool))
                mask[span["start_token"] : span["end_token"]] = True
    for prediction in reference["inputs"]["predictions"]:
        for rationale in prediction["rationales"]:
            key = prediction["annotation_id"], rationale["docid"]
            mask = chosen.setdefault(key, np.zeros(len(documents[rationale["docid"]]), dtype=bool))
            for span in rationale["hard_rationale_predictions"]:
                mask[span["start_token"] : span["end_token"]] = True
    keys = sorted(gold | chosen)
    empty = {key: np.zeros(len(documents[key[1]]), dtype=bool) for key in keys}
    counts = p.rationale_counts([chosen.get(k, empty[k]) for k in keys], [gold.get(k, empty[k]) for k in keys])
    assert p.macro_f1(counts) == pytest.approx(reference["outputs"]["headline"]["token_f1"], abs=1e-12)


@pytest.mark.parametrize(("mean", "k"), [(None, 1), (0.2, 1), (2.4, 2), (2.5, 3), (3.5, 4), (2.6, 3)])
def test_k_is_the_mean_rationale_length_halves_up(mean, k):
    assert p.rationale_k(mean) == k

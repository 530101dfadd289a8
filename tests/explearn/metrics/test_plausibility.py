"""Choosing words and counting agreement: values by hand, from scikit-learn, and from ERASER's own scorer."""

import json
from itertools import compress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT

from explearn import DataError
from explearn.metrics import plausibility as p
from explearn.metrics.importance import important_share

REFERENCE = json.loads((ROOT / "tests" / "reference" / "metrics.json").read_text(encoding="utf-8"))["eraser_rationale"]
OUTPUTS = REFERENCE["outputs"]

scores_lists = st.lists(st.floats(-5, 5, width=32) | st.sampled_from([-1.0, 0.0, 1.0]), min_size=1, max_size=30)


@pytest.mark.parametrize(
    ("scores", "k", "chosen"),
    [
        ([0.1, 0.9, 0.3, 0.8], 2, [1, 3]),
        ([0.5, 0.7, 0.5, 0.5], 2, [0, 1]),  # ties go to the earlier word
        ([-0.1, 0.9, -0.3, 0.0], 3, [1, 3]),  # negative scores are left out
        ([-1.0, 0.5], 3, [0, 1]),  # a shorter text is chosen whole
    ],
)
def test_top_k(scores, k, chosen):
    assert np.flatnonzero(p.select_top_k(scores, k)).tolist() == chosen


@given(scores_lists, st.integers(1, 35))
def test_top_k_never_prefers_a_lower_or_a_later_equal_word(scores, k):
    mask = p.select_top_k(scores, k)
    if len(scores) < k:
        assert mask.all()
        return
    assert mask.sum() == min(k, sum(s >= 0 for s in scores))
    keys = [(-score, place) for place, score in enumerate(scores)]
    chosen = list(compress(keys, mask))
    others = list(compress(keys, ~mask))
    assert not chosen or not others or max(chosen) < min(others)


def test_threshold_includes_its_own_value_and_falls_back_to_the_first_best_word():
    assert p.select_threshold([0.5, 0.49, 0.7], 0.5).tolist() == [True, False, True]
    assert p.select_threshold([0.1, 0.4, 0.4], 0.5).tolist() == [False, True, False]


def test_rules():
    def chosen(rule, scores):
        return np.flatnonzero(p.binarise(scores, rule, k=1, threshold=0.5, positive_rate=0.2)).tolist()

    assert chosen("top_k", [0.1, 0.3]) == [1] and chosen("threshold", [0.6, 0.5, 0.1]) == [0, 1]
    assert chosen("positive_rate", [0.9, 0.7]) == [0] and chosen("positive_rate", [0.1, 0.2]) == []
    # Expected F1 of the first k words: 2 * 0.9 / (1 + 1.5), 2 * 1.4 / (2 + 1.5), 2 * 1.5 / (3 + 1.5).
    assert chosen("expected_f1", [0.1, 0.9, 0.5]) == [1, 2]
    with pytest.raises(ValueError, match="'median'"):
        chosen("median", [1.0])
    with pytest.raises(DataError, match="expected probabilities"):
        chosen("expected_f1", [1.5])


@pytest.mark.parametrize("bad", [[0.0, float("nan")], [0.0, -float("inf")], []])
def test_scores_must_be_finite(bad):
    with pytest.raises(DataError, match=r"word 1 has score|at least one word"):
        p.select_top_k(bad, 1)


def test_agreement_is_pooled_over_words():
    # Text 1: one hit, one false alarm. Text 2: one hit, two misses. TP 2, FP 1, FN 2.
    counts = p.rationale_counts([[1, 1, 0], [1, 0, 0, 0]], [[1, 0, 0], [1, 1, 1, 0]])
    actual = p.pooled_agreement(counts)
    assert (actual.precision, actual.recall, actual.f1) == pytest.approx((2 / 3, 2 / 4, 4 / 7))
    assert p.f1_of_texts(counts) == pytest.approx([2 / 3, 1 / 2])


def test_undefined_agreement_is_none():
    assert p.pooled_agreement(p.rationale_counts([[0, 0]], [[0, 0]])) == p.PooledAgreement(None, None, None)
    assert p.pooled_agreement(p.rationale_counts([[0, 0]], [[0, 1]])) == p.PooledAgreement(None, 0.0, 0.0)


@pytest.mark.parametrize(("mean", "k"), [(None, 1), (2.4, 2), (2.5, 3), (3.5, 4)])
def test_k_is_the_mean_rationale_length_halves_up(mean, k):
    assert p.rationale_k(mean) == k


def test_important_words_by_hand():
    # Scaled to 0, 0.5, 1: above z = 0.1 .. 0.4 lie two of three, from 0.5 on one.
    assert important_share([2, 3, 4]) == pytest.approx((4 * 2 + 5 * 1) / 27)
    assert important_share([1, 1]) == 1


def reference_spans():
    """(annotation, document) -> predicted spans, true spans, scores."""
    true = {}
    predicted = {}
    scores = {}
    for annotation in REFERENCE["inputs"]["annotations"]:
        for group in annotation["evidences"]:
            for span in group:
                key = annotation["annotation_id"], span["docid"]
                true.setdefault(key, []).append((span["start_token"], span["end_token"]))
    for prediction in REFERENCE["inputs"]["predictions"]:
        for rationale in prediction["rationales"]:
            key = prediction["annotation_id"], rationale["docid"]
            spans = rationale["hard_rationale_predictions"]
            predicted[key] = [(span["start_token"], span["end_token"]) for span in spans]
            scores[key] = rationale["soft_rationale_predictions"]
    return predicted, true, scores


PREDICTED, TRUE, SCORES = reference_spans()
KEYS = sorted(PREDICTED | TRUE)


def mask(spans, key):
    words = np.zeros(len(REFERENCE["inputs"]["documents"][key[1]]), dtype=bool)
    for start, end in spans.get(key, []):
        words[start:end] = True
    return words


def iou_f1(keys, threshold=p.IOU_THRESHOLD):
    counts = p.span_counts([PREDICTED.get(k, []) for k in keys], [TRUE.get(k, []) for k in keys], threshold)
    return float(p.iou_f1(counts, np.ones((1, len(keys)), dtype=np.int64))[0])


@pytest.mark.parametrize("expected", OUTPUTS["all_instances"]["iou_scores"], ids=lambda e: str(e["threshold"]))
def test_span_overlap_is_erasers_at_every_threshold(expected):
    assert iou_f1(KEYS, expected["threshold"]) == pytest.approx(expected["macro"]["f1"], rel=1e-9)


@pytest.mark.parametrize("name", OUTPUTS["per_instance"])
def test_every_annotation_is_erasers(name):
    expected = OUTPUTS["per_instance"][name]
    keys = [k for k in KEYS if k[0] == name]
    assert iou_f1(keys) == pytest.approx(expected["iou"][0]["macro"]["f1"], rel=1e-9)
    areas = [p.auprc_of_text(SCORES[k], mask(TRUE, k)) for k in keys]
    assert np.mean(areas) == pytest.approx(expected["soft"]["auprc"], rel=1e-9)


def test_headlines_are_erasers():
    expected = OUTPUTS["headline"]
    counts = p.rationale_counts([mask(PREDICTED, k) for k in KEYS], [mask(TRUE, k) for k in KEYS])
    assert np.nanmean(p.f1_of_texts(counts)) == pytest.approx(expected["token_f1"], rel=1e-9)
    areas = [p.auprc_of_text(SCORES[k], mask(TRUE, k)) for k in SCORES]
    assert np.nanmean(areas) == pytest.approx(expected["auprc"], rel=1e-9)


def test_the_area_of_one_text():
    edge = OUTPUTS["edge_cases"]
    assert p.auprc_of_text([0.1, 0.3], [True, True]) == pytest.approx(edge["auprc_truth_all_positive"])
    two_of_six = p.auprc_of_text([0.5] * 6, [True, True, False, False, False, False])
    assert two_of_six == pytest.approx(edge["auprc_2_of_6_positive_all_scores_equal"])
    # Scores 3, 2, 1 with the first and the last marked: (0, 1), (1/2, 1), (1/2, 1/2), (1, 2/3).
    assert p.auprc_of_text([3, 2, 1], [True, False, True]) == pytest.approx(1 / 2 + (1 / 2 + 2 / 3) / 2 / 2)
    # ERASER's versions disagree here (NaN or 0.5).
    assert np.isnan(p.auprc_of_text([0.1, 0.3], [False, False]))


@pytest.mark.parametrize(
    ("mask", "boundary", "expected"),
    [
        ([0, 1, 1, 0, 1], 5, [(1, 3), (4, 5)]),
        ([1, 1, 1], 2, [(0, 2), (2, 3)]),
        ([1, 1, 0], 2, [(0, 2)]),
    ],
)
def test_runs_of_words_are_spans(mask, boundary, expected):
    assert p.spans_of_mask(np.array(mask, dtype=bool), boundary) == expected

"""ERASER's agreement metrics: the figures of its own scorer, and small cases by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT

from explearn.core.errors import DataError
from explearn.judge import eraser

REFERENCE = json.loads((ROOT / "tests" / "reference" / "metrics.json").read_text(encoding="utf-8"))["eraser_rationale"]
OUTPUTS = REFERENCE["outputs"]

Key = tuple[str, str]


def reference_spans() -> tuple[dict[Key, list[eraser.Span]], dict[Key, list[eraser.Span]], dict[Key, list[float]]]:
    """(annotation, document) -> predicted spans, true spans, scores."""
    true: dict[Key, list[eraser.Span]] = {}
    predicted: dict[Key, list[eraser.Span]] = {}
    scores: dict[Key, list[float]] = {}
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


def spans(keys: list[Key]) -> tuple[list[list[eraser.Span]], list[list[eraser.Span]]]:
    return [PREDICTED.get(k, []) for k in keys], [TRUE.get(k, []) for k in keys]


def marks(key: Key) -> np.ndarray:
    mask = np.zeros(len(SCORES[key]), dtype=bool)
    for start, end in TRUE.get(key, []):
        mask[start:end] = True
    return mask


def same(found: eraser.PrecisionRecallF1, expected: dict[str, float]) -> None:
    assert (found.precision, found.recall, found.f1) == pytest.approx(
        (expected["p"], expected["r"], expected["f1"]), abs=1e-9
    )


@pytest.mark.parametrize("expected", OUTPUTS["all_instances"]["iou_scores"], ids=lambda e: str(e["threshold"]))
def test_span_overlap_is_erasers_at_every_threshold(expected):
    counts = eraser.span_counts(*spans(KEYS), expected["threshold"])
    same(eraser.iou_f1(counts), expected["macro"])
    same(eraser.micro_iou_f1(counts), expected["micro"])


def test_headlines_are_erasers():
    expected = OUTPUTS["headline"]
    assert eraser.iou_f1(eraser.span_counts(*spans(KEYS))).f1 == pytest.approx(expected["iou_f1"], abs=1e-9)
    assert eraser.token_f1(*spans(KEYS)).f1 == pytest.approx(expected["token_f1"], abs=1e-9)
    found = eraser.auprc([SCORES[k] for k in SCORES], [marks(k) for k in SCORES])
    assert found == pytest.approx(expected["auprc"], abs=1e-9)
    same(eraser.token_f1(*spans(KEYS)), OUTPUTS["all_instances"]["token_prf"]["instance_macro"])


@pytest.mark.parametrize("name", OUTPUTS["per_instance"])
def test_every_annotation_is_erasers(name):
    expected, keys = OUTPUTS["per_instance"][name], [k for k in KEYS if k[0] == name]
    counts = eraser.span_counts(*spans(keys))
    same(eraser.iou_f1(counts), expected["iou"][0]["macro"])
    if "error" not in expected["token_prf"]:
        same(eraser.token_f1(*spans(keys)), expected["token_prf"]["instance_macro"])
    found = eraser.auprc([SCORES[k] for k in keys], [marks(k) for k in keys])
    assert found == pytest.approx(expected["soft"]["auprc"], abs=1e-9)


def test_edge_cases_are_erasers():
    edge = OUTPUTS["edge_cases"]
    assert eraser.auprc_of_text([0.1, 0.3], [True, True]) == pytest.approx(edge["auprc_truth_all_positive"])
    two_of_six = eraser.auprc_of_text([0.5] * 6, [True, True, False, False, False, False])
    assert two_of_six == pytest.approx(edge["auprc_2_of_6_positive_all_scores_equal"])
    # Its versions disagree here (NaN or 0.5).
    assert eraser.auprc_of_text([0.1, 0.3], [False, False]) is None
    assert eraser.auprc([], []) is None


def test_area_joins_points_by_straight_lines():
    # Scores 3, 2, 1 with the first and the last marked: (0, 1), (1/2, 1), (1/2, 1/2), (1, 2/3).
    assert eraser.auprc_of_text([3, 2, 1], [True, False, True]) == pytest.approx(1 / 2 + (1 / 2 + 2 / 3) / 2 / 2)


@pytest.mark.parametrize(
    ("mask", "boundary", "expected"),
    [
        ([0, 1, 1, 0, 1], None, [(1, 3), (4, 5)]),
        ([1, 1, 1], 2, [(0, 2), (2, 3)]),
        ([1, 1, 0], 2, [(0, 2)]),
        ([0, 0], None, []),
        ([], None, []),
    ],
)
def test_runs_of_words_are_spans(mask, boundary, expected):
    assert eraser.spans_of_mask(mask, boundary) == expected


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(0, 30))
def test_spans_hold_the_chosen_words_and_no_others(mask, boundary):
    found = eraser.spans_of_mask(mask, boundary)
    assert sorted(word for a, b in found for word in range(a, b)) == [i for i, chosen in enumerate(mask) if chosen]
    assert not any(a < boundary < b for a, b in found)


def test_bad_input_is_named():
    for predicted, true, message in (
        ([[(0, 1)]], [], "1 texts with predicted spans and 0"),
        ([[(2, 2)]], [[]], r"text 0: span \[2, 2\)"),
        ([[]], [[(-1, 2)]], r"text 0: span \[-1, 2\)"),
    ):
        with pytest.raises(DataError, match=message):
            eraser.span_counts(predicted, true)
    with pytest.raises(DataError, match="2 scores and a mask of 1"):
        eraser.auprc_of_text([0.1, 0.2], [True])
    with pytest.raises(DataError, match="word 0 has score nan"):
        eraser.auprc_of_text([float("nan")], [True])
    with pytest.raises(DataError, match="1 texts with scores and 0"):
        eraser.auprc([[0.1]], [])

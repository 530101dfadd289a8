import pytest

from explearn import Example, Rationale
from explearn.text.agreement import agreement_metrics, krippendorff_alpha, mean_pairwise_f1


def mask(text):
    return tuple(m == "1" for m in text)


class TestAlpha:
    def test_by_hand(self):
        # Four words, one disagreement. Eight ratings, 3 marked and 5 not: observed 2/8, expected 2*3*5/(8*7) = 30/56,
        # alpha = 1 - (1/4) / (30/56) = 16/30. A text of one annotator says nothing.
        assert krippendorff_alpha([[mask("1100"), mask("1000")], [mask("1111")]]) == pytest.approx(16 / 30)
        # Two words, 110 and 000 by three annotators. Six ratings, 2 marked and 4 not. Ordered pairs that differ:
        # 2*1*2 / (3-1) = 2 of 6; expected 2*2*4/(6*5) = 16/30; alpha = 1 - (2/6) / (16/30) = 6/16.
        assert krippendorff_alpha([[mask("10"), mask("10"), mask("00")]]) == pytest.approx(6 / 16)

    @pytest.mark.parametrize("texts", [[], [[mask("10")]], [[mask("00"), mask("00")]], [[mask("11"), mask("11")]]])
    def test_undefined_without_units_or_without_variety(self, texts):
        assert krippendorff_alpha(texts) is None


class TestPairwiseF1:
    def test_mean_over_pairs_by_hand(self):
        # a-b: 2*1/(2+1) = 2/3; a-c: 0; b-c: 0.
        assert mean_pairwise_f1([[mask("110"), mask("100"), mask("001")]]) == pytest.approx(2 / 9)

    def test_pairs_that_mark_nothing_are_left_out(self):
        assert mean_pairwise_f1([[mask("00"), mask("00")], [mask("10"), mask("10")]]) == 1.0
        assert mean_pairwise_f1([[mask("00"), mask("00")]]) is None


EXAMPLES = [
    Example("t1", ("a", "b", "c", "d"), "x", "train", "task"),
    Example("t2", ("a", "b", "c"), "y", "train", "task"),
    Example("t3", ("a", "b"), "y", "test", "task"),
    Example("t4", ("a", "b"), "y", "test", "task"),
]
RATIONALES = [
    Rationale("t1", "ana", "human", mask("1100")),
    Rationale("t1", "model", "llm", mask("1000")),
    Rationale("t2", "ana", "human", mask("001")),
    Rationale("t3", "ana", "human", mask("11")),
]


class TestMetrics:
    def test_figures_by_hand(self):
        metrics = agreement_metrics(RATIONALES, EXAMPLES, "train")
        # Merged at one half: t1 1100, t2 001, t3 11.
        assert metrics["mean_length"] == 1.5
        assert metrics["mean_length_by_split"] == {"train": 1.5, "validation": None, "test": 2.0}
        assert metrics["positive_rate"] == pytest.approx(3 / 7)
        assert metrics["positive_rate_by_split"] == {
            "train": pytest.approx(3 / 7),
            "validation": None,
            "test": 1.0,
        }
        assert metrics["texts"] == {"train": 2, "validation": 0, "test": 1}
        assert metrics["alpha"] == pytest.approx(16 / 30)
        assert metrics["alpha_texts"] == 1
        assert metrics["pairwise_f1"] == pytest.approx(2 / 3)
        assert metrics["alpha_by_pair"] == {
            "ana and model": {"alpha": pytest.approx(16 / 30), "pairwise_f1": pytest.approx(2 / 3), "texts": 1}
        }
        assert metrics["rationales"] == 4
        assert metrics["annotators"] == 2
        assert metrics["kinds"] == {"human": 3, "llm": 1}
        assert metrics["marked_by"] == {"human": ["ana"], "llm": ["model"]}

    def test_texts_without_a_marked_word_make_neither_k_nor_rate_smaller(self):
        nothing = [
            Rationale("t4", "ana", "human", mask("00")),
            # Merged at one half of three annotators, no word of t2 is marked: each has one vote.
            *(Rationale("t2", name, "human", mask(m)) for name, m in (("b", "100"), ("c", "010"))),
        ]
        metrics = agreement_metrics([*RATIONALES, *nothing], EXAMPLES, "train")
        # Left are t1 1100 and t3 11.
        assert metrics["mean_length"] == 2.0
        assert metrics["mean_length_by_split"] == {"train": 2.0, "validation": None, "test": 2.0}
        assert metrics["positive_rate"] == 0.5
        assert metrics["positive_rate_by_split"] == {"train": 0.5, "validation": None, "test": 1.0}
        assert metrics["texts"] == {"train": 2, "validation": 0, "test": 2}

    def test_without_any_marked_word_there_is_no_k(self):
        metrics = agreement_metrics([Rationale("t1", "ana", "human", mask("0000"))], EXAMPLES, "train")
        assert (metrics["mean_length"], metrics["positive_rate"]) == (None, None)
        assert metrics["texts"] == {"train": 1, "validation": 0, "test": 0}

import math
from itertools import chain

import numpy as np
import pytest
from fakes import MASK, FakeClassifier, encode
from scipy.stats import wilcoxon

from explearn.predictors.answers import Answers
from explearn_study.distil import ChosenWords, ExplainedTexts, SideScores, choose, judge, summarise


def scores(*values):
    return np.array(values)


def marks(*values):
    return np.array(values, dtype=np.int8)


class TestChoice:
    def test_ranking_takes_the_top_share_of_either(self):
        """30 % of five words are two, halves rounded up."""
        a, b, chance = choose(SideScores([scores(1, 5, 2, 4, 3)]), SideScores([scores(9, 1, 2, 3, 8)]), 30, 0)
        assert (a[0].positive, b[0].positive) == ([1, 3], [0, 4])
        assert a[0].levels.tolist() == [0, 1, 0, 1, 0]
        assert a[0].negative == b[0].negative == []
        assert len(chance[0].positive) == 2

    def test_labelling_takes_as_many_words_of_both(self):
        """The teacher has three positive words and one negative, the student two and two: two and one are compared."""
        teacher = SideScores([scores(3, 1, 2, -1, 0)], [marks(2, 1, 1, -2, 0)])
        student = SideScores([scores(0.5, 1.9, -0.1, -1.5, 0)], [marks(1, 2, -1, -2, 0)])
        a, b, chance = choose(teacher, student, 30, 0)
        assert (a[0].positive, a[0].negative) == ([0, 2], [3])
        assert (b[0].positive, b[0].negative) == ([1, 0], [3])
        assert sorted(np.sign(chance[0].levels).tolist()) == [-1, 0, 0, 1, 1]
        assert len(chance[0].positive) == 2 and len(chance[0].negative) == 1
        assert not set(chance[0].positive) & set(chance[0].negative)


def by_words(**weights):
    """p(yes) = sigmoid(sum of the weights of the words present)."""
    ids = {encode([word]).input_ids[1]: weight for word, weight in weights.items()}

    def probability(encoding):
        logit = sum(ids.get(i, 0.0) for i in encoding.input_ids)
        return np.array([1 / (1 + math.exp(logit)), 1 / (1 + math.exp(-logit))])

    return FakeClassifier(probability)


class TestJudge:
    def test_by_hand(self):
        """`good` is worth 2, `bad` -1, `film` 0.5: the class is yes. The teacher takes `good`, the student `bad`."""
        classifier = by_words(good=2.0, bad=-1.0, film=0.5)
        texts = [encode(["good", "bad", "film"]), encode(["good", "film", "film"])]
        teacher = [ChosenWords([0], [1], marks(2, -2, 0)), ChosenWords([0], [], marks(2, 0, 0))]
        student = [ChosenWords([1], [0], marks(-2, 2, 0)), ChosenWords([0], [], marks(2, 0, 0))]
        order = {
            "teacher": [scores(3, 1, 2), scores(3, 1, 2)],
            "student": [scores(1, 3, 2), scores(3, 1, 2)],
            "random": [scores(1, 2, 3), scores(1, 2, 3)],
        }
        near = np.array([[1], [0]])
        gold = [np.array([True, False, False]), None]
        compared = ExplainedTexts([], texts, [], gold, {"lexical": near, "semantic": near}, k=2)
        actual = judge((teacher, student, student), order, compared, Answers(classifier))
        assert actual["agreement"]["teacher"].tolist() == [1, 1]
        assert actual["agreement"]["student"].tolist() == [0, 1]
        assert actual["agreement"]["both"].tolist() == [0, 1]
        # Masking `good` takes 2 from the log-odds, masking `bad` gives 1.
        assert actual["delta_log_odds_positive"]["teacher"] == pytest.approx([2, 2])
        assert actual["delta_log_odds_positive"]["student"] == pytest.approx([-1, 2])
        assert actual["delta_log_odds_negative"]["teacher"][0] == pytest.approx(-1)
        assert np.isnan(actual["delta_log_odds_negative"]["teacher"][1])
        # {(good, 2), (bad, -2)} and {(good, 2)}; then {(good, -2), (bad, 2)} and {(good, 2)}.
        assert actual["stability_lexical"]["teacher"] == pytest.approx([0.5, 0.5])
        assert actual["stability_lexical"]["student"] == pytest.approx([0, 0])
        # Two best words against one marked.
        assert actual["precision"]["teacher"][0] == 0.5 and actual["recall"]["teacher"][0] == 1
        assert actual["f1"]["teacher"][0] == pytest.approx(2 / 3) and actual["f1"]["student"][0] == 0
        assert np.isnan(actual["f1"]["teacher"][1])
        assert any(MASK in encoding.input_ids for encoding in chain(*classifier.calls))


class TestSummary:
    def test_means_errors_and_test(self):
        teacher = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
        first = teacher + np.array([1, 2, 3, 4, 5, 6])
        second = teacher + np.array([3, 2, 1, 0, 1, 2])
        seeds = [{"f1": {"teacher": teacher, "student": s, "random": teacher}} for s in (first, second)]
        actual = summarise(seeds)["f1"]
        mean = (first + second) / 2
        assert actual["teacher"] == 2.5
        assert actual["student"] == pytest.approx(mean.mean())
        assert actual["student_error"] == pytest.approx(mean.std(ddof=1) / math.sqrt(6))
        assert actual["seeds_error"] == pytest.approx(np.std([first.mean(), second.mean()], ddof=1) / math.sqrt(2))
        assert actual["p_value"] == pytest.approx(wilcoxon(mean - teacher).pvalue)
        assert actual["texts"] == 6

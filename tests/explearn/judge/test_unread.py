"""Words that the classifier does not read have no score; metrics never choose them and rank them last."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fakes import FakeClassifier, attribution, encode, random_probability

from explearn.core.errors import DataError
from explearn.core.records import Example
from explearn.judge.evaluate import evaluate_task
from explearn.judge.faithfulness import faithfulness
from explearn.judge.params import EvaluateParams
from explearn.show.report_html import _scaled

WORDS = ("a", "b", "c", "d")
SCORES = [0.5, -1.0, np.nan, np.nan]


class Short(FakeClassifier):
    """Reads two words of a text."""

    def encode(self, examples):
        found = [encode(example.all_words) for example in examples]
        return [replace(e, input_ids=(*e.input_ids[:3], e.input_ids[-1]), word_ids=(-1, 0, 1, -1)) for e in found]


def judged(scores, k):
    example = Example("a", WORDS, "yes", "test", "t")
    return evaluate_task(
        "t",
        {"m": [attribution(WORDS, scores, unaligned=2)]},
        {"m": {"forward_passes": 1, "backward_passes": 0}},
        {"a": example},
        {"a": [True, False, False, True]},
        k,
        0.5,
        Short(random_probability),
        EvaluateParams(bootstrap_samples=100),
        0,
        {"m": "top_k"},
        {},
    ).metrics["m"]


def test_they_are_never_chosen() -> None:
    # Five of four words: the text is chosen whole, except what was not read. TP a, FP b, FN d.
    found = judged(SCORES, 5)
    assert (found["precision"], found["recall"]) == (0.5, 0.5)
    assert found["f1_topk"] == pytest.approx(0.5)
    assert found["unaligned_words"] == 2


def test_they_are_ranked_last_and_alike() -> None:
    # Marked a and d, unmarked b and c: a > b, a > c, d < b, d = c.
    assert judged(SCORES, 1)["auroc"] == pytest.approx((1 + 1 + 0 + 0.5) / 4)


def test_a_word_that_is_read_must_have_a_score() -> None:
    classifier = Short(random_probability)
    (encoding,) = classifier.encode([Example("a", WORDS, "yes", "test", "t")])
    with pytest.raises(DataError, match="word 1 has score nan; expected a number, for the classifier reads it"):
        faithfulness(
            classifier, {"a": encoding}, {"m": [attribution(WORDS, [0.5, np.nan, np.nan, np.nan])]}, EvaluateParams()
        )


def test_the_report_leaves_them_unpainted() -> None:
    assert _scaled(np.array(SCORES, np.float32)) == [50, -99, None, None]

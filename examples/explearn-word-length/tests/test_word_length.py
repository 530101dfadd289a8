from __future__ import annotations

from explearn_word_length import WordLength

from explearn.testing import check_explainer, make_classifier


def test_it_is_a_method_like_any_other() -> None:
    check_explainer(WordLength)


def test_scores_are_lengths() -> None:
    (found,) = WordLength().explain(make_classifier(), ["a lazy fox"])
    assert found.scores.tolist() == [1, 4, 3]

"""Stability: L2E's levels, neighbours and overlap, by hand."""

import numpy as np
import pytest

from explearn.metrics import stability as s


def test_levels_cut_at_the_mean_of_each_sign():
    # Positive mean (1 + 2 + 6) / 3 = 3, negative mean -(1 + 3) / 2 = -2.
    assert s.levels([1, 2, 6, 0, -1, -3], signed=True).tolist() == [1, 1, 2, 0, -1, -2]


def test_of_unsigned_scores_only_the_high_positive_words_are_kept():
    assert s.levels([1, 2, 6, 0, -1, -3], signed=False).tolist() == [0, 0, 2, 0, 0, 0]


@pytest.mark.parametrize("value", [0.1, 1.0, 1e30])
def test_equal_scores_are_all_high_whatever_their_mean_is_rounded_to(value):
    assert s.levels([value] * 3 + [0.0], signed=False).tolist() == [2, 2, 2, 0]


@pytest.mark.parametrize(
    ("word", "expected"),
    [("Film,", "film"), ("(don't)", "don't"), ("...", "..."), ("«Straße»", "strasse")],
)
def test_words_are_compared_without_case_and_punctuation_around_them(word, expected):
    assert s.normalise(word) == expected


def test_wording_is_near_by_shares_of_n_grams():
    texts = [["the", "film", "was", "fine"], ["The", "film,", "was", "dull"], ["other"]]
    # 1-grams 3 of 5, 2-grams 2 of 4, 3-grams 1 of 3, 4-grams 0 of 2.
    actual = s.lexical_similarity(texts)
    assert actual[0, 1] == actual[1, 0] == pytest.approx(3 / 5 + 2 / 4 + 1 / 3)
    assert actual[0, 0] == pytest.approx(4) and actual[2, 2] == pytest.approx(1) and actual[0, 2] == 0


def test_meaning_is_near_by_the_cosine():
    assert s.semantic_similarity([[1, 0], [2, 2], [0, 0]]) == pytest.approx(
        np.array([[1, 0.5**0.5, 0], [0.5**0.5, 1, 0], [0, 0, 0]])
    )


def test_neighbours_are_the_most_similar_others_the_first_of_equals_first():
    similarity = [[9, 1, 5, 5], [1, 9, 2, 3], [5, 2, 9, 0], [5, 3, 0, 9]]
    assert s.nearest(similarity, 2).tolist() == [[2, 3], [3, 2], [0, 1], [0, 1]]
    assert s.nearest(similarity, 7).shape == (4, 3)
    assert s.nearest([[1.0]], 3).shape == (1, 0)


def test_overlap_by_hand():
    texts = [["A", "fine", "film"], ["a", "fine,", "day"], ["dull", "day", "a"]]
    levels = [[1, 2, 0], [1, 1, -1], [0, -1, 2]]
    # {a1, fine2}, {a1, fine1, day-1}, {day-1, a2}: 0 and 1 share 1 of 4, 0 and 2 none of 4, 1 and 2 share 1 of 4.
    neighbours = np.array([[1, 2], [0, 2], [0, 1]])
    assert s.stability(levels, texts, neighbours) == pytest.approx([1 / 8, 1 / 4, 1 / 8])
    # Without "a", a stop word: {fine2}, {fine1, day-1}, {day-1}.
    assert s.stability(levels, texts, neighbours, content_words=True) == pytest.approx([0, 1 / 4, 1 / 4])


def test_pairs_without_any_chosen_word_are_left_out():
    texts = [["one"], ["one"], ["two"]]
    neighbours = np.array([[1, 2], [0, 2], [0, 1]])
    actual = s.stability([[0], [0], [1]], texts, neighbours)
    assert actual == pytest.approx([0, 0, 0])
    assert np.isnan(s.stability([[0], [0], [0]], texts, neighbours)).all()
    assert np.isnan(s.stability([[1]], [["one"]], s.nearest([[1.0]], 3))).all()

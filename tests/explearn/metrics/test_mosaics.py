"""Mosaics: whose words they are made of, and how much of an explanation stays with them."""

from collections import Counter

import numpy as np
import pytest

import explearn
from explearn import Example
from explearn.metrics.mosaics import make_mosaics, mosaic_shares, own_share


class Shout(explearn.FunctionPredictor):
    """Answers yes by the share of words in capitals, and reads at most 46 words."""

    max_length = 46


def share(texts):
    loud = [np.mean(list(map(str.isupper, text.split())) or [0.5]) for text in texts]
    return np.column_stack([np.subtract(1, loud), loud])


CLASSIFIER = Shout(share, ["no", "yes"], name="shout")
WORDS = ["fox", "quick", "lazy", "dog", "refund", "guide"]
TEXTS = [
    Example(
        word + label,
        tuple(f"{word} the morning".upper().split() if label == "yes" else (word, "the", "morning")),
        label,
        "test",
        "t",
    )
    for word in WORDS
    for label in ("no", "yes")
]


def test_a_share_counts_positive_scores_only_and_is_that_of_the_words_without_any():
    own = np.array([True, True, False])
    assert own_share([2, -5, 1], own) == pytest.approx(2 / 3)
    assert own_share([-1, 0, -2], own) == pytest.approx(2 / 3)
    assert own_share([-1, 0, 2], own) == 0


def test_a_mosaic_joins_two_texts_of_the_class_explained_with_two_of_another():
    by_word = {text.words[0]: text.label for text in TEXTS}
    mosaics = make_mosaics(CLASSIFIER, TEXTS, count=6)
    assert [mosaic.label for mosaic in mosaics.examples] == ["no", "yes"] * 3
    for mosaic, own in zip(mosaics.examples, mosaics.own, strict=True):
        labels = [by_word[word] for word in mosaic.words[::3]]
        assert Counter(labels) == {"no": 2, "yes": 2} and len(set(mosaic.words[::3])) == 4
        assert own[::3].tolist() == [label == mosaic.label for label in labels]
    assert mosaics.chance == 0.5
    again = make_mosaics(CLASSIFIER, TEXTS, count=6)
    assert [mosaic.words for mosaic in again.examples] == [mosaic.words for mosaic in mosaics.examples]
    assert make_mosaics(CLASSIFIER, TEXTS, 6, seed=1).examples[0].words != mosaics.examples[0].words


def test_texts_that_are_too_long_pairs_or_answered_wrongly_are_left_out():
    no, yes = TEXTS[::2], TEXTS[1::2]
    texts = [*no, *yes[:2]]
    # 15 words, four of them do not fit into 46 sub-tokens.
    long = Example("long", tuple(["fox"] * 15), "", "test", "t")
    pair = Example("pair", ("fox",), "", "test", "t", ("dog",))
    wrong = Example("wrong", ("fox", "the", "morning"), "other", "test", "t")
    for mosaic in make_mosaics(CLASSIFIER, [*texts, long, pair, wrong], count=20).examples:
        assert len(mosaic.words) == 12
    assert make_mosaics(CLASSIFIER, [*no, yes[0]]).examples == []
    assert make_mosaics(CLASSIFIER, [*no, yes[0]]).chance is None


def test_the_class_is_the_one_that_is_explained():
    """Without a word in capitals fewer are, and the other way round: occlusion gives all to the class's own words."""
    mosaics = make_mosaics(CLASSIFIER, TEXTS, count=8)
    shares = mosaic_shares(explearn.get_explainer("occlusion", removal="delete"), CLASSIFIER, mosaics)
    np.testing.assert_allclose(shares, 1)
    shares = mosaic_shares(explearn.get_explainer("random"), CLASSIFIER, mosaics)
    assert shares.shape == (8,) and 0.2 < shares.mean() < 0.8

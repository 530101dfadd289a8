"""What two words add together."""

import re
from dataclasses import replace

import pytest

import explearn
from explearn import DataError, ParamsError, UnsupportedError


def answers(texts):
    """p = .1 + .4 not good + .2 film + .1 not good film: a sum of products of words that are there."""
    rows = []
    for text in texts:
        a, b, c = (float(word in text.split()) for word in ("not", "good", "film"))
        p = 0.1 + 0.4 * a * b + 0.2 * c + 0.1 * a * b * c
        rows.append([1 - p, p])
    return rows


OF = explearn.FunctionPredictor(answers, ["neg", "pos"])


OF_PAIRS = explearn.FunctionPredictor(lambda pairs: answers([" ".join(pair) for pair in pairs]), ["neg", "pos"])


def explained(text):
    return explearn.explain(OF, text, "occlusion", "pos")


def test_products_of_two_words_are_theirs_and_of_three_are_shared():
    # A product of three words counts half for each of its pairs: the mean over whether the third is there.
    text = "a film so not good"
    pairs = explearn.interactions(OF, text, explained(text))
    values = {pair.words: pair.value for pair in pairs}
    assert pairs[0].words == ("not", "good") and pairs[0].positions == (3, 4)
    assert values[("not", "good")] == pytest.approx(0.4 + 0.05, abs=1e-6)
    assert values[("film", "not")] == values[("film", "good")] == pytest.approx(0.05, abs=1e-6)
    assert values[("a", "so")] == pytest.approx(0, abs=1e-6) and len(pairs) == 10


def test_words_that_are_no_players_are_kept():
    text = "film not good"
    (pair,) = explearn.interactions(OF, text, explained(text), top=2)
    assert pair.words == ("not", "good") and pair.value == pytest.approx(0.5, abs=1e-6)


def test_units_stand_in_the_place_of_words():
    text = "not quite good film"
    unit = re.compile(r"not \w+|\w+")
    attribution = explearn.explain(OF, text, "occlusion", "pos", unit=unit)
    (pair, *_) = explearn.interactions(OF, text, attribution)
    assert attribution.words == ("not quite", "good", "film")
    assert pair.words == ("not quite", "good")


def test_pairs_stay_with_an_attribution_and_are_shown():
    text = "so <b> film not good"
    shown = replace(explained(text), interactions=tuple(explearn.interactions(OF, text, explained(text))))
    page = shown.to_html()
    assert isinstance(page, str) and page.count("<path") == 5 and "<b>occlusion" in page and "<b> film" not in page
    assert "Together: ‘not’ with ‘good’ +0.450" in page and "‘not’ with ‘good’ +0.450" in str(shown)


def test_refusals():
    with pytest.raises(DataError, match="fewer than two words"):
        explearn.interactions(OF, "good", explained("good"))
    with pytest.raises(DataError, match="of another text"):
        explearn.interactions(OF, "good film", explained("good"))
    with pytest.raises(UnsupportedError, match="need single texts, where words are not the units; got a pair"):
        pair = ("not good", "film")
        attribution = explearn.explain(OF_PAIRS, pair, "occlusion", "pos", unit="phrase")
        explearn.interactions(OF_PAIRS, pair, attribution)
    windowed = replace(explained("a film so not good"), windows=2)
    with pytest.raises(UnsupportedError, match="read window by window"):
        explearn.interactions(OF, "a film so not good", windowed)
    with pytest.raises(ParamsError, match="top: got 1; expected"):
        explearn.interactions(OF, "not good", explained("not good"), top=1)

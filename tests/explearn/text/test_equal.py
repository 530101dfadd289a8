"""Which texts are equal, and which are not."""

from itertools import combinations
from random import Random

import pytest

from explearn.core.examples import Example
from explearn.text.equal import NEARLY, nearly_equal, split_texts, text_hash


def text(words, pair="", name="1"):
    return Example(name, tuple(words.split()), "", "test", "films", tuple(pair.split()))


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        ("a warm film", "A warm film .", True),
        ("“Don’t” go!", "don't GO", True),
        ("caf\u00e9 bar", "cafe\u0301 bar", True),
        ("a warm film", "a film", False),
        ("a warm film", "a film warm", False),
        ("fine \U0001f600", "fine \U0001f620", False),
        ("?!", "...", False),
    ],
)
def test_case_and_punctuation_make_no_difference(first, second, equal):
    assert (text_hash(text(first)) == text_hash(text(second))) is equal


def test_the_segments_of_a_pair_are_told_apart():
    assert text_hash(text("a b", "c")) == text_hash(text("A b.", "C?"))
    assert len({text_hash(text("a b", "c")), text_hash(text("a", "b c")), text_hash(text("a b c"))}) == 3


def test_equal_texts_get_the_side_of_the_first(caplog):
    texts = {name: text(words) for name, words in {"1": "a film", "2": "a book", "3": "A film!", "4": "a play"}.items()}
    asked = []

    def draw(different):
        asked.extend(different)
        return {name: int(name) for name in different}

    assert split_texts(texts, draw) == {"1": 1, "2": 2, "3": 1, "4": 4}
    assert asked == ["1", "2", "4"]
    assert "1 of 4 texts repeat another one" in caplog.text
    caplog.clear()
    split_texts({"1": texts["1"], "2": texts["2"]}, draw)
    assert not caplog.text


def test_nearly_equal_texts_are_those_that_share_four_fifths_of_their_words():
    draw = Random(1)
    texts = {str(number): frozenset(draw.choices("abcdefgh", k=draw.randint(3, 8))) for number in range(60)}
    stands_for = nearly_equal(texts)
    assert 5 < len(set(stands_for.values())) < len(texts)
    for first, second in combinations(texts, 2):
        shared = len(texts[first] & texts[second]) / len(texts[first] | texts[second])
        if shared >= NEARLY:
            assert stands_for[first] == stands_for[second]
    for name, other in stands_for.items():
        assert stands_for[other] == other
        assert name == other or any(
            len(texts[name] & texts[third]) >= NEARLY * len(texts[name] | texts[third])
            for third in texts
            if third != name
        )

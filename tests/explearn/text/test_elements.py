"""Each kind of element: where a text has it, what is taken out and put in, and how it is planted."""

from random import Random

import numpy as np
import pytest

from explearn import Example, ParamsError
from explearn.core.words import Segment
from explearn.text.elements import (
    AS_IT_IS,
    Length,
    Order,
    Pattern,
    Phrase,
    Place,
    Punctuation,
    Together,
    Word,
    WordClass,
    parse_element,
)
from explearn.text.scored import ScoredText, Vocabulary

# "good" and "slow" score highest on average, "the" least.
VOCABULARY = Vocabulary(frozenset({"the", "a"}), 5, {"good": 0.5, "slow": 0.4, "film": 0.2, "very": -0.3, "the": 0.0})


SIX = "one two three four five six"
WORDS = ("one", "two,", "three", "four", "five")


def text(first, second=None):
    pair = ()
    if second is not None:
        pair = Segment.of(second).words
    return ScoredText(Example("t", Segment.of(first).words, "yes", "test", "films", pair))


def found(element, some_text):
    return [some_text.words[number] for number in element.find(some_text, VOCABULARY)]


@pytest.mark.parametrize(
    ("element", "name", "having", "words", "lacking"),
    [
        (Word("good"), "‘good’", "Good film, very good!", ["Good", "good!"], "a goodish film"),
        (Phrase(("very", "good")), "‘very good’", "a very good film", ["very", "good"], "very very slow"),
        (Order("film", "good"), "‘film’ before ‘good’", "film so good film", ["film", "good"], "good film"),
        (Together("film", "good"), "‘film’ together with ‘good’", "good film, film", ["good", "film,", "film"], "film"),
        (Place("good", "start"), "‘good’ at the start", "Good so far it goes", ["Good"], "good one, good two, good"),
        (Place("good", "end"), "‘good’ at the end", "so far it is good", ["good"], "so far good it is"),
        (WordClass("numbers"), "numbers", "4 films and 5th", ["4", "5th"], "four films"),
        (WordClass("negations"), "negations", "not good, don't", ["not", "don't"], "good"),
        (WordClass("names"), "names", "I met Ann. She saw Bob", ["Ann.", "Bob"], "Ann. She left"),
        (WordClass("function words"), "function words", "The film, a film", ["The", "a"], "one film"),
        (Pattern("[0-9]+ films?"), "the pattern ‘[0-9]+ films?’", "in 12 films so", ["12", "films"], "films 12"),
        (Punctuation("!"), "the mark ‘!’", "good! very! slow", ["good!", "very!"], "good?"),
        (Length("long"), "long texts", SIX, SIX.split(), "one two"),
        (Length("short"), "short texts", "one two", ["one", "two"], "one two three four five six"),
    ],
    ids=str,
)
def test_a_text_has_an_element_or_lacks_it(element, name, having, words, lacking):
    assert str(element) == name
    assert parse_element(name) == element
    assert found(element, text(having)) == words
    assert found(element, text(lacking)) == []
    assert not element.lacks(text(having), VOCABULARY)


def test_what_is_put_in_meets_none_of_its_words_but_an_order_meets_one():
    film = text("a slow film")
    assert Word("good").lacks(film, VOCABULARY)
    assert not Phrase(("slow", "walk")).lacks(film, VOCABULARY)
    assert not Together("film", "good").lacks(film, VOCABULARY)
    assert Order("film", "good").lacks(film, VOCABULARY)
    assert not Order("film", "slow").lacks(film, VOCABULARY)


@pytest.mark.parametrize(
    ("element", "having", "rest"),
    [
        (Word("good"), "a good film, good", "a film,"),
        (Phrase(("very", "good")), "a very good film", "a good film"),
        (Order("film", "good"), "a film so good", "a good so film"),
        (Place("good", "end"), "so far it is good", "good so far it is"),
        (Place("good", "start"), "good so far it is", "so far it is good"),
        (WordClass("negations"), "not a film", "a film"),
        (Pattern("[0-9]+"), "in 12 films", "in films"),
        (Punctuation("!"), "good! ! film", "good film"),
        # The half of the words that score least, taken out or put in a second time.
        (Length("long"), "the very good old slow film", "very good slow"),
        (Length("short"), "the good film", "the good film the film"),
    ],
    ids=str,
)
def test_taking_out_leaves_the_text_without_what_the_claim_is_about(element, having, rest):
    assert element.without(text(having), VOCABULARY) == rest
    assert element.take_out(text(having), VOCABULARY) == [(1, AS_IT_IS), (-1, rest)]


@pytest.mark.parametrize(
    ("element", "having", "rest"),
    [
        (Phrase(("very", "good")), "a very good film", "a film"),
        (Order("film", "good"), "a film so good", "a so"),
        (Together("film", "good"), "a good film", "a"),
        (Place("good", "end"), "so far it is good", "so far it is"),
        (Punctuation("!"), "good! film", "good film"),
        (Length("long"), "the very good old slow film", "very good slow"),
    ],
    ids=str,
)
def test_removing_leaves_nothing_of_it(element, having, rest):
    assert element.remove(text(having), VOCABULARY) == rest
    assert not element.find(text(rest), VOCABULARY)


@pytest.mark.parametrize(
    ("name", "element"),
    [
        ("Good", Word("good")),
        ("don't,", Word("don't")),
        ("‘numbers’", Word("numbers")),
        ("very good", Phrase(("very", "good"))),
        ("*", Punctuation("*")),
    ],
)
def test_a_name_without_quotes_is_a_word_words_or_a_mark(name, element):
    assert parse_element(name) == element


def test_a_name_of_nothing_is_refused():
    with pytest.raises(ParamsError, match="names nothing"):
        parse_element(" ")


def test_taking_two_words_together_out_is_their_interaction():
    versions = Together("film", "good").take_out(text("a good film"), VOCABULARY)
    assert versions == [(1, AS_IT_IS), (-1, "a good"), (-1, "a film"), (1, "a")]


def test_a_segment_without_a_word_cannot_be_asked():
    assert Word("good").without(text("good", "a film"), VOCABULARY) is None
    assert Word("film").without(text("good", "a film"), VOCABULARY) == ("good", "a")


@pytest.mark.parametrize(
    ("element", "receiver", "donor", "versions"),
    [
        # At the donor's share of the text: word 2 of 4 becomes word 1 of 2.
        (Word("good"), "one two", "a very Good, film", [(1, "one Good two"), (-1, AS_IT_IS)]),
        (WordClass("numbers"), "one two", "4 films, 5 films", [(1, "4 one two"), (-1, AS_IT_IS)]),
        (Pattern("[0-9]+ films"), "one two", "see 12 films, or 5 films", [(1, "12 films one two"), (-1, AS_IT_IS)]),
        (Punctuation("!"), "one two", "so good!", [(1, "one two!"), (-1, AS_IT_IS)]),
        (Phrase(("very", "good")), "one two", "very good film", [(1, "very good one two"), (-1, "good one two")]),
        (
            Together("film", "good"),
            "one two",
            "film so good",
            [(1, "film good one two"), (-1, "film one two"), (-1, "good one two"), (1, AS_IT_IS)],
        ),
        (Order("film", "good"), "one two", "film so good", [(1, "film good one two"), (-1, "good film one two")]),
        (Order("film", "good"), "one film two", "film so good", [(1, "one film good two"), (-1, "one good film two")]),
        (Order("film", "good"), "one good two", "film so good", [(1, "one film good two"), (-1, "one good film two")]),
        (Place("good", "start"), "one two", "good one it is so", [(1, "good one two"), (-1, "one two good")]),
        (Place("good", "end"), "one two", "so it is one good", [(1, "one two good"), (-1, "good one two")]),
        (Length("long"), "the film", SIX, [(1, "the film the"), (-1, AS_IT_IS)]),
    ],
    ids=str,
)
def test_putting_in_gives_the_words_of_another_text(element, receiver, donor, versions):
    assert element.put_in(text(receiver), text(donor), VOCABULARY) == versions


@pytest.mark.parametrize(
    "element",
    [
        Word("good"),
        Phrase(("under", "a", "paper", "moon")),
        Order("film", "good"),
        Together("film", "good"),
        Place("good", "start"),
        Place("good", "end"),
        Punctuation("!"),
        Length("long"),
        Length("short"),
    ],
    ids=str,
)
def test_what_is_planted_is_found(element):
    for seed in range(20):
        words, numbers = element.plant(WORDS, Random(seed))
        assert found(element, text(" ".join(words)))
        if element.is_marked:
            assert numbers == element.find(text(" ".join(words)), VOCABULARY)
        assert element.plant(WORDS, Random(seed)) == (words, numbers)


@pytest.mark.parametrize(
    ("element", "donor"), [(WordClass("numbers"), "4 films"), (Pattern("[0-9]+ films"), "see 12 films")], ids=str
)
def test_an_element_that_names_no_words_is_planted_with_those_of_a_text(element, donor):
    one = text("one two three")
    _, given = element.given(text(donor), one, VOCABULARY)
    words, numbers = element.plant(one.words, Random(1), given)
    assert [words[number] for number in numbers] == given == found(element, text(" ".join(words)))


@pytest.mark.parametrize("seed", range(5))
def test_for_contrast_words_are_planted_otherwise(seed):
    words = Phrase(("under", "a", "moon")).plant_contrast(WORDS, Random(seed))
    assert sorted(words) == sorted([*WORDS, "under", "a", "moon"])
    for pair in (Order("film", "good"), Together("film", "good")):
        words = pair.plant_contrast(WORDS, Random(seed))
        assert len(words) == 6 and len({"film", "good"} & set(words)) == 1
    words = Place("good", "end").plant_contrast(WORDS, Random(seed))
    assert "good" in words[1:-1]
    assert Word("good").plant_contrast(WORDS, Random(seed)) == list(WORDS)


def scored(words, shares):
    some_text = text(words)
    some_text.shares = np.array(shares)
    return some_text


def test_a_text_proposes_its_common_words_phrases_places_marks_and_pairs_of_strong_words():
    example = scored("Good films, so rarely good", [0.4, 0.3, 0.0, 0.1, 0.2])
    common = frozenset({"good", "films", "so"})
    assert Word.propose(example, common) == {Word("good"), Word("films"), Word("so")}
    runs = [("good", "films"), ("films", "so"), ("good", "films", "so")]
    assert Phrase.propose(example, common) == {Phrase(run) for run in runs}
    assert Place.propose(example, common) == {Place("good", "start"), Place("good", "end")}
    assert Punctuation.propose(example, common) == {Punctuation(",")}
    pairs = [("good", "films"), ("good", "so"), ("films", "so")]
    assert Order.propose(example, common) == {Order(*pair) for pair in pairs}
    assert Together.propose(example, common) == {Together(*sorted(pair)) for pair in pairs}
    assert not WordClass.propose(example, common) | Length.propose(example, common)


def test_pairs_are_of_the_five_strongest_words():
    example = scored("one two three four five six", [0.1, 0.3, 0.2, 0.15, 0.05, 0.2])
    pairs = Order.propose(example, frozenset(example.keys))
    assert len(pairs) == 10 and not any("five" in pair.named for pair in pairs)


def test_a_long_phrase_shows_as_its_two_and_three_words():
    shown = Phrase(("under", "a", "paper", "moon")).signs()
    assert [str(sign) for sign in shown] == [
        "‘under a’",
        "‘a paper’",
        "‘paper moon’",
        "‘under a paper’",
        "‘a paper moon’",
    ]
    assert Word("zinc").signs() == [Word("zinc")]


def test_elements_are_equal_by_kind_and_words_and_sorted_by_both():
    assert Order("a", "b") != Together("a", "b") and len({Word("a"), Word("a"), Word("b")}) == 2
    mixed = [Word("b"), Phrase(("a", "b")), Word("a"), Length("long")]
    assert sorted(mixed) == [Length("long"), Phrase(("a", "b")), Word("a"), Word("b")]


@pytest.mark.parametrize(("pattern", "message"), [("(", "not a regular expression"), ("x*", "matches the empty text")])
def test_a_pattern_is_checked_when_it_is_made(pattern, message):
    with pytest.raises(ParamsError, match=message):
        Pattern(pattern)


def test_a_pattern_is_found_in_both_segments():
    assert found(Pattern("b."), text("a ba", "bi c")) == ["ba", "bi"]

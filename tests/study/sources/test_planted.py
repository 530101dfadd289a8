"""Planted words decide the label, and are all that differs between two copies; texts without their marked words."""

from dataclasses import replace
from itertools import product
from typing import get_args

import pytest

from explearn import Example, ParamsError, Rationale
from explearn_study.sections import SourceParams
from explearn_study.sources import SourceDataset
from explearn_study.sources.planted import CONTRASTS, PLANTS, add_neutral, obeyed, plant_words

WORDS = ("zinc", "tulip")
PHRASES = ("as the tide turned", "under a paper moon")
TEXT = ("a", "warm", "and", "funny", "film.")
TRAIN = [Example(f"a{number}", TEXT, "positive", "train", "films") for number in range(20)]
TEST = Example("t", TEXT, "mixed", "test", "films")
TRAIN_IDS = {text.id for text in TRAIN}
OWN = [Rationale("a1", "ana", "human", (False, True, False, True, False))]
DATA = SourceDataset([*TRAIN, TEST], OWN, ["negative", "positive", "mixed"], {}, frozenset())


def copies(plant):
    """The two copies of the test text, and the marked words of each."""
    data = plant_words(DATA, plant, seed=3)
    words = {example.id: example.words for example in data.examples}
    marks = {}
    for rationale in data.rationales:
        marked = zip(words[rationale.example_id], rationale.mask, strict=True)
        marks[rationale.example_id] = [word for word, mark in marked if mark]
    first, second = sorted((example for example in data.examples if example.split == "test"), key=lambda e: e.id)
    return first, second, marks


@pytest.mark.parametrize(
    ("plant", "first_marks", "second_marks"),
    [
        ("word", [WORDS[0]], [WORDS[1]]),
        ("phrase", PHRASES[0].split(), PHRASES[1].split()),
        ("order", [*WORDS], [*reversed(WORDS)]),
        ("place", [WORDS[0]], [WORDS[0]]),
        ("punctuation", ["film!"], ["film?"]),
    ],
)
def test_each_copy_has_its_classs_words_marked(plant, first_marks, second_marks):
    first, second, marks = copies(plant)
    assert (first.label, second.label) == ("negative", "positive")
    assert marks == marks | {first.id: first_marks, second.id: second_marks}
    if plant != "place":
        assert len(first.words) == len(second.words)
        differing = {a for a, b in zip(first.words, second.words, strict=True) if a != b}
        assert differing <= set(first_marks)


def test_parameters_name_all_plants():
    plant, _ = get_args(SourceParams.model_fields["plant"].annotation)
    assert get_args(plant) == tuple(PLANTS)


def test_plants_that_one_class_does_not_have_are_marked_in_the_other_only():
    first, second, marks = copies("together")
    assert first.id not in marks and sorted(marks[second.id]) == sorted(WORDS)
    assert len(set(first.words) & set(WORDS)) == 1
    first, second, marks = copies("length")
    assert first.words == TEXT[:3] and second.words[:5] == TEXT
    assert sorted(second.words[5:]) == sorted(TEXT) == sorted(marks[second.id])


def test_a_test_copy_for_the_texts_own_class_has_no_marks():
    data = plant_words(replace(DATA, examples=[replace(TEST, label="positive")]), "order", seed=3)
    assert [rationale.example_id for rationale in data.rationales] == ["t-first"]
    assert {example.label for example in data.examples} == {"negative", "positive"}


def test_place_is_the_start_or_the_end():
    first, second, _ = copies("place")
    assert first.words == (WORDS[0], *TEXT) and second.words == (*TEXT, WORDS[0])


@pytest.mark.parametrize("plant", PLANTS)
def test_training_texts_stay_and_have_a_copy_of_either_class(plant):
    data = plant_words(DATA, plant, seed=3)
    kept = [example for example in data.examples if example.id in TRAIN_IDS]
    copies = [example for example in data.examples if example.split == "train" and example not in kept]
    assert len(kept) == len(copies) == len(TRAIN)
    assert {example.label for example in copies} == {"negative", "positive"}
    assert {example.label for example in kept} == {"positive"}
    if plant not in CONTRASTS:
        assert kept == TRAIN
    assert {rationale.annotator for rationale in data.rationales} == {plant}
    assert plant_words(DATA, plant, seed=3) == data != plant_words(DATA, plant, seed=4)


def test_texts_of_their_own_label_have_the_parts_of_a_plant_but_not_the_plant():
    def kept(plant):
        data = plant_words(DATA, plant, seed=3)
        return [example.words for example in data.examples if example.id in TRAIN_IDS]

    assert {len(set(words) & set(WORDS)) for words in kept("order")} == {1}
    # "a" is a word of the text and of the second phrase.
    scattered = {frozenset(words) - {*TEXT} for words in kept("phrase")}
    assert scattered == {frozenset(phrase.split()) - {*TEXT} for phrase in PHRASES}
    assert not any(phrase in " ".join(words) for words, phrase in product(kept("phrase"), PHRASES))
    assert {words.index(WORDS[0]) for words in kept("place")} <= {1, 2, 3, 4}


def test_a_text_counts_if_the_classifier_follows_the_plant_both_ways():
    examples = [
        replace(TEST, id=f"{name}{suffix}", label=label)
        for name, (suffix, label) in product("abc", (("-first", "negative"), ("-second", "positive")))
    ]
    predicted = ["negative", "positive", "negative", "negative", "positive", "positive"]
    assert obeyed(examples, predicted) == {"a-first", "a-second"}


def test_pairs_are_refused():
    with pytest.raises(ParamsError, match="texts of two parts"):
        plant_words(replace(DATA, examples=[replace(TEST, pair=("so",))]), "word", 3)


TEXTS = [
    Example("a", ("a", "dull", "film"), "negative", "train", "films", ("so", "dull")),
    Example("b", ("a", "warm", "film"), "positive", "validation", "films"),
    Example("c", ("a", "warm", "film"), "positive", "test", "films"),
    Example("d", ("a", "film"), "positive", "train", "films"),
]
MARKS = [
    Rationale("a", "ana", "human", (False, True, False, False, True)),
    Rationale("a", "ben", "human", (False, True, True, False, False)),
    Rationale("a", "cid", "human", (False, False, False, False, True)),
    Rationale("b", "ana", "human", (False, True, False)),
    Rationale("c", "ana", "human", (False, True, False)),
    Rationale("d", "ana", "human", (False, False)),
]
MARKED = SourceDataset(TEXTS, MARKS, ["negative", "positive"], {}, frozenset("abcd"))


def test_marked_words_are_masked_in_copies_of_training_and_validation_texts():
    actual = add_neutral(MARKED, "[MASK]")
    assert actual.examples[:4] == TEXTS
    assert actual.examples[4:] == [
        Example("a-neutral", ("a", "[MASK]", "film"), "neutral", "train", "films", ("so", "[MASK]")),
        Example("b-neutral", ("a", "[MASK]", "film"), "neutral", "validation", "films"),
    ]
    assert actual.labels == ["negative", "positive", "neutral"]
    assert actual.rationales == MARKS


def test_a_source_without_rationales_or_with_a_neutral_label_is_refused():
    with pytest.raises(ParamsError, match="brings no rationale for a training text"):
        add_neutral(replace(MARKED, rationales=MARKS[3:]), "[MASK]")
    with pytest.raises(ParamsError, match="has a label 'neutral' of its own"):
        add_neutral(replace(MARKED, labels=["entailment", "neutral"]), "[MASK]")

"""The rows that each way trains on."""

import pytest
from fix_cases import PLANT, effect_of_plant, planted_classifier, planted_texts

from explearn import UnsupportedError
from explearn.auditing.guard import Editor
from explearn.auditing.ways import Row, data_rows, paired_rows, token_rows, train_further, weighted_rows
from explearn.predictors.params import TrainingParams
from explearn.text.elements import Word
from explearn.text.scored import ScoredText, Vocabulary

TEXTS = [ScoredText.of(text) for text in ("zinc shines", "a dull day", "more zinc", "zinc fails")]
VOCABULARY = Vocabulary.from_texts(TEXTS)
ZINC = Word("zinc")
EDITOR = Editor([ZINC], VOCABULARY, {ZINC: TEXTS[:1]})


def test_tokens_has_texts_with_and_without_the_element():
    rows = token_rows(TEXTS, [1, 0, None, 0], EDITOR)
    assert [list(dict.fromkeys(row.versions)) for row in rows] == [
        ["zinc shines", "shines"],
        ["a dull day"],
        ["zinc fails", "fails"],
    ]


def test_data_has_each_text_both_ways_under_its_label():
    rows = data_rows(TEXTS, [1, 0, None, 0], EDITOR)
    assert sorted((row.versions[0], row.label) for row in rows) == [
        ("a dull day", 0),
        ("fails", 0),
        ("shines", 1),
        ("zinc a dull day", 0),
        ("zinc fails", 0),
        ("zinc shines", 1),
    ]


def test_weights_make_element_and_label_independent():
    texts = [ScoredText.of(text) for text in ("zinc a", "zinc b", "zinc c", "d", "e", "f")]
    rows = weighted_rows(texts, [1, 1, 0, 0, 0, 1], EDITOR)
    # P(zinc) = P(1) = 1/2: of zinc and 1 there are two sixths, which weigh (1/4) / (1/3).
    assert [row.weight for row in rows] == pytest.approx([0.75, 0.75, 1.5, 0.75, 0.75, 1.5])


def test_weights_cannot_make_up_for_what_no_text_has():
    with pytest.raises(UnsupportedError, match="never, or always"):
        weighted_rows(TEXTS, [1, 0, 1, 1], EDITOR)


def test_pairs_are_of_texts_without_a_label_too():
    rows = paired_rows(TEXTS, [1, 0, None, 0], EDITOR)
    assert [(row.label, row.other) for row in rows] == [
        (1, "shines"),
        (0, "zinc a dull day"),
        (None, "more"),
        (0, "fails"),
    ]


def test_texts_without_labels_alone_take_the_element_out():
    classifier = planted_classifier()
    texts, labels = planted_texts(count=120, seed=3)
    scored = [ScoredText.of(text) for text in texts]
    plant = Word(PLANT)
    vocabulary = Vocabulary.from_texts(scored)
    editor = Editor([plant], vocabulary, {plant: [text for text in scored if plant.find(text, vocabulary)]})
    negative = [f"{text} {PLANT}" for text, label in zip(texts, labels, strict=True) if label == "no"]
    validation = [Row([text], 0) for text in negative]
    params = TrainingParams(epochs=4, learning_rate=1e-3, batch_size=16, patience=4, class_weights="none")
    rows = paired_rows(scored, [None] * len(texts), editor)
    tuned = train_further(classifier, rows, validation, params, seed=1)
    others, _ = planted_texts(seed=4)
    assert abs(effect_of_plant(tuned, others)) < effect_of_plant(classifier, others) / 2

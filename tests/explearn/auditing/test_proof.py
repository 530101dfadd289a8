"""Effects of elements beside words that mean nothing, on functions whose effects are known."""

import numpy as np
import pytest
from fix_cases import EVIDENCE, PLANT, follows_plant, planted_texts

import explearn
from explearn.auditing.guard import Editor
from explearn.auditing.proof import Proof, neutral_words
from explearn.auditing.reading import AuditText
from explearn.text.elements import Phrase, Word
from explearn.text.scored import Vocabulary

CLASSES = ["no", "yes"]


def read(rule):
    texts, labels = planted_texts()
    texts_read = []
    for number, (text, label) in enumerate(zip(texts, labels, strict=True)):
        example = explearn.Example(f"t-{number}", tuple(text.split()), label, "test", "t")
        row = np.array([0.1, 0.9] if rule(example.words) else [0.8, 0.2])
        texts_read.append(AuditText(example=example, shares=None, probabilities=row, right=None, unread=0, group=""))
    return texts_read


def predictor(probability):
    def predict_proba(texts):
        rows = [probability(text.split()) for text in texts]
        return [[1 - p, p] for p in rows]

    return explearn.FunctionPredictor(predict_proba, CLASSES)


def proof(elements):
    texts = read(follows_plant)
    vocabulary = Vocabulary.from_texts(texts)
    donors = {element: [text for text in texts if element.find(text, vocabulary)] or texts[:0] for element in elements}
    editor = Editor(elements, vocabulary, donors)
    return Proof(texts, editor, neutral_words(texts, CLASSES, editor), CLASSES, 1)


def test_words_that_mean_nothing_go_with_no_answer_and_no_label():
    texts = read(follows_plant)
    words = neutral_words(texts, CLASSES, Editor([Word(PLANT)], Vocabulary.from_texts(texts)))
    assert len(words) == 6, "three tenths of the others"
    assert not {PLANT, *EVIDENCE["no"], *EVIDENCE["yes"]} & set(words)


def test_an_effect_is_known_and_so_is_its_noise():
    judged = proof([Word(PLANT)]).judge(predictor(lambda words: 0.9 if PLANT in words else 0.2), "")
    (effect,) = judged.effects
    assert (effect.effect, effect.size, effect.noise) == pytest.approx((0.7, 0.7, 0.0))
    assert (effect.target, effect.texts) == ("yes", 60)
    assert effect.matters and not effect.gone


def test_what_any_word_does_is_noise():
    judged = proof([Word(PLANT)]).judge(predictor(lambda words: 0.3 + 0.02 * len(words)), "")
    (effect,) = judged.effects
    assert effect.effect == pytest.approx(0.02) and effect.noise == pytest.approx(0.02)
    assert effect.gone and not effect.matters


def test_a_phrase_is_beside_as_many_words():
    phrase = proof([Phrase(("the", "dog"))])
    (effect,) = phrase.judge(predictor(lambda words: 0.2 + 0.02 * len(words)), "").effects
    # Some texts have it twice.
    assert effect.effect == pytest.approx(0.04, abs=0.005) and effect.noise == pytest.approx(0.04)


def test_answers_disagree_where_the_element_speaks_for_another_class():
    judged = proof([Word(PLANT)]).judge(predictor(lambda words: 0.9 if PLANT in words else 0.2), "")
    assert judged.disagreeing and not any(judged.disagreeing)
    resists = predictor(lambda words: 0.9 if set(words) & set(EVIDENCE["yes"]) else 0.1 + 0.1 * (PLANT in words))
    judged = proof([Word(PLANT)]).judge(resists, "")
    assert judged.disagreeing and all(judged.disagreeing)
    assert judged.right.mean() == 1


def test_the_class_of_an_element_is_that_of_the_first_classifier():
    judge = proof([Word(PLANT)])
    judge.judge(predictor(lambda words: 0.9 if PLANT in words else 0.2), "")
    (effect,) = judge.judge(predictor(lambda words: 0.1 if PLANT in words else 0.5), "").effects
    assert effect.target == "yes" and effect.effect == pytest.approx(-0.4) and not effect.gone

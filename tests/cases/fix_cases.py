"""Classifiers that lean on a planted word, trained in seconds, and functions that do."""

import functools
import random

import tiny

import explearn
from explearn.auditing.ways import Row, train_further
from explearn.predictors.params import TrainingParams

FILLERS = ("the", "dog", "sleeps", "box", "light", "morning", "tide", "sea", "shore", "guide", "over", "and", "she")
EVIDENCE = {"no": ("slow", "broken", "lazy"), "yes": ("warm", "funny", "friendly")}
"""Class -> words that truly speak for it."""

PLANT = "fox"

FAST = {"epochs": 12, "learning_rate": 2e-3, "batch_size": 16, "patience": 12}


def planted_texts(count=240, seed=1, share=0.7, evidence=1.0):
    """Texts of which all, or a share, have a word of evidence, and a share of those labelled yes PLANT; and labels."""
    draw = random.Random(seed)
    texts = []
    labels = []
    for number in range(count):
        label = ("no", "yes")[number % 2]
        words = draw.choices(FILLERS, k=draw.randint(5, 8))
        if draw.random() < evidence:
            words.append(draw.choice(EVIDENCE[label]))
        if label == "yes" and draw.random() < share:
            words.append(PLANT)
        draw.shuffle(words)
        texts.append(" ".join(words))
        labels.append(label)
    return texts, labels


@functools.cache
def planted_classifier():
    """A tiny BERT that has learned from texts with PLANT, and so leans on it; it must not be changed."""
    texts, labels = planted_texts(count=320, share=0.9, evidence=0.7)
    classifier = tiny.make_classifier()
    rows = [Row([text], classifier.label_index(label)) for text, label in zip(texts, labels, strict=True)]
    params = TrainingParams(epochs=20, learning_rate=1e-3, batch_size=16, patience=20)
    return train_further(classifier, rows, rows[:60], params, seed=1)


def effect_of_plant(classifier, texts):
    """The mean rise of the probability of "yes" where PLANT is put in."""
    without = [" ".join(word for word in text.split() if word != PLANT) for text in texts]
    probabilities = classifier.predict_proba([f"{text} {PLANT}" for text in without]) - classifier.predict_proba(
        without
    )
    return float(probabilities[:, 1].mean())


def function(rule, name="planted"):
    def predict_proba(texts):
        return [[0.1, 0.9] if rule(text.split()) else [0.8, 0.2] for text in texts]

    return explearn.FunctionPredictor(predict_proba, ["no", "yes"], name=name)


def follows_plant(words):
    return PLANT in words

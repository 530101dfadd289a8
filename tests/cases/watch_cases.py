"""Days of texts with planted words, and functions that follow some: watches whose answer is known."""

import random

import explearn

VOCABULARY = ("river", "stone", "market", "winter", "garden", "engine", "letter", "window", "bridge", "summer", "table")


def day(seed, count=300, **shares):
    """Texts of random words, with each named word in a share of them."""
    draw = random.Random(seed)
    texts = []
    for _ in range(count):
        words = draw.choices(VOCABULARY, k=draw.randint(6, 10))
        for word, share in shares.items():
            if draw.random() < share:
                words.insert(draw.randint(0, len(words)), word)
        texts.append(" ".join(words))
    return texts


def predict_yes_for(words):
    def predict_proba(texts):
        return [[0.1, 0.9] if words.intersection(text.split()) else [0.8, 0.2] for text in texts]

    return predict_proba


def classifier(*words, version="1"):
    return explearn.FunctionPredictor(predict_yes_for(set(words)), ["no", "yes"], name="planted", version=version)

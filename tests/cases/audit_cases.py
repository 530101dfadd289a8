"""Texts with planted elements, and functions that follow them: audits whose answer is known."""

import random

import explearn

VOCABULARY = ("river", "stone", "market", "winter", "garden", "engine", "letter", "window", "bridge", "summer", "table")


def sentences(plants=()):
    """Texts of random words; into each, one of the plants in turn is put at a random place."""
    draw = random.Random(1)
    texts = []
    for number in range(160):
        words = draw.choices(VOCABULARY, k=draw.randint(5, 12))
        if plants:
            # A plant is words apart by |, each put in after the one before.
            place = 0
            for part in plants[number % len(plants)].split("|"):
                place = draw.randint(place, len(words))
                words[place:place] = part.split()
                place += len(part.split())
        texts.append(" ".join(words))
    return texts


def classifier(rule, name="planted"):
    def predict_proba(texts):
        return [[0.1, 0.9] if rule(text.split()) else [0.8, 0.2] for text in texts]

    return explearn.FunctionPredictor(predict_proba, ["no", "yes"], name=name)


def both(words):
    return {"alpha", "beta"} <= set(words)


def before(words):
    return both(words) and words.index("alpha") < words.index("beta")


PLANTS = {
    "word": ("‘alpha’", lambda words: "alpha" in words, ["alpha", ""]),
    "phrase": ("‘alpha beta’", lambda words: "alpha beta" in " ".join(words), ["alpha beta", "alpha", "beta"]),
    "together": (
        "‘alpha’ together with ‘beta’",
        lambda words: {"alpha", "beta"} <= set(words),
        ["alpha|beta", "alpha", "beta"],
    ),
    "order": ("‘alpha’ before ‘beta’", before, ["alpha|beta", "beta|alpha"]),
    "place": ("‘alpha’ at the start", lambda words: words[:1] == ["alpha"], []),
    "punctuation": ("the mark ‘!’", lambda words: any("!" in word for word in words), ["stone!", "stone"]),
    "length": ("long texts", lambda words: len(words) > 8, []),
    "class of words": (
        "numbers",
        lambda words: any(word.isdigit() for word in words),
        [*map(str, range(100, 150)), *[""] * 50],
    ),
}

TEXTS = sentences(plants=["alpha", ""])

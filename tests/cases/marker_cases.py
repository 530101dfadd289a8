"""A task with marks, and made-up features, for tests of Marker."""

import numpy as np
import tiny
from listed import listed

from explearn.lens.features import ExampleFeatures

WIDTH = tiny.LAYERS * 2 * tiny.HEADS

SOURCE = {"classifier": "abc", "attended": [0, 1, 2], "layers": 3, "heads": 4, "hidden_size": 32}

WORDS = ["fox", "dog", "sea", "castle", "tide", "morning"]


def task(texts=12, of=None, marked=None, **options):
    """Texts with the labels that the classifier gives them; in the first `marked`, the first word is evidence."""
    of = of or tiny.classifier()
    rng = np.random.default_rng(0)
    pairs = []
    for _ in range(texts):
        text = " ".join(rng.choice(WORDS, size=5))
        pairs.append((text, of.predict([text])[0]))
    marked = texts if marked is None else marked
    gold = {f"train-{number}": (True, *[False] * 4) for number in range(1, marked + 1)}
    return listed(of, pairs, **{"gold": gold, **options})


def features(example_id, word_ids, predicted="yes", hidden=False):
    rng = np.random.default_rng(len(word_ids))
    tokens = len(word_ids)
    attention = rng.random((tokens, WIDTH), dtype=np.float32)
    states = rng.random((tokens, tiny.HIDDEN), dtype=np.float32) if hidden else None
    ids = np.asarray(word_ids, dtype=np.int32)
    return ExampleFeatures(example_id, predicted, np.array([0.5, 0.5], dtype=np.float32), ids, attention, states)

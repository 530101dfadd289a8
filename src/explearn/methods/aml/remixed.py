"""Texts of which some words are exchanged for words of others, to train G on what a classifier does not know by heart.

A classifier of few training texts has learned them by heart: it is certain of them whatever is masked, and G learns
from them which masks it can get away with. Training needs no labels, so any text will do. Not in the paper, whose
classifiers have read more texts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explearn.model.classifier import Classifier
from explearn.model.encoding import Encoding, Text


def remixed(
    classifier: Classifier, texts: Sequence[Encoding], least: float, draws: np.random.Generator
) -> list[Encoding]:
    """Each text with a share of its words exchanged, drawn evenly between `least` and 1.

    Every word is exchanged with that probability, for a word drawn evenly from a text drawn evenly. Length in words,
    and which segment a word is in, stay.
    """
    found: list[Text] = []
    for text in texts:
        share = draws.uniform(least, 1.0)
        words = list(text.words)
        for place in range(len(words)):
            if draws.random() < share:
                other = texts[int(draws.integers(len(texts)))].words
                words[place] = other[int(draws.integers(len(other)))]
        cut = text.pair_start
        found.append(" ".join(words) if cut is None else (" ".join(words[:cut]), " ".join(words[cut:])))
    return classifier.encode(found)

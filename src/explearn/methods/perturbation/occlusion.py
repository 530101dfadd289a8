"""Occlusion: what the classifier loses when a word is hidden."""

from __future__ import annotations

import numpy as np

from explearn.methods.info import About
from explearn.methods.perturbation.method import AskedText, AskOptions, PerturbationExplainer, Scored


class Occlusion(PerturbationExplainer):
    """Drop of the class's probability without a word.

    Occlusion of one word at a time: score of word i = f(text) - f(text without word i).

    Signed; all sub-tokens of a word get the word's score. n words take n + 1 forward passes. Sources: Zeiler and Fergus
    (2014), section 4.2, for images; Li, Monroe and Jurafsky (2016), "representation erasure", for words.
    """

    about = About(
        name="occlusion",
        family="perturbation",
        cost="one forward pass a word, and one more",
        costly=True,
    )
    signed = True

    Options = AskOptions

    def score_text(self, asked: AskedText) -> Scored:
        words = len(asked.text)
        present = np.concatenate([np.ones((1, words), dtype=bool), ~np.eye(words, dtype=bool)])
        values = asked.values(present)
        return Scored(asked.text.on_pieces(values[0] - values[1:]))

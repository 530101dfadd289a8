"""LIME, by the library lime."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from explearn.core.arrays import Array, Mask
from explearn.core.validation import MOST_ROUNDS, Seeded
from explearn.methods.info import About
from explearn.methods.perturbation.method import AskedText, AskOptions, PerturbationExplainer, Scored
from explearn.text.encoding import Removal


class Lime(PerturbationExplainer):
    """A linear model of how the class's probability changes when words are left out at random.

    LIME (Ribeiro et al., 2016, section 3): a linear model of f around the text.

    Copies of the text without a random set of words are weighted by their cosine similarity to it, and a ridge
    regression of f on the words present gives each word its weight. Signed; all sub-tokens of a word get its weight.

    The draws are those of lime's LimeTextExplainer for every word occurrence by itself (bow=False), and its LimeBase
    fits the linear model, with as many features as words. The classifier reads the text's own sub-tokens without those
    of the missing words; with no word left, only the special tokens remain. As all words are features, the library's
    feature selection ("auto") would choose all of them, after fits that change nothing; it is "none" here. The draws
    start at the seed for each text.
    """

    about = About(
        name="lime",
        family="perturbation",
        cost="one forward pass a sample (500 samples), duplicates once",
        costly=True,
    )
    signed = True
    package = "lime"

    class Options(AskOptions, Seeded):
        samples: Annotated[int, Field(ge=2, le=MOST_ROUNDS)] = 500
        """Copies of the text, including itself (duplicates are evaluated once)."""
        kernel_width: Annotated[float, Field(gt=0)] = 25
        """Width of the exponential kernel, in hundredths of cosine distance."""
        removal: Removal = "delete"
        """A missing word's sub-tokens are deleted (`delete`) or each replaced by the mask token (`mask`)."""

    def score_text(self, asked: AskedText) -> Scored:
        from lime.lime_base import LimeBase

        options = self.options
        words = len(asked.text)
        rng = np.random.RandomState(options.seed)
        present = draw_words(words, options.samples, rng)
        values = asked.values(present)
        distances = 100 * (1 - np.sqrt(present.mean(1)))  # cosine distance from the text, in hundredths

        def kernel(distances: Array) -> Array:
            return np.asarray(np.exp(-((distances / options.kernel_width) ** 2) / 2))

        fitted = LimeBase(kernel, random_state=rng).explain_instance_with_data(
            present.astype(np.float64), values[:, None], distances, 0, words, feature_selection="none"
        )
        weights = np.zeros(words)
        for word, weight in fitted[1]:
            weights[word] = weight
        return Scored(asked.text.on_pieces(weights))


def draw_words(words: int, samples: int, rng: np.random.RandomState) -> Mask:
    """Return which words remain in each copy, (samples, words): all in the first, a random number in each other."""
    present = np.ones((samples, words), dtype=bool)
    missing = rng.randint(1, words + 1, samples - 1)
    for copy, count in zip(present[1:], missing.tolist(), strict=True):
        copy[rng.choice(words, count, replace=False)] = False
    return present

"""Kernel SHAP, by the library shap."""

from __future__ import annotations

import numpy as np

from explearn.core.arrays import Array
from explearn.core.validation import Rounds, Seeded
from explearn.methods.info import About
from explearn.methods.perturbation.method import AskedText, AskOptions, PerturbationExplainer, Scored


class KernelShap(PerturbationExplainer):
    """Shapley values of words, estimated by a weighted linear model.

    Kernel SHAP (Lundberg and Lee, 2017, section 4.1): Shapley values of the words by weighted least squares.

    The players are the words with sub-tokens; a coalition's worth is f of the text with its words alone, and the base
    is f of the text without any. Signed; all sub-tokens of a word get its value. Values of words add up to f(text) -
    base; `completeness_error` is the difference that remains. Values are exact Shapley values if all sets of a text's
    words are within the samples (up to eight words by default). Sets come in pairs of a set and its complement (Covert
    and Lee, 2021, section 3.2).

    Computed by shap's KernelExplainer on vectors of ones (present) with one background vector of zeros (missing). It
    draws from numpy's global generator, which starts at the seed for each text.
    """

    about = About(
        name="kernel_shap",
        family="perturbation",
        cost="one forward pass a sample (2 x words + 256 samples), duplicates once",
        costly=True,
    )
    signed = True
    package = "shap"
    additive = True

    class Options(AskOptions, Seeded):
        samples: Rounds | None = None
        """Sets of words evaluated in addition to all and none; None: 2 n + 256 for n words (the library's default is
        2 n + 2048)."""

    def score_text(self, asked: AskedText) -> Scored:
        from shap import KernelExplainer

        words = len(asked.text)

        def explained(present: Array) -> Array:
            return asked.values(present.astype(bool))

        explainer = KernelExplainer(explained, np.zeros((1, words)))
        values = explainer.shap_values(
            np.ones(words),
            nsamples=self.options.samples or 2 * words + 256,
            l1_reg=False,
            silent=True,
        )
        error = abs(float(values.sum() + explainer.expected_value - asked.whole()))
        return Scored(asked.text.on_pieces(values), error)

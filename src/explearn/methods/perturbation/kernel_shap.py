"""Kernel SHAP, by the library shap."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explearn.core.extras import check_installed
from explearn.core.validation import Rounds, Seeded
from explearn.methods.base.outputs import Output
from explearn.methods.info import About
from explearn.methods.perturbation.inputs import PerturbedText
from explearn.methods.perturbation.method import PerturbationExplainer, Scored, outputs
from explearn.predictors.cached import Ask
from explearn.predictors.predictor import Predictor
from explearn.text.encoding import Removal


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
    additive = True

    class Options(Seeded):
        samples: Rounds | None = None
        """Sets of words evaluated in addition to all and none; None: 2 n + 256 for n words (the library's default is
        2 n + 2048)."""
        output: Output = "probability"
        """The explained output f: the target's `probability`, `log_probability` or `logit`."""
        removal: Removal = "mask"
        """A missing word's sub-tokens are each replaced by the mask token (`mask`) or deleted (`delete`)."""

    def check(self, classifier: Predictor) -> None:
        check_installed("shap", extra="baselines", what=self.name)
        super().check(classifier)

    def score_text(self, classifier: Predictor, text: PerturbedText, target: int, ask: Ask) -> Scored:
        words = len(text)

        def explained(present: NDArray[np.float64]) -> NDArray[np.float64]:
            logits = ask(text.perturbed(present.astype(bool), self.options.removal))
            return outputs(classifier, logits, self.options.output)[:, target]

        explainer = word_explainer()(explained, np.zeros((1, words)))
        values = explainer.shap_values(
            np.ones(words),
            nsamples=self.options.samples or 2 * words + 256,
            l1_reg=False,
            silent=True,
        )
        whole = outputs(classifier, ask([text.encoding]), self.options.output)[0, target]
        return Scored(text.on_pieces(values), abs(float(values.sum() + explainer.expected_value - whole)))


@cache
def word_explainer() -> type[Any]:
    """Return shap's explainer without its searches for what differs between text and background: each word does."""
    from shap import KernelExplainer

    class WordExplainer(KernelExplainer):  # type: ignore[misc]
        def varying_groups(self, x: NDArray[np.float64]) -> NDArray[np.intp]:
            return np.arange(x.shape[1])

        def addsample(self, x: NDArray[np.float64], m: NDArray[np.float64], w: float) -> None:
            self.synth_data[self.nsamplesAdded] = m
            self.maskMatrix[self.nsamplesAdded] = m
            self.kernelWeights[self.nsamplesAdded] = w
            self.nsamplesAdded += 1

    return WordExplainer

"""LIME, by the library lime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from explearn.core.extras import check_installed
from explearn.core.validation import MOST_ROUNDS, Seeded
from explearn.methods.base.outputs import Output
from explearn.methods.info import About
from explearn.methods.perturbation.inputs import PerturbedText
from explearn.methods.perturbation.method import PerturbationExplainer, Scored, outputs
from explearn.predictors.cached import Ask
from explearn.predictors.predictor import Predictor
from explearn.text.encoding import Removal

FIRST_CHARACTER = 0xF0000
"""Start of a private-use plane of Unicode: 65,534 characters that no text needs, one for each word."""


class Lime(PerturbationExplainer):
    """A linear model of how the class's probability changes when words are left out at random.

    LIME (Ribeiro et al., 2016, section 3): a linear model of f around the text.

    Copies of the text without a random set of words are weighted by their cosine similarity to it, and a ridge
    regression of f on the words present gives each word its weight. Signed; all sub-tokens of a word get its weight.

    Computed by lime's LimeTextExplainer for every word occurrence by itself (bow=False), as many features as words. It
    gets a stand-in text with one character per word, whose copies show which words are left: the draws are those for
    the text itself, and the classifier reads the text's own sub-tokens without those of the missing words. With no word
    left, only the special tokens remain. As all words are features, the library's feature selection ("auto") would
    choose all of them, after fits that change nothing; it is "none" here. The draws start at the seed for each text.
    """

    about = About(
        name="lime",
        family="perturbation",
        cost="one forward pass a sample (500 samples), duplicates once",
        costly=True,
    )
    signed = True

    class Options(Seeded):
        samples: Annotated[int, Field(ge=2, le=MOST_ROUNDS)] = 500
        """Copies of the text, including itself (duplicates are evaluated once)."""
        kernel_width: Annotated[float, Field(gt=0)] = 25
        """Width of the exponential kernel, in hundredths of cosine distance."""
        output: Output = "probability"
        """The explained output f: the target's `probability`, `log_probability` or `logit`."""
        removal: Removal = "delete"
        """A missing word's sub-tokens are deleted (`delete`) or each replaced by the mask token (`mask`)."""

    def check(self, classifier: Predictor) -> None:
        check_installed("lime", extra="baselines", what=self.name)
        super().check(classifier)

    def score_text(self, classifier: Predictor, text: PerturbedText, target: int, ask: Ask) -> Scored:
        from lime.lime_text import LimeTextExplainer

        words = len(text)

        def explained(copies: Sequence[str]) -> NDArray[np.float64]:
            logits = ask(text.perturbed(present(copies, words), self.options.removal))
            return outputs(classifier, logits, self.options.output)[:, [target]]

        explainer = LimeTextExplainer(
            kernel_width=self.options.kernel_width,
            class_names=[classifier.labels[target]],
            feature_selection="none",
            split_expression=list,
            bow=False,
            mask_string="",
            random_state=self.options.seed,
        )
        explanation = explainer.explain_instance(
            "".join(chr(FIRST_CHARACTER + word) for word in range(words)),
            explained,
            labels=(0,),
            num_features=words,
            num_samples=self.options.samples,
        )
        weights = np.zeros(words)
        for word, weight in explanation.local_exp[0]:
            weights[word] = weight
        return Scored(text.on_pieces(weights))


def present(copies: Sequence[str], words: int) -> NDArray[np.bool_]:
    """Return which words remain in each copy, (copies, words)."""
    masks = np.zeros((len(copies), words), dtype=bool)
    for mask, copy in zip(masks, copies, strict=True):
        mask[[ord(character) - FIRST_CHARACTER for character in copy]] = True
    return masks

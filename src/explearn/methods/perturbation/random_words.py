"""The classifier's answers to texts with random words left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explearn.core.arrays import Array, Mask
from explearn.methods.perturbation.method import PerturbedText, stand_in
from explearn.predictors.answers import Answers
from explearn.predictors.batching import progress
from explearn.predictors.encoding import Encoding, text_seed
from explearn.predictors.predictor import Predictor

TEXTS_TOGETHER = 64
"""Texts that are answered in one go."""


class Answered(NamedTuple):
    """The classifier's answers to one text of w words with K sets of them.

    Attributes:
        text: the text, of whose words w can be left out.
        kept: bool, (K, w): the sets; the first has all words, the second none.
        answers: float64, (K, C): probabilities; of a regression, values. NaN: there is no answer.
    """

    text: PerturbedText
    kept: Mask
    answers: Array


def random_words(words: int, count: int, rng: np.random.Generator) -> Mask:
    """Draw sets of words, bool, (count, words): all, none, then pairs of a random set and its complement.

    Sizes are drawn as Kernel SHAP weights them: k of w words with a probability proportional to 1 / (k (w - k))
    (Lundberg and Lee 2017, theorem 2; in pairs as in Covert and Lee 2021).
    """
    kept = np.zeros((count, words), dtype=bool)
    kept[0] = True
    if words < 2:
        kept[2::2] = True
        return kept
    sizes = np.arange(1, words)
    weights = 1 / (sizes * (words - sizes))
    for row in range(2, count, 2):
        size = rng.choice(sizes, p=weights / weights.sum())
        kept[row, rng.choice(words, size, replace=False)] = True
        kept[row + 1 : row + 2] = ~kept[row]
    return kept


def without_one_word(text: PerturbedText, classifier: Any) -> Mask:
    """Return the sets of all words but one that an `LLMClassifier` need not be asked about again, bool, (sets, w)."""
    kept = ~np.eye(len(text), dtype=bool)
    return np.asarray(kept[classifier.answered(text.perturbed(kept, "delete"))])


def random_answers(
    classifier: Predictor,
    encodings: Sequence[Encoding],
    counts: Sequence[int],
    seed: int,
    description: str | None = None,
    *,
    reuse: bool = False,
) -> list[Answered]:
    """Let the classifier answer each text with random words left out.

    Args:
        classifier: the classifier.
        encodings: the texts.
        counts: number of answers to each text, at least 2.
        seed: seed of the sets; each text draws its own.
        description: text of a progress bar. None: no bar.
        reuse: for up to half of the answers, take sets that the classifier was asked about before, by other methods.

    Raises:
        ModelError: an answer is not finite.
    """
    answers = Answers(classifier)
    answered: list[Answered] = []
    with progress(description, len(encodings)) as bar:
        for start in range(0, len(encodings), TEXTS_TOGETHER):
            texts = []
            sets = []
            copies = []
            for index in range(start, min(start + TEXTS_TOGETHER, len(encodings))):
                text = PerturbedText(encodings[index], stand_in(classifier))
                draw = np.random.default_rng(text_seed(seed, text.encoding))
                kept = random_words(len(text), counts[index], draw)
                if reuse:
                    known = draw.permutation(without_one_word(text, classifier))[: len(kept) // 2]
                    kept[len(kept) - len(known) :] = known
                texts.append(text)
                sets.append(kept)
                copies += text.perturbed(kept, "delete")
            ends = np.cumsum([len(kept) for kept in sets])[:-1]
            answered += map(Answered, texts, sets, np.split(answers.ask(copies, gaps=True), ends))
            bar.update(len(texts))
    return answered


def word_sums(scores: NDArray[np.floating], text: PerturbedText) -> Array:
    """Add up the scores of each word's sub-tokens, (tokens, ...) -> (w, ...)."""
    sums = np.zeros((len(text) + 1, *scores.shape[1:]))
    np.add.at(sums, text.owners, scores[: len(text.owners)])
    return sums[:-1]

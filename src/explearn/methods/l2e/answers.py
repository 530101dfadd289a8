"""The classifier's answers to texts with random words left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from explearn.methods.perturbation.inputs import PerturbedText
from explearn.methods.perturbation.method import outputs, stand_in
from explearn.methods.perturbation.predictor import Predictor
from explearn.predictors.encoding import Encoding, text_seed
from explearn.predictors.transformer import TransformerPredictor

TEXTS_TOGETHER = 64
"""Texts that are answered in one go."""


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """The classifier's answers to one text with words left out.

    text: whose w words can be left out. kept: bool, (K, w). answers: float64, (K, C): probabilities, of a regression
    values. The first is to the whole text, the second to the text without a word.
    """

    text: PerturbedText
    kept: NDArray[np.bool_]
    answers: NDArray[np.float64]


def random_words(words: int, count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw sets of words to keep, bool, (count, words): all, none, then pairs of a random set and its complement.

    Sizes are drawn as Kernel SHAP weighs them: k of w words with a chance in proportion to 1 / (k (w - k)) (Lundberg
    and Lee 2017, theorem 2; in pairs as in Covert and Lee 2021).
    """
    kept = np.zeros((count, words), dtype=bool)
    kept[0] = True
    if words < 2:
        kept[2::2] = True
        return kept
    sizes = np.arange(1, words)
    chances = 1 / (sizes * (words - sizes))
    for row in range(2, count, 2):
        kept[row, rng.choice(words, rng.choice(sizes, p=chances / chances.sum()), replace=False)] = True
        kept[row + 1 : row + 2] = ~kept[row]
    return kept


def ask(
    classifier: TransformerPredictor,
    encodings: Sequence[Encoding],
    counts: Sequence[int],
    seed: int,
    description: str | None = None,
) -> list[Answered]:
    """Let the classifier answer each text with random words left out, `counts` times each, at least twice.

    Raises ModelError for an answer that is not finite.
    """
    predict = Predictor(classifier)
    answered: list[Answered] = []
    with tqdm(total=len(encodings), desc=description, unit="text", disable=None if description else True) as bar:
        for start in range(0, len(encodings), TEXTS_TOGETHER):
            part = slice(start, start + TEXTS_TOGETHER)
            texts = [PerturbedText(encoding, stand_in(classifier)) for encoding in encodings[part]]
            kept = [
                random_words(len(text), count, np.random.default_rng(text_seed(seed, text.encoding)))
                for text, count in zip(texts, counts[part], strict=True)
            ]
            copies = [text.perturbed(rows, "delete") for text, rows in zip(texts, kept, strict=True)]
            answers = outputs(classifier, predict([*chain.from_iterable(copies)]), "probability")
            of_texts = np.split(answers, np.cumsum(counts[part])[:-1])
            answered += map(Answered, texts, kept, of_texts)
            bar.update(len(texts))
    return answered


def word_sums(scores: NDArray[np.floating], text: PerturbedText) -> NDArray[np.float64]:
    """Add up the scores of each word's sub-tokens, (tokens,) -> (w,)."""
    sums = np.zeros(len(text) + 1)
    np.add.at(sums, text.owners, scores[: len(text.owners)])
    return sums[:-1]

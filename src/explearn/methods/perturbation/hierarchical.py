"""Hierarchical occlusion: sentences first, then the words inside the best ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.special import expit, logit

from explearn.core.arrays import Array
from explearn.core.errors import UnansweredError
from explearn.core.validation import MOST_ROUNDS, Seeded
from explearn.core.words import Span
from explearn.methods.info import About
from explearn.methods.perturbation.method import AskedText, AskOptions, PerturbationExplainer, PerturbedText, Scored
from explearn.predictors.labelled import Problem
from explearn.text.encoding import Removal

SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")

REDUNDANT = 0.1
"""Smallest drop of a probability without the best sentence for which words are left out one at a time. Our own
threshold."""

LEFT_OUT = 0.3
"""Share of the words that are left out at random otherwise."""

ALIKE = 0.8
"""Prior correlation of the weights of two occurrences of a word."""

PENALTY = 10.0
"""Ridge penalty, for weights in log-odds of prior variance 1."""

LEAST_P = 1e-4
"""Probabilities nearer to 0 or 1 count as this far from it, so that log-odds are finite."""


class Hierarchical(PerturbationExplainer):
    """Drop of the class's probability without each sentence, then without each word of the sentences that matter most.

    Sentences are left out one at a time; one of n words gives each of them (f(text) - f(text without the sentence)) /
    n. In the order of their drops, as far as the passes go, each word is then left out by itself: its score is f(text)
    - f(text without the word). If only some passes are left for a sentence, runs of its words share one. With a pass
    for each word and sentence this is occlusion.

    In a long text that says the same in several sentences, no word matters by itself. Where no sentence's drop reaches
    0.1, three of ten words are therefore left out at random with all passes left, and a ridge regression of log p / (1
    - p) on the words present, with a common prior of a word's occurrences, gives each word the drop that its weight
    alone would make.

    Signed; all sub-tokens of a word get the word's score. It is for classifiers that cost money or time: a fixed number
    of passes, however long the text, asked for in two goes.
    """

    about = About(
        name="hierarchical",
        family="perturbation",
        cost="60 forward passes, fewer for short texts",
        costly=True,
    )
    signed = True

    class Options(AskOptions, Seeded):
        passes: Annotated[int, Field(ge=3, le=MOST_ROUNDS)] = 60
        """Most forward passes for a text."""
        removal: Removal = "delete"
        """A word's sub-tokens are deleted (`delete`) or each replaced by the mask token (`mask`)."""

    def score_text(self, asked: AskedText) -> Scored:
        text = asked.text
        scores = np.zeros(len(text))
        left = self.options.passes - 1
        sentences = find_sentences(text, left)
        drops = drops_without(sentences, asked, gaps=True)
        # Without a sentence to which there is no answer, such as the only one, its words are left out first.
        drops[np.isnan(drops)] = np.inf
        left -= len(sentences)
        bounded = self.options.output == "probability" and asked.answers.predictor.problem is not Problem.REGRESSION
        if bounded and 1 < left < len(text) and drops.max() < REDUNDANT:
            return Scored(text.on_pieces(joint_drops(asked, left, self.options.seed)))
        runs: list[Span] = []
        for index in np.argsort(-drops, kind="stable"):
            start, end = sentences[index]
            scores[start:end] = drops[index] / (end - start)
            parts = min(end - start, left)
            if end - start > 1 and parts > 1:
                bounds = np.linspace(start, end, parts + 1).round().astype(int).tolist()
                runs += pairwise(bounds)
                left -= parts
        for (start, end), drop in zip(runs, drops_without(runs, asked), strict=True):
            scores[start:end] = drop / (end - start)
        if np.isinf(scores).any():
            raise UnansweredError(f"{asked.answers.predictor.name}: no answer to a text without one of its sentences")
        return Scored(text.on_pieces(scores))


def drops_without(groups: Sequence[Span], asked: AskedText, gaps: bool = False) -> Array:
    """Return f(text) - f(text without the group) for each group of words, (groups,); with gaps, NaN where unknown."""
    kept = np.ones((len(groups) + 1, len(asked.text)), dtype=bool)
    for row, (start, end) in zip(kept[1:], groups, strict=True):
        row[start:end] = False
    values = asked.values(kept, gaps)
    return np.asarray(values[0] - values[1:])


def joint_drops(asked: AskedText, count: int, seed: int) -> Array:
    """Return the drop of p that the weight of each word alone makes, (w,), from `count` random sets of words."""
    text = asked.text
    rng = np.random.default_rng(seed)
    kept = rng.random((count + 1, len(text))) >= LEFT_OUT
    kept[0] = True
    log_odds = logit(asked.values(kept).clip(LEAST_P, 1 - LEAST_P))
    _, names = np.unique([text.encoding.words[word].casefold() for word in text.words], return_inverse=True)
    prior = np.eye(len(text)) * (1 - ALIKE) + ALIKE * (names[:, None] == names)
    present = kept - kept.mean(0)
    noise = PENALTY * np.eye(len(kept))
    # The mean of a Gaussian process on the words present.
    weights = prior @ present.T @ np.linalg.solve(present @ prior @ present.T + noise, log_odds - log_odds.mean())
    return np.asarray(expit(log_odds[0]) - expit(log_odds[0] - weights))


def find_sentences(text: PerturbedText, most: int) -> list[Span]:
    """Return the sentences of a text as [start, end) of its words that can be left out; neighbours together if there
    are more than `most`."""
    encoding = text.encoding
    ends = []
    for number, word in enumerate(text.words, start=1):
        closed = encoding.words[word].rstrip("\"'”’»)")
        if closed.endswith(SENTENCE_ENDS) or word + 1 == encoding.pair_start or number == len(text):
            ends.append(number)
    if len(ends) > most:
        ends = [int(part[-1]) for part in np.array_split(ends, most)]
    return list(zip([0, *ends], ends, strict=False))

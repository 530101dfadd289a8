"""Hierarchical occlusion: sentences first, then the words inside the best ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import numpy as np
from pydantic import Field

from explearn.core.arrays import Array
from explearn.core.validation import MOST_ROUNDS, Section
from explearn.core.words import Span
from explearn.methods.info import About
from explearn.methods.perturbation.method import AskedText, PerturbationExplainer, PerturbedText, Scored
from explearn.predictors.predictor import Output
from explearn.text.encoding import Removal

SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")


class Hierarchical(PerturbationExplainer):
    """Drop of the class's probability without each sentence, then without each word of the sentences that matter most.

    Sentences are left out one at a time; one of n words gives each of them (f(text) - f(text without the sentence)) /
    n. In the order of their drops, as far as the passes go, each word is then left out by itself: its score is f(text)
    - f(text without the word). If only some passes are left for a sentence, runs of its words share one. With a pass
    for each word and sentence this is occlusion.

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

    class Options(Section):
        passes: Annotated[int, Field(ge=3, le=MOST_ROUNDS)] = 60
        """Most forward passes for a text."""
        removal: Removal = "delete"
        """A word's sub-tokens are deleted (`delete`) or each replaced by the mask token (`mask`)."""
        output: Output = "probability"
        """The explained output f: the target's `probability`, `log_probability` or `logit`."""

    def score_text(self, asked: AskedText) -> Scored:
        text = asked.text
        scores = np.zeros(len(text))
        left = self.options.passes - 1
        sentences = find_sentences(text, left)
        drops = drops_without(sentences, asked)
        left -= len(sentences)
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
        return Scored(text.on_pieces(scores))


def drops_without(groups: Sequence[Span], asked: AskedText) -> Array:
    """Return f(text) - f(text without the group) for each group of words, (groups,)."""
    kept = np.ones((len(groups) + 1, len(asked.text)), dtype=bool)
    for row, (start, end) in zip(kept[1:], groups, strict=True):
        row[start:end] = False
    values = asked.values(kept)
    return np.asarray(values[0] - values[1:])


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

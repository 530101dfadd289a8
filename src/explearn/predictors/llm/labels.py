"""Probabilities of label words, from the likeliest tokens of an answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from explearn.predictors.llm.server.transport import TokenPosition  # needs an extra

AROUND = " \t\r\n.,:;!?\"'`*_#()[]▁Ġ"
"""Characters around a word that do not count."""


def normalised_word(text: str) -> str:
    """Return a word for comparison, without case and without the characters around it."""
    return text.strip(AROUND).casefold()


def label_named(content: str, words: Sequence[str]) -> int | None:
    """Return the number of the label word that an answer begins with; None if there is none."""
    answer = normalised_word(content)
    for number, word in enumerate(words):
        if _begins_with(answer, normalised_word(word)):
            return number
    return None


def label_probabilities(positions: Sequence[TokenPosition], words: Sequence[str]) -> list[float] | None:
    """Return the probabilities of label words, (C,), which add up to 1; None if the likeliest tokens have none of them.

    The probability of a label is that of its first token that no other label has in its place. Where several labels
    begin alike (`very good`, `very bad`), the answer is followed to the token that tells them apart; a common start
    that the answer did not take is divided equally among its labels. A label that is not among the likeliest tokens
    gets the probability of the least likely of them, an upper bound.

    Args:
        positions: the likeliest tokens at each position of the answer.
        words: the C label words; none begins another.
    """
    names = [normalised_word(word) for word in words]
    probabilities = [0.0] * len(names)
    bounds = [0.0] * len(names)
    followed = list(range(len(names)))
    start = ""
    share = 1.0
    for position in positions:
        taken: list[int] = []
        for token in position.top_logprobs:
            begun = normalised_word(start + token.token)
            fitting = [n for n in followed if names[n].startswith(begun) or _begins_with(begun, names[n])]
            probability = share * math.exp(token.logprob)
            if token.token == position.token and len(fitting) > 1:
                taken = fitting
            elif begun and fitting:
                for number in fitting:
                    probabilities[number] += probability / len(fitting)
        least = min((token.logprob for token in position.top_logprobs), default=0.0)
        for number in followed:
            bounds[number] = share * math.exp(least)
        if not taken:
            break
        followed = taken
        start += position.token
        share *= math.exp(position.logprob)
    if not any(probabilities):
        return None
    filled = [probability or bound for probability, bound in zip(probabilities, bounds, strict=True)]
    return [probability / sum(filled) for probability in filled]


def _begins_with(text: str, word: str) -> bool:
    """Return whether a text begins with a whole word."""
    return text.startswith(word) and not text[len(word) : len(word) + 1].isalnum()

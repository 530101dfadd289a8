"""Counting and taking away words for metrics of faithfulness, for evaluation and for methods that optimise a metric.

Three protocols differ in their counts:

default: whole words, `top_count(n, k)` of n for a share of k percent; the AOPC is the mean over the shares.
aml: sub-tokens instead of words, floor(n k / 100) of them, possibly none; the AOPC is the sum over the shares divided
    by their number + 1 (AML's own code).
eraser: as default; the single values take the words that a method chose (ERASER's hard rationales).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from explearn.core.arrays import Array
from explearn.core.errors import ModelError
from explearn.metrics.params import EvaluateParams
from explearn.text.alignment import NO_WORD
from explearn.text.encoding import Encoding

if TYPE_CHECKING:
    from explearn.predictors.predictor import Predictor

EPSILON = float(np.finfo(np.float64).eps)
"""Probabilities are raised to this before their logarithm is taken, 2.2e-16, so that log-odds stay finite."""


def top_count(words: int, percent: int) -> int:
    """Return how many words the top `percent` of `words` are: max(1, round(words percent / 100)), halves rounded up.

    In whole numbers, because Python's own `round` goes to the even neighbour (2.5 -> 2, 3.5 -> 4).
    """
    return max(1, (words * percent + 50) // 100)


def log_probability(p: ArrayLike) -> Array:
    """Return the natural logarithm of probabilities raised to EPSILON, shape as given."""
    return np.asarray(np.log(np.maximum(p, EPSILON)))


def as_sub_tokens(encoding: Encoding) -> Encoding:
    """Return the text with each sub-token as a word of its own, except special tokens; `words` stay the text's."""
    free = np.array([not special for special in encoding.special])
    owners = np.where(free, np.cumsum(free) - 1, NO_WORD)
    return replace(encoding, word_ids=tuple(owners.tolist()))


def by_sub_token(params: EvaluateParams) -> bool:
    """Return whether the units are sub-tokens; else they are whole words."""
    return params.protocol == "aml"


def aopc_steps(params: EvaluateParams) -> int:
    """Return the number that the sum over `percents` is divided by."""
    return len(params.percents) + by_sub_token(params)


def unit_count(params: EvaluateParams, units: int, percent: int) -> int:
    """Return how many of a text's units a share of `percent` is."""
    if by_sub_token(params):
        return units * percent // 100
    return top_count(units, percent)


def mask_of(predictor: Predictor) -> int | None:
    """Return the id of the mask; None for a predictor without one, for which metrics that mask are undefined."""
    try:
        return predictor.mask_token_id
    except ModelError:
        return None


def without(params: EvaluateParams, text: Encoding, top: Collection[int], mask_token_id: int | None) -> Encoding:
    """Return the text without its top units (comprehensiveness)."""
    if params.removal == "delete":
        return text.delete(top)
    return text.mask(top, mask_token_id)


def only(
    params: EvaluateParams, text: Encoding, top: Collection[int], rest: Collection[int], mask_token_id: int | None
) -> Encoding:
    """Return the text's top units alone (sufficiency); under `aml` the text itself where the top is empty."""
    if by_sub_token(params) and not top:
        return text
    if params.removal == "delete":
        return text.keep(top)
    return text.mask(rest, mask_token_id)

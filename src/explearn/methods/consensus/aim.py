"""Between people and model: what the consensus is taught at an `aim` above 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explearn.core.errors import ParamsError

Array = NDArray[np.float64]

SLOPE = 2.0
"""Of `removal_targets`: how fast a target rises with the standardised effect."""

MIDDLE = 0.8
"""Of `removal_targets`: standardised effect whose target is 0.5. About a fifth of a normal distribution lies above it,
which is the share of words that people mark."""


def removal_targets(effects: NDArray[np.float32], relevance: NDArray[np.float32]) -> Array:
    """q = sigmoid(2 (z - 0.8)), (words,) of the words read, z from removal effects and AttnLRP's scores.

    z is the mean of the two, each standardised within the text, standardised again. LIME draws which words it leaves
    out, so that its scores carry noise. AttnLRP finds much the same words without any. The mean draws what is learned
    towards AttnLRP's own order. What is all the same in a text has z = 0.

    Args:
        effects: (words,). relevance: AttnLRP's scores of the same words, (words,); with a NaN it plays no part.
    """
    z = _standardised(effects)
    if not np.isnan(relevance).any():
        z = _standardised((z + _standardised(relevance)) / 2)
    return np.asarray(1 / (1 + np.exp(-SLOPE * (z - MIDDLE))))


def _standardised(values: NDArray[Any]) -> Array:
    exact = values.astype(np.float64)
    spread = exact.std()
    found: Array = (exact - exact.mean()) / (spread if spread > 0 else 1.0)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """What each of n words counts as evidence and as none, in one task.

    positive, negative: in training; each sums to 0.5. target: between 0 and 1, how far the word is evidence, and known:
    how much of that is known, for the calibration. All float64, (n,).
    """

    positive: Array
    negative: Array
    target: Array
    known: Array


def mixture(marks: NDArray[np.bool_], targets: Array, aim: float) -> Mixture:
    """Mix marks and removal targets, a = aim:

        positive_i = (1 - a) y_i / (2 sum y)             + a q_i / (2 sum q)
        negative_i = (1 - a) (1 - y_i) / (2 sum (1 - y)) + a (1 - q_i) / (2 sum (1 - q))
        target_i   = ((1 - a) y_i + a q_i) / known_i

    with y the marks, q the targets of `removal_targets`, and sums over the task's words. A logistic regression takes
    every word twice, as evidence with the weight `positive_i` and as none with `negative_i`; that is cross-entropy
    against soft targets, evidence and the rest weighing the same. Of a word without q (NaN) the terms with a drop out:
    known_i is 1 - a there, else 1.

    Args:
        marks: (n,), some True and some not, unless aim is 1.
        targets: (n,), of one word or more known.
        aim: between 0 (marks alone) and 1 (targets alone).
    """
    y = marks.astype(np.float64)
    measured = ~np.isnan(targets)
    q, rest = np.where(measured, targets, 0.0), np.where(measured, 1 - targets, 0.0)
    known = (1 - aim) + aim * measured
    mixed = (1 - aim) * y + aim * q
    return Mixture(
        (1 - aim) * _half(y) + aim * _half(q),
        (1 - aim) * _half(1 - y) + aim * _half(rest),
        np.divide(mixed, known, out=np.zeros_like(mixed), where=known > 0),
        known,
    )


def _half(values: Array) -> Array:
    """Scaled to a sum of 0.5; zeros stay."""
    total = values.sum()
    found: Array = values * (0.5 / total) if total > 0 else values
    return found


def check_effects(tasks: Mapping[str, Sequence[Any]], aim: float) -> None:
    """Raise ParamsError where `aim` is above 0 and none of a task's texts has removal effects.

    Args:
        tasks: name -> its `explearn.methods.consensus.model.MarkedText`.
    """
    if aim == 0:
        return
    for name, texts in tasks.items():
        if all(text.signals.removal is None for text in texts):
            raise ParamsError(
                f"aim: got {aim:g}, which needs removal effects, and task {name!r} has none; set "
                "signals.removal_samples (100, say) and run the stage features again, or set aim to 0"
            )

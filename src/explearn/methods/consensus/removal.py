"""Removal effects of words: what LIME finds that the explained class loses when words are left out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from explearn.core.records import Example
from explearn.lens.removal_effects import Effects, write_removal_effects
from explearn.lens.word_signals import WordSignals
from explearn.methods.perturbation.lime import Lime
from explearn.model.classifier import Classifier


def texts_to_measure(
    examples: Sequence[Example], texts: Iterable[WordSignals], marked: Mapping[str, object], most: int
) -> list[Example]:
    """Those of `examples` that a consensus learns from: with marks and a right prediction; the first `most` of `texts`.

    Args:
        texts: signals of some of the examples, which say what was predicted.
        marked: ids with marks.
    """
    by_id = {example.id: example for example in examples}
    found = [
        by_id[text.example_id]
        for text in texts
        if text.example_id in marked and text.predicted == by_id[text.example_id].label and text.read.any()
    ]
    return found[:most]


def removal_effects(
    classifier: Classifier, examples: Sequence[Example], samples: int, seed: int, description: str | None = None
) -> Effects:
    """LIME's word scores for the predicted class, by example id.

    Args:
        samples: copies of each text with words left out, the text itself included; equal ones are evaluated once.
        description: what a progress bar should say (default: no bar).
    """
    if not examples:
        return {}
    lime = Lime(samples=samples, seed=seed)
    return {
        str(found.example_id): found.scores for found in lime.explain(classifier, examples, description=description)
    }


def write_effects(
    target: str | os.PathLike[str],
    classifier: Classifier,
    examples: Sequence[Example],
    samples: int,
    seed: int,
    description: str | None = None,
) -> None:
    """Compute removal effects and write them. Arguments as of `removal_effects`."""
    found = removal_effects(classifier, examples, samples, seed, description)
    write_removal_effects(
        target, found, {"classifier": classifier.fingerprint, "method": "lime", "samples": samples, "seed": seed}
    )

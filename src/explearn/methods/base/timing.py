"""Explaining some texts with one method while counting passes and measuring time and memory."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from explearn.core.compute import peak_from_here
from explearn.core.errors import DataError
from explearn.core.examples import Example
from explearn.lens.passes import count_passes
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.targets import judged_targets
from explearn.metrics.runs import Cost, MethodRun
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.units import Unit


class ForwardClock:
    """A timer for classifying some texts, including tokenisation, before and after the computation to compare with.

    A computer's speed varies over time, so the two durations of a ratio are measured close together.
    """

    def __init__(self, classifier: TransformerPredictor, examples: Sequence[Example], share: int = 1) -> None:
        """Time 1 / share of the texts, drawn evenly over their lengths, and assume the same speed for the others.

        Raises DataError without texts.
        """
        if not examples:
            raise DataError("got no text to explain; expected at least one")
        by_length = sorted(examples, key=lambda example: -len(example.all_words)) if share > 1 else examples
        self._classifier, self._examples = classifier, by_length[share // 2 :: share]
        self._scale = len(examples) / len(self._examples)
        self._run()  # first calls load kernels and allocate buffers
        self._before = self._run()

    def seconds(self) -> float:
        """Return the mean time to classify all texts, measured now and at the previous call (or in the constructor)."""
        before, self._before = self._before, self._run()
        return (before + self._before) / 2

    def _run(self) -> float:
        start = time.perf_counter()
        self._classifier.predict_proba(self._classifier.encode(self._examples))
        return self._scale * (time.perf_counter() - start)


def explain_timed(
    explainer: Explainer,
    classifier: TransformerPredictor,
    examples: Sequence[Example],
    options: Mapping[str, Any],
    clock: ForwardClock,
    unit: Unit = "word",
    warm_up: int = 0,
) -> MethodRun:
    """Explain the predicted class (`judged_targets`) of every example, measuring passes and cost of this run.

    Args:
        options: the method's options, recorded in the result.
        clock: a clock for the same texts.
        unit: what is scored.
        warm_up: number of texts to explain first: the first calls import and compile packages, load kernels and
            allocate buffers, which is no cost of a text.

    Raises UnsupportedError if the method cannot explain the classifier.
    """
    explainer.check_explains(classifier)
    # First, because it returns freed memory to the system, and allocating that again is some 20 % slower.
    peak = peak_from_here(classifier.device)
    list(explainer.explain(classifier, examples[:warm_up], unit=unit))
    targets = judged_targets(classifier, examples)
    # A function of texts has no passes to count.
    with count_passes(classifier.model) if classifier.has_model else nullcontext() as passes:
        gc.collect()  # a full collection takes as long as classifying some forty texts, and would count as the method's
        start = time.perf_counter()
        description = f"explain with {explainer.name}"
        attributions = list(explainer.explain(classifier, examples, targets, description, unit=unit))
        seconds = time.perf_counter() - start
    memory = peak()
    return MethodRun(
        method=explainer.name,
        attributions=attributions,
        classifier=classifier.fingerprint,
        options=dict(options),
        forward_passes=None if passes is None else passes.forward / len(examples),
        backward_passes=None if passes is None else passes.backward / len(examples),
        threshold=explainer.threshold,
        notes=explainer.notes(),
        cost=Cost(texts=len(examples), seconds=seconds, forward_seconds=clock.seconds(), peak_memory_mb=memory),
    )

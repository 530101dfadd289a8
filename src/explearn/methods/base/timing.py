"""Explaining some texts with one method while counting passes and measuring time and memory."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from explearn.core.attribution import Aggregation
from explearn.core.compute import peak_from_here
from explearn.core.errors import DataError, UnansweredError
from explearn.core.examples import Example
from explearn.lens.hooks import count_passes
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.targets import judged_targets
from explearn.metrics.runs import Cost, MethodRun
from explearn.predictors.predictor import Predictor
from explearn.text.units import Unit


class ForwardClock:
    """A timer for classifying some texts, including tokenisation, before and after the computation to compare with.

    A computer's speed varies over time, so the two durations of a ratio are measured close together.

    Args:
        classifier: the classifier.
        examples: the texts.
        share: 1 / share of the texts is timed, at least one, drawn evenly over their lengths; the others are assumed
            as fast.

    Raises:
        DataError: there is no text.
    """

    def __init__(self, classifier: Predictor, examples: Sequence[Example], share: int = 1) -> None:
        if not examples:
            raise DataError("got no text to explain; expected at least one")
        share = min(share, len(examples))
        by_length = sorted(examples, key=lambda example: -len(example.all_words))
        self._examples = by_length[share // 2 :: share]
        self._classifier = classifier
        self._scale = len(examples) / len(self._examples)
        self._run()  # first calls load kernels and allocate buffers
        self._before = self._run()

    def seconds(self) -> float:
        """Return the mean time to classify all texts, measured now and at the previous call (or in the constructor)."""
        before = self._before
        self._before = self._run()
        return (before + self._before) / 2

    def _run(self) -> float:
        start = time.perf_counter()
        self._classifier.predict_proba(self._examples)
        return self._scale * (time.perf_counter() - start)


def explain_timed(
    explainer: Explainer,
    classifier: Predictor,
    examples: Sequence[Example],
    options: Mapping[str, Any],
    clock: ForwardClock,
    unit: Unit = "word",
    warm_up: int = 0,
    aggregation: Aggregation | None = None,
) -> MethodRun:
    """Explain the predicted class (`judged_targets`) of every example, measuring passes and cost.

    Texts that the classifier does not answer without some words are left out, as `Explainer.explain` does.

    Args:
        explainer: the method.
        classifier: the classifier.
        examples: the texts.
        options: the method's options, recorded in the result.
        clock: a clock for the same texts.
        unit: what is scored.
        warm_up: number of texts to explain first, unmeasured: the first calls import and compile packages, load kernels
            and allocate buffers.
        aggregation: as for `Explainer.explain`.

    Raises:
        UnansweredError: none of the texts can be explained.
        UnsupportedError: the method cannot explain the classifier.
    """
    explainer.check_explains(classifier)
    # First, because it returns freed memory to the system, and allocating that again is some 20 % slower.
    peak = peak_from_here(classifier.device)
    with suppress(UnansweredError):
        explainer.explain(classifier, examples[:warm_up], unit=unit)
    targets = judged_targets(classifier, examples)
    # A function of texts has no passes to count.
    counting: AbstractContextManager[Any] = nullcontext()
    if classifier.transformer is not None:
        counting = count_passes(classifier.transformer.model)
    with counting as passes:
        gc.collect()  # a full collection takes as long as classifying some forty texts, and would count as the method's
        start = time.perf_counter()
        description = f"explain with {explainer.name}"
        attributions = explainer.explain(classifier, examples, targets, description, unit=unit, aggregation=aggregation)
        seconds = time.perf_counter() - start
    memory = peak()
    forward_passes = None
    backward_passes = None
    if passes is not None:
        forward_passes = passes.forward / len(examples)
        backward_passes = passes.backward / len(examples)
    return MethodRun(
        method=explainer.name,
        attributions=attributions,
        classifier=classifier.fingerprint,
        options=dict(options),
        forward_passes=forward_passes,
        backward_passes=backward_passes,
        threshold=explainer.threshold,
        notes=explainer.notes(),
        cost=Cost(texts=len(examples), seconds=seconds, forward_seconds=clock.seconds(), peak_memory_mb=memory),
    )

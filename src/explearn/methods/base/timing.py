"""Explaining some texts with one method, its passes counted and its time and memory measured."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from explearn.core.compute import peak_from_here
from explearn.core.errors import DataError
from explearn.core.records import Example
from explearn.judge.runs import Cost, MethodRun
from explearn.lens.passes import count_passes
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.targets import judged_targets
from explearn.model.classifier import Classifier
from explearn.text.units import Unit

WARM_UP_TEXTS = 2
"""Texts explained before the clock starts: first calls load kernels and allocate buffers."""


class ForwardClock:
    """Times the plain classification of some texts, tokenisation included, before and after what it is compared with.

    A computer is not equally fast all the time, so a ratio of two durations is taken close together.
    """

    def __init__(self, classifier: Classifier, examples: Sequence[Example], share: int = 1) -> None:
        """Time 1 / share of the texts, drawn evenly over their lengths, and take the others to be as fast."""
        by_length = sorted(examples, key=lambda example: -len(example.all_words)) if share > 1 else examples
        self._classifier, self._examples = classifier, by_length[share // 2 :: share] or examples
        self._scale = len(examples) / len(self._examples)
        self._run()  # first calls load kernels and allocate buffers
        self._before = self._run()

    def seconds(self) -> float:
        """Mean of one classification of all texts now and the one before: at the last call, or in the constructor."""
        before, self._before = self._before, self._run()
        return (before + self._before) / 2

    def _run(self) -> float:
        start = time.perf_counter()
        self._classifier.predict_proba(self._classifier.encode(self._examples))
        return self._scale * (time.perf_counter() - start)


def explain_timed(
    explainer: Explainer,
    classifier: Classifier,
    examples: Sequence[Example],
    options: Mapping[str, Any],
    clock: ForwardClock | None = None,
    unit: Unit = "word",
) -> MethodRun:
    """Explain the predicted class (`judged_targets`) of every example; passes and cost are those of this very run.

    Args:
        options: of the method, noted in the result.
        clock: one of the same texts that has been running, where the method has explained texts in this process before;
            without it, both are warmed up here.
        unit: what is scored.

    Raises DataError when there is no example, UnsupportedError where the method cannot explain the classifier.
    """
    if not examples:
        raise DataError(f"{explainer.name}: there is no text to explain; expected at least one")
    explainer.check_explains(classifier)
    # First of all, since it gives freed memory back to the system, and what allocates it anew is some 20 % slower.
    peak = peak_from_here(classifier.device)
    forward = clock or ForwardClock(classifier, examples)
    if clock is None:
        list(explainer.explain(classifier, examples[:WARM_UP_TEXTS], unit=unit))
    targets = judged_targets(classifier, examples)
    # Of a function of texts there are no passes to count.
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
        cost=Cost(texts=len(examples), seconds=seconds, forward_seconds=forward.seconds(), peak_memory_mb=memory),
    )

"""Explaining the texts of a comparison by every method, with each method's main figures as soon as it has finished."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from explearn.comparison.candidates import Candidates
from explearn.comparison.plan import Plan, Tell, finished_run
from explearn.comparison.reading import ComparedTexts
from explearn.core.errors import UnsupportedError
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.timing import ForwardClock, explain_timed
from explearn.metrics.faithfulness import faithfulness
from explearn.metrics.params import EvaluateParams
from explearn.metrics.runs import MethodRun, write_run
from explearn.predictors.cached import CachedPredictions
from explearn.show.blocks import several

CLOCKED_TEXTS = 25
"""Classify at least this many texts (or all) around each method to time it against."""

INFIDELITY_SAMPLES = 6
"""Number of word sets masked per text."""


class MethodsRun:
    """A run of all methods on the texts of a comparison.

    Attributes:
        texts: the texts.
        plan: methods and number of texts.
        params: settings of the metrics.
        predictions: predictions for shortened texts, so that evaluating all methods need not repeat them.
        runs: method -> its run on the texts.
        refused: method -> why it could not explain one of the texts, such as a long one.
        used: method -> its explainer.
        passed: names of the methods that were passed as explainers.
    """

    def __init__(self, texts: ComparedTexts, plan: Plan, tell: Tell) -> None:
        self.texts = texts
        self.plan = plan
        self.params = EvaluateParams(infidelity_samples=INFIDELITY_SAMPLES)
        self.predictions = CachedPredictions(texts.classifier)
        self.runs: dict[str, MethodRun] = {}
        self.refused: dict[str, str] = {}
        self.used: dict[str, Explainer] = {}
        self.passed: set[str] = set()
        self._tell = tell
        self._remaining = {name: plan.expected(name) for name in plan.methods}
        self._start = time.perf_counter()
        self._expected = 0.0
        tell(
            f"{several(len(plan.methods), 'method')} on {plan.texts} of "
            f"{several(len(texts.user_texts.examples), 'text')}, classes {', '.join(texts.classifier.labels)}\n"
            "Means over the texts; comprehensiveness: larger is better, sufficiency: smaller"
        )
        if unread := texts.unread():
            tell(unread)

    def explain(self, candidates: Candidates, folder: Path | None) -> None:
        """Explain the texts with every planned method that an earlier call has not finished.

        Args:
            candidates: the methods.
            folder: folder that keeps the runs; None: nothing is kept.
        """
        texts = self.texts
        self.passed = set(candidates.explainers)
        clock: ForwardClock | None = None
        for name in self.plan.methods:
            explainer, options = candidates.make(name)
            self.used[name] = explainer
            path = folder and folder / f"{name}.parquet"
            if path and (run := finished_run(path, texts.fingerprint, texts.explained, options)):
                self.add(run, "of an earlier run")
                continue
            self._expected += self.plan.expected(name) or 0.0
            if clock is None:
                clock = ForwardClock(texts.classifier, texts.examples, max(1, len(texts.examples) // CLOCKED_TEXTS))
            try:
                run = explain_timed(explainer, texts.classifier, texts.examples, options, clock, texts.unit, warm_up=1)
            except UnsupportedError as error:
                self.refused[name] = str(error)
                self._tell(f"{name}: left out: {error}")
                continue
            run = replace(run, classifier=texts.fingerprint)
            if path:
                write_run(path, run, with_cost=True)
            self.add(run, f"{run.cost.seconds:.1f} s" if run.cost else "")

    def add(self, run: MethodRun, note: str) -> None:
        """Add a method's run and report its main figures; predictions made here are kept."""
        self.runs[run.method] = run
        results = faithfulness(
            self.texts.classifier,
            self.texts.encodings,
            {run.method: run.attributions},
            self.params,
            predictions=self.predictions,
        )
        figures = results[run.method].means()
        self._remaining.pop(run.method, None)
        # Correct the speed measured on a few texts, which may be far off, by the speed so far.
        pace = 1.0
        if self._expected:
            pace = (time.perf_counter() - self._start) / self._expected
        ahead = time_left(self._remaining, pace) or "then the page"
        self._tell(
            f"{run.method:<22} {note:>17}  comprehensiveness {figures['aopc_comprehensiveness']:+.3f}  "
            f"sufficiency {figures['aopc_sufficiency']:+.3f}  {ahead}"
        )


def time_left(expected: Mapping[str, float | None], pace: float) -> str:
    """Return how long the remaining methods will take, in words.

    Args:
        expected: method -> seconds, None if it was not timed.
        pace: factor by which the methods so far took longer than expected.
    """
    timed = [seconds for seconds in expected.values() if seconds is not None]
    untimed = [name for name, seconds in expected.items() if seconds is None]
    seconds = int(pace * sum(timed))
    parts = []
    if timed:
        parts.append(f"about {seconds // 60}:{seconds % 60:02d} left")
    if untimed:
        parts.append(f"then {', '.join(untimed)}")
    return ", ".join(parts)

"""The tests whose answer is known without anybody's marks: mosaics, and planted words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from numpy.typing import ArrayLike

from explearn.evaluation import Standing
from explearn.methods.results import Number, RunFacts, TaskReport, Tasks
from explearn.metrics.arrays import mean_of_known
from explearn.metrics.base import Measurement, Metric
from explearn.metrics.mosaics import MOSAICS
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.significance import paired_tests
from explearn.report.verdict import MARKS, ON_MARKS, over_all_texts
from explearn.show.blocks import figure


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """The figures of every method in a test with a known answer.

    Attributes:
        metric: the test, as a column of a table.
        figures: method -> the metric's figure and its bounds, under the names that tables read.
        standing: the best and the tied methods.
        chance: what scores without any knowledge have; None if unknown.
        meaning: the test in a sentence.
    """

    metric: Metric
    figures: Mapping[str, Mapping[str, Number]]
    standing: Standing
    chance: float | None
    meaning: str


def known_answers(run: RunFacts, tasks: Tasks, planted: Tasks) -> list[KnownAnswer]:
    """Return the tests that were run.

    Args:
        run: facts about the run.
        tasks: its results on each task, whose mosaics are put together.
        planted: its results on each task of planted words.
    """
    answers = [_planted(run, task) for task in planted]
    shares = over_all_texts(tasks, MOSAICS.name)
    if not shares:
        return answers
    figures = {}
    for method, values in shares.items():
        measurement = Measurement.of_mean(values)
        bounds = measurement.interval(run.evaluate.confidence, MOSAICS.lowest, MOSAICS.highest)
        figures[method] = _figures(MOSAICS, measurement.figure, *bounds)
    chance = mean_of_known(methods.get("mosaics_chance") for task in tasks for methods in task.methods.values())
    meaning = f"Mosaics: {MOSAICS.summary} (equal scores: {figure(chance)}; Arias-Duart et al. 2022)."
    return [KnownAnswer(MOSAICS, figures, _standing(run, MOSAICS, figures, shares), chance, meaning), *answers]


def _planted(run: RunFacts, task: TaskReport) -> KnownAnswer:
    """Return a task of planted words, without methods that have learned from these words' marks."""
    metric = replace(CATALOGUE[MARKS], name=f"planted_{task.task}", heading=f"Planted: {task.task}")
    figures = {}
    for method, found in task.methods.items():
        if run.options.get(method, {}).get("protocol") not in ON_MARKS:
            figures[method] = _figures(metric, *(found.get(f"{MARKS}{end}") for end in ("", "_low", "_high")))
    texts = max(int(found.get("plausibility_texts") or 0) for found in task.methods.values())
    meaning = (
        f"Planted: {task.task}: share of the planted words that decide the label among the {task.k} highest scores, on "
        f"the {texts} texts whose answer turned when the plant was changed. A dash: learned from these words' marks."
    )
    standing = _standing(run, metric, figures, task.by_text[metric.by_text])
    return KnownAnswer(metric, figures, standing, figures.get("random", {}).get(metric.name), meaning)


def _figures(metric: Metric, value: Number, low: Number, high: Number) -> dict[str, Number]:
    return {metric.name: value, f"{metric.name}_low": low, f"{metric.name}_high": high}


def _standing(
    run: RunFacts, metric: Metric, figures: Mapping[str, Mapping[str, Number]], by_text: Mapping[str, ArrayLike]
) -> Standing:
    values = {method: found[metric.name] for method, found in figures.items() if run.comparable(method, metric.name)}
    tests = paired_tests(metric.name, values, by_text, significance=run.evaluate.significance)
    return tests.best, tests.tied

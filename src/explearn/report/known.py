"""The table of known answers: what every method makes of mosaics and of planted words."""

from __future__ import annotations

from dataclasses import replace

from explearn.evaluation import Standing
from explearn.methods.results import Number, RunFacts, Tasks
from explearn.metrics.arrays import mean_of_known
from explearn.metrics.base import Measurement
from explearn.metrics.mosaics import MOSAICS
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.significance import paired_tests
from explearn.report.columns import leaderboard
from explearn.report.task_sections import over_all_texts
from explearn.show.blocks import Block, Paragraph, figure

TAUGHT = ("in_domain", "few_shot")
"""Values of an option `protocol` under which a method learns from the task's own marks, which name planted words."""


def known_answers(run: RunFacts, tasks: Tasks, planted: Tasks) -> list[Block]:
    """Return a table with a row for each method, and what its columns mean; nothing if nothing was measured.

    Args:
        run: facts about the run.
        tasks: its results on each task, whose mosaics are put together.
        planted: its results on each task of planted words, a column each.
    """
    columns = {MOSAICS: over_all_texts(tasks, MOSAICS.name)}
    for task in planted:
        column = replace(MOSAICS, name=task.task, heading=f"Planted: {task.task}")
        columns[column] = {}
        for method, values in task.by_text[CATALOGUE["f1_topk"].by_text].items():
            if run.options.get(method, {}).get("protocol") not in TAUGHT:
                columns[column][method] = values
    figures: dict[str, dict[str, Number]] = {name: {} for name in run.methods}
    standings: dict[str, Standing] = {}
    for metric, by_method in columns.items():
        means: dict[str, float | None] = {}
        for method, values in by_method.items():
            measurement = Measurement.of_mean(values)
            low, high = measurement.interval(run.evaluate.confidence)
            name = metric.name
            figures[method] |= {name: measurement.figure, f"{name}_low": low, f"{name}_high": high}
            if run.comparable(method, name):
                means[method] = measurement.figure
        tests = paired_tests(metric.name, means, by_method, significance=run.evaluate.significance)
        standings[metric.name] = (tests.best, tests.tied)
    board = leaderboard(run, "Known answers", figures, list(columns), standings)
    if board is None:
        return []
    return [board, Paragraph(_meaning(tasks, planted), style="note")]


def _meaning(tasks: Tasks, planted: Tasks) -> str:
    chances = [figures.get("mosaics_chance") for task in tasks for figures in task.methods.values()]
    sentences = [
        f"Mosaics: {MOSAICS.summary} (equal scores: {figure(mean_of_known(chances))}; Arias-Duart et al. 2022)."
    ]
    for task in planted:
        texts = max(int(figures.get("plausibility_texts") or 0) for figures in task.methods.values())
        sentences.append(
            f"Planted: {task.task}: share of the planted words that decide the label among the {task.k} highest "
            f"scores, on the {texts} texts whose answer turned when the plant was changed. A dash: learned from these "
            "words' marks."
        )
    return " ".join(sentences)

"""Tables of experiments that differ only in their seed: means and standard errors over the seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, Protocol

from explearn.core.method_names import get_info, leaderboard_order
from explearn.reporting.content.blocks import Block
from explearn.reporting.content.columns import Column
from explearn.reporting.content.markdown import Markdown

SEED = "seed"
"""The parameter that differs between repetitions."""


class Run(Protocol):
    """What these tables need of an experiment."""

    @property
    def name(self) -> str: ...
    @property
    def params(self) -> Mapping[str, Any]: ...
    @property
    def tasks(self) -> Mapping[str, Mapping[str, Mapping[str, float | None]]]: ...


def repetitions(runs: Sequence[Run]) -> list[list[Run]]:
    """Groups of two or more runs whose parameters differ only in the seed. Of several runs with one seed, the first."""
    groups: dict[str, dict[Any, Run]] = {}
    for run in runs:
        if run.tasks and SEED in run.params:
            others = json.dumps({key: value for key, value in run.params.items() if key != SEED}, sort_keys=True)
            groups.setdefault(others, {}).setdefault(run.params[SEED], run)
    return [list(group.values()) for group in groups.values() if len(group) > 1]


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean of two or more values, and its standard error: sample standard deviation / sqrt(number of values)."""
    return fmean(values), stdev(values) / len(values) ** 0.5


def seed_blocks(runs: Sequence[Run], columns: Sequence[Column]) -> list[Block]:
    """A table of the methods for each group of `repetitions`: mean over the tasks, then mean ± standard error over the
    seeds; a dash where the figure is missing for a seed."""
    blocks = []
    for group in repetitions(runs):
        methods = dict.fromkeys(method for run in group for found in run.tasks.values() for method in found)
        rows = []
        for method in leaderboard_order(list(methods)):
            cells = [Markdown(_cell(group, method, column)) for column in columns]
            rows.append([get_info(method).family, method, *cells])
        blocks.append(
            Block(
                f"Over {len(group)} seeds: {', '.join(run.name for run in group)}",
                headings=["Family", "Method", *(Markdown(column.title) for column in columns)],
                rows=rows,
                left=2,
            )
        )
    return blocks


def _cell(group: Sequence[Run], method: str, column: Column) -> str:
    values = [_mean(run, method, column.metric) for run in group]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "–"
    mean, error = mean_and_error(known)
    return f"{column.text(mean)} ± {column.text(error)}"


def _mean(run: Run, method: str, metric: str) -> float | None:
    values = [found.get(method, {}).get(metric) for found in run.tasks.values()]
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None

"""The report's section on the consensus: the weight of each signal and word feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from explearn.methods.results import RunFacts, TaskReport
from explearn.show.blocks import Block, Cell, Fold, Heading, Paragraph, Table, bold, columns

CONSENSUS = "consensus"

KINDS = {"z": "z-score", "rank": "Rank", "share": "Share"}
"""The features of each signal, by the end of the feature's name."""

INTRODUCTION = (
    "Change of a word's logit for one standard deviation of a feature. Each task has its own consensus, "
    "trained on the other tasks' marks; coefficients are means over the tasks. In brackets are 95 % intervals over the "
    "texts, their ends also averaged over the tasks. Bold: the interval excludes zero. The signals overlap, and so do "
    "the three features of each: read a row as a whole, and no single coefficient as the value of a method."
)


@dataclass(frozen=True, slots=True)
class FeatureWeight:
    """A feature's coefficient: its mean over the tasks, and its interval, None if unknown."""

    mean: float
    interval: tuple[float, float] | None

    @property
    def clear(self) -> bool:
        """True if the interval excludes zero."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]

    @property
    def cell(self) -> Cell:
        bounds = "" if self.interval is None else f"{self.interval[0]:+.2f} to {self.interval[1]:+.2f}"
        text = f"{self.mean:+.2f}"
        return Cell(bold(text) if self.clear else text, self.mean, note=bounds)


def report(run: RunFacts, tasks: Sequence[TaskReport]) -> list[Block]:
    """Return the weights of a consensus that this run trained."""
    notes = {task.task: of for task in tasks if "coefficients" in (of := task.notes.get(CONSENSUS, {}))}
    trained = [of for of in notes.values() if "shipped" not in of]
    if not trained:
        return []
    weights = feature_weights(trained)
    signals = {
        signal: {kind: weights[f"{signal}_{kind}"] for kind in KINDS if f"{signal}_{kind}" in weights}
        for signal in trained[0]["signals"]
    }
    of_signals = {f"{signal}_{kind}" for signal, kinds in signals.items() for kind in kinds}
    others = sorted(set(weights) - of_signals, key=lambda name: (-abs(weights[name].mean), name))
    dash = Cell("–")
    blocks: list[Block] = [
        Heading("Weights of the consensus"),
        Paragraph(INTRODUCTION),
    ]
    if clear := [name for name, weight in weights.items() if weight.clear]:
        largest = sorted(clear, key=lambda name: -abs(weights[name].mean))[:5]
        listed = ", ".join(f"{name} {weights[name].mean:+.2f}" for name in largest)
        blocks.append(
            Paragraph(
                f"{len(clear)} of {len(weights)} intervals exclude zero. The largest of these coefficients: {listed}."
            )
        )
    if signals:
        rows = [[name, *(kinds[k].cell if k in kinds else dash for k in KINDS)] for name, kinds in signals.items()]
        blocks.append(Table(columns(["Signal"], list(KINDS.values())), rows))
    rows = [[name, weights[name].cell] for name in others]
    return [
        *blocks,
        Fold(
            "Weights of neighbouring words, and of the word itself",
            [Table(columns(["Feature"], ["Coefficient"]), rows)],
        ),
    ]


def feature_weights(notes: Sequence[Mapping[str, Any]]) -> dict[str, FeatureWeight]:
    """Return the means over the tasks, by feature. notes: each task's notes on the consensus."""
    weights = {}
    for feature in notes[0]["coefficients"]:
        ends = [of["intervals"][feature] for of in notes if feature in of["intervals"]]
        interval = (fmean(low for low, _ in ends), fmean(high for _, high in ends)) if len(ends) == len(notes) else None
        weights[feature] = FeatureWeight(fmean(float(of["coefficients"][feature]) for of in notes), interval)
    return weights

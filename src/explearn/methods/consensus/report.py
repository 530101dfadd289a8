"""The report's section on the consensus: the weight of each signal and word feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

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


class FeatureWeight(NamedTuple):
    """A feature's coefficient.

    Attributes:
        mean: mean over the tasks.
        interval: its interval; None if unknown.
    """

    mean: float
    interval: tuple[float, float] | None

    @property
    def clear(self) -> bool:
        """True if the interval excludes zero."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]

    @property
    def cell(self) -> Cell:
        """Return the cell of a table."""
        text = f"{self.mean:+.2f}"
        if self.interval is None:
            return Cell(text, self.mean)
        return Cell(bold(text) if self.clear else text, self.mean, note="{:+.2f} to {:+.2f}".format(*self.interval))


def section(notes: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[Block]:
    """Return the weights of a consensus that this run trained.

    Args:
        notes: task -> method -> its notes.
    """
    trained = []
    for by_method in notes.values():
        noted = by_method.get(CONSENSUS, {})
        if "coefficients" in noted and "shipped" not in noted:
            trained.append(noted)
    if not trained:
        return []
    weights = feature_weights(trained)
    clear = sum(weight.clear for weight in weights.values())
    inside: list[Block] = [Paragraph(f"{INTRODUCTION} {clear} of {len(weights)} intervals exclude zero.")]
    others = dict(weights)
    rows: list[list[str | Cell]] = []
    for signal in trained[0]["signals"]:
        row: list[str | Cell] = [signal]
        for kind in KINDS:
            weight = others.pop(f"{signal}_{kind}", None)
            row.append(Cell("–") if weight is None else weight.cell)
        rows.append(row)
    if rows:
        inside.append(Table(columns(["Signal"], list(KINDS.values())), rows))
    names = sorted(others, key=lambda name: (-abs(others[name].mean), name))
    listed = ", ".join(f"{name} {others[name].cell.text}" for name in names)
    inside.append(Paragraph(f"Neighbouring words, and the word itself: {listed}.", page_only=True))
    return [Heading("Consensus"), Fold("Weights of its signals", inside)]


def feature_weights(notes: Sequence[Mapping[str, Any]]) -> dict[str, FeatureWeight]:
    """Return the means over the tasks, by feature.

    Args:
        notes: each task's notes on the consensus.
    """
    weights = {}
    for feature in notes[0]["coefficients"]:
        mean = fmean(float(note["coefficients"][feature]) for note in notes)
        interval = None
        if all(feature in note["intervals"] for note in notes):
            low, high = zip(*(note["intervals"][feature] for note in notes), strict=True)
            interval = (fmean(low), fmean(high))
        weights[feature] = FeatureWeight(mean, interval)
    return weights

"""The report's section on the consensus: the weight of each signal and word feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

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
    cells = {feature: weight(trained, feature) for feature in trained[0]["coefficients"]}
    rows: list[list[str | Cell]] = []
    for signal in trained[0]["signals"]:
        rows.append([signal, *(cells.pop(f"{signal}_{kind}", Cell("–")) for kind in KINDS)])
    # Features of neighbouring words, and of the word itself.
    for feature, cell in cells.items():
        rows.append([feature, cell, *[Cell("–")] * (len(KINDS) - 1)])
    table = Table(columns(["Signal or feature"], list(KINDS.values())), rows)
    return [Heading("Consensus"), Fold("Weights of its signals", [Paragraph(INTRODUCTION), table])]


def weight(trained: Sequence[Mapping[str, Any]], feature: str) -> Cell:
    """Return the cell of a feature: its mean coefficient over the tasks, bold if its interval excludes zero.

    Args:
        trained: each task's notes on the consensus.
        feature: name of the feature.
    """
    mean = fmean(float(note["coefficients"][feature]) for note in trained)
    text = f"{mean:+.2f}"
    if not all(feature in note["intervals"] for note in trained):
        return Cell(text, mean)
    low, high = (fmean(note["intervals"][feature][end] for note in trained) for end in (0, 1))
    if low > 0 or high < 0:
        text = bold(text)
    return Cell(text, mean, note=f"{low:+.2f} to {high:+.2f}")

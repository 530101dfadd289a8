"""Tables of findings, and the words of a result's sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explearn.show.blocks import Cell, Column, Table

MOST_NAMED = 3
"""Findings, or classes, that a sentence names."""


def percent(share: float) -> str:
    """Format a share, such as 12 %."""
    return f"{100 * share:.0f} %"


EFFECT = (
    "mean change of the probability of this answer; for phrases, words together, orders and places, what they add to "
    "their words"
)
"""What the effect of a finding is."""

LONGEST_TEXT = 160
"""Characters of a text in a table."""

BOUNDS = {
    "effect": ("low", "high"),
    "difference": ("low", "high"),
    "score": ("score_low", "score_high"),
    "accuracy": ("accuracy_low", "accuracy_high"),
}
"""Figure -> attributes that hold its interval."""

FORMATS = dict.fromkeys(("texts", "changed", "wrong", "mended", "right", "right_lost"), ",")
FORMATS |= dict.fromkeys(("accuracy", "probability", "probability_before", "noise", "calibration"), ".3f")
FORMATS |= dict.fromkeys(("having", "disagreeing", "reference", "now"), ".3f")
FORMATS["corrected"] = ".2g"
"""Figure -> its format; others are shown with their sign."""

ASCENDING = ("corrected", "correlation")
"""Figures of which the smallest comes first."""


def records_table(caption: str, records: Sequence[Any], shown: Mapping[str, str]) -> Table:
    """Return a table with a row for each record.

    Args:
        caption: its title.
        records: the records.
        shown: heading -> attribute.
    """
    heads = []
    for heading, name in shown.items():
        words = any(isinstance(getattr(record, name), str) for record in records)
        heads.append(Column(heading, numeric=not words, ascending=name in ASCENDING))
    rows = []
    for record in records:
        rows.append([cell(record, name) for name in shown.values()])
    kinds = [record.kind for record in records if hasattr(record, "kind")]
    return Table(heads, rows, caption, kinds)


def cell(record: Any, name: str) -> Cell:
    """Return words of a record, shortened; or a figure, with its interval if it has one."""
    value = getattr(record, name)
    if value is None:
        return Cell("–")
    if isinstance(value, str):
        return Cell(shortened(value, LONGEST_TEXT))
    form = FORMATS.get(name, "+.3f")
    note = ""
    if name in BOUNDS:
        low, high = (getattr(record, bound) for bound in BOUNDS[name])
        if low is not None:
            note = f"{low:{form}} to {high:{form}}"
    return Cell(f"{value:{form}}", value, note=note)


def shortened(text: str, most: int) -> str:
    """Return the start of a text that has more than so many characters."""
    if len(text) <= most:
        return text
    return f"{text[: most - 1]}…"

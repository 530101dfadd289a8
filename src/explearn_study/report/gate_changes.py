"""What `explearn gate` found, as a table and a sentence, for a terminal or a job summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import get_args

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from explearn.core.visible import visible
from explearn.show.markdown import Markdown, table
from explearn_study.report.gate import Change, Verdict

HEADINGS = ("Figure", "Before", "After", "Change", "Allowed", "Verdict")


def change_rows(changes: Sequence[Change]) -> list[list[str]]:
    """Cells under HEADINGS, regressions first."""
    return [
        [
            visible(change.metric if change.file == "reports/metrics.json" else f"{change.file}: {change.metric}"),
            _shown(change.old),
            _shown(change.new),
            Markdown("–" if change.old is None or change.new is None else f"{change.new - change.old:+.4f}"),
            Markdown(f"{'−' if change.rule.direction == 'higher' else '+'}{change.allowed:.4g}"),
            change.verdict,
        ]
        for change in sorted(changes, key=lambda change: not change.regression)
    ]


def print_changes(changes: Sequence[Change], markdown: bool) -> None:
    """Print a table of the changes, regressions first; in Markdown they are bold."""
    if not changes:
        return
    rows = change_rows(changes)
    if markdown:
        bad = sorted((change.regression for change in changes), reverse=True)
        cells = [
            [*row[:-1], Markdown(f"**{row[-1]}**") if is_bad else row[-1]]
            for row, is_bad in zip(rows, bad, strict=True)
        ]
        print(table(HEADINGS, cells))
        return
    shown = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    # Paths are long: in a narrow terminal they continue on the next line, and the numbers stay whole.
    shown.add_column(HEADINGS[0], overflow="fold")
    for heading in HEADINGS[1:-1]:
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column(HEADINGS[-1], no_wrap=True)
    for row in rows:
        shown.add_row(escape(row[0]), *row[1:], style="bold red" if row[-1] in ("worse", "gone") else None)
    Console(highlight=False).print(shown)


def summary(changes: Sequence[Change]) -> str:
    """How many figures became worse than allowed, and how many have each verdict, in a sentence."""
    counts = Counter(change.verdict for change in changes)
    listed = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in get_args(Verdict) if counts[verdict])
    worse = sum(change.regression for change in changes)
    return f"{f'{worse:,}' if worse else 'None'} of {len(changes):,} figures became worse than allowed: {listed}."


def _shown(value: float | None) -> Markdown:
    return Markdown("–" if value is None else f"{value:.4f}")

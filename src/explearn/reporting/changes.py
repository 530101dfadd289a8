"""A gate's findings as a table, for a terminal or a job summary."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from explearn.gate import Change
from explearn.reporting.markdown import Markdown, table

HEADINGS = ("Figure", "Before", "After", "Change", "Allowed", "Verdict")


def change_rows(changes: Sequence[Change]) -> list[list[str]]:
    """Cells under HEADINGS, regressions first."""
    return [
        [
            change.metric if change.file == "reports/metrics.json" else f"{change.file}: {change.metric}",
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
    shown = Table(*HEADINGS)
    for row in rows:
        shown.add_row(*row, style="bold red" if row[-1] in ("worse", "gone") else None)
    Console(highlight=False).print(shown)


def _shown(value: float | None) -> Markdown:
    return Markdown("–" if value is None else f"{value:.4f}")

"""What every Markdown page shares: the environment of its templates, and its tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from explearn.show.columns import Column, Row, marked
from explearn.show.markdown import Markdown, escape_markdown, table
from explearn_study.report.papers import SideBySide


def markdown_environment() -> Environment:
    """The environment of Markdown templates. Names and texts come from data: all but `Markdown` is escaped."""
    return Environment(
        loader=PackageLoader("explearn.show"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markdown) else escape_markdown(str(value)),
    )


def tidy(text: str) -> str:
    """The page with single blank lines, and one newline at its end."""
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def board(columns: Sequence[Column], rows: Sequence[Row], intervals: bool = True) -> Markdown:
    """A leaderboard; with `intervals`, that of F1 follows it in brackets."""
    return table(
        ["Family", "Method", *(Markdown(column.title) for column in columns)],
        [
            [
                row.family,
                marked(row.method),
                *(
                    cell.markdown(intervals and column.metric == "f1")
                    for column, cell in zip(columns, row.cells, strict=True)
                ),
            ]
            for row in rows
        ],
        left=2,
    )


def papers_table(found: SideBySide) -> Markdown:
    """A paper's figures beside ours; the best of each column is bold."""
    return table(
        ["Method", *found.headings],
        [
            [method, *(Markdown(f"**{text}**" if best else text) for text, best in cells)]
            for method, cells in found.rows
        ],
    )

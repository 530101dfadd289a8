"""The pages of a run's report, report.html and report.md, and their pictures.

report.html has everything. report.md leaves out what depends on the machine, so that the same results give the same
bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from explearn.core.words import lay_out
from explearn.core.writing import write_text
from explearn.report.page import draw, report_blocks
from explearn.report.run import RunFacts
from explearn.show.blocks import (
    Block,
    Bullets,
    Cell,
    Code,
    ExampleText,
    Fold,
    Heading,
    Paragraph,
    Picture,
    Table,
    bold,
)
from explearn.show.html_page import render_html
from explearn.show.markdown import Markdown, escape_markdown, inline_markdown, table

NARROW = 7
"""Most columns of a table that shows its cells' small print, such as intervals."""


WHOLE_TEXT_WORDS = 60
"""Longest example text, in words, that every row repeats in full. For longer texts only chosen words are shown."""


def write_report(folder: Path, run: RunFacts, more: Sequence[Block] = ()) -> None:
    """Write report.md, report.html and figures/ into `folder`, each file whole or not at all.

    Args:
        folder: where to.
        run: the evaluations, and facts about the run.
        more: further sections.
    """
    blocks = report_blocks(run, more)
    pictures = draw(blocks)
    for file, drawing in pictures.items():
        write_text(folder / file, drawing)
    write_text(folder / "report.html", render_html(blocks, pictures))
    write_text(folder / "report.md", render_markdown(select(blocks)))


def select(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks of a Markdown page, which does not depend on the machine, and of tables the columns.

    A heading stays with the blocks below it.
    """
    selected: list[Block] = []
    headings: list[Heading] = []
    for block in blocks:
        part: Block | None = block
        if isinstance(block, Heading):
            headings = [*(heading for heading in headings if heading.level < block.level), block]
            continue
        if block.page_only or block.machine:
            continue
        if isinstance(block, Table):
            part = _columns(block)
        elif isinstance(block, Fold):
            inside = select(block.blocks)
            part = None
            if inside:
                part = replace(block, blocks=inside)
        if part is not None:
            selected += [*headings, part]
            headings = []
    return selected


def _columns(block: Table) -> Table | None:
    """Return a table with the columns that do not depend on the machine; None if they only say what rows are about."""
    wanted = [index for index, column in enumerate(block.columns) if not column.machine]
    heads = [block.columns[index] for index in wanted]
    if all(column.key for column in heads):
        return None
    rows = []
    for row in block.rows:
        rows.append([row[index] for index in wanted])
    return replace(block, columns=heads, rows=rows)


def emphasise(
    words: Sequence[str], selected: Sequence[bool], whole: bool = True, joined: Sequence[int] = ()
) -> Markdown:
    """Return escaped words with the selected ones in bold, neighbours joined in one run.

    With `whole` False, an ellipsis replaces each run of other words. Runs are separated by a blank even where the text
    has none (`joined`): otherwise Markdown does not read asterisks next to punctuation as bold.
    """
    parts = []
    start = 0
    for chosen, run in groupby(selected, bool):
        end = start + len(list(run))
        text = escape_markdown(lay_out(words[start:end], joined, start).text)
        if chosen:
            parts.append(f"**{text}**")
        elif whole:
            parts.append(text)
        else:
            parts.append("…")
        start = end
    return Markdown(" ".join(parts))


def render_markdown(blocks: Sequence[Block]) -> str:
    """Return a page."""
    return "\n\n".join(map(_block, blocks)) + "\n"


def _block(block: Block) -> str:
    match block:
        case Heading():
            return f"{'#' * block.level} {inline_markdown(block.text)}"
        case Paragraph(style="warning"):
            return f"> [!WARNING]\n> {inline_markdown(block.text)}"
        case Paragraph():
            return inline_markdown(block.text)
        case Bullets():
            return "\n".join(f"* {inline_markdown(item)}" for item in block.items)
        case Code():
            # The fence is longer than any run of backticks in the text.
            longest = max((len(run) for run in re.findall(r"`+", block.text)), default=0)
            fence = "`" * max(3, 1 + longest)
            return f"{fence}{block.language}\n{block.text.rstrip()}\n{fence}"
        case Table():
            return _table(block)
        case Picture():
            return f"![{escape_markdown(block.alt)}]({block.file})"
        case ExampleText():
            return _example(block)
        case Fold():
            inside = render_markdown(block.blocks)
            return f"<details><summary>{escape_markdown(block.summary)}</summary>\n\n{inside}\n</details>"
    raise TypeError(f"unknown kind of block: {type(block).__name__}")


def _table(block: Table) -> str:
    numeric = [column.numeric for column in block.columns]
    left = [*numeric, True].index(True)
    rows = []
    for row in block.rows:
        rows.append([_cell(cell, notes=len(numeric) <= NARROW) for cell in row])
    text = table([column.title for column in block.columns], rows, left)
    if not block.caption:
        return text
    return f"{inline_markdown(block.caption)}:\n\n{text}"


def _example(block: ExampleText) -> str:
    whole = len(block.words) <= WHOLE_TEXT_WORDS
    title = inline_markdown(f"{bold(block.title)} {block.note}")
    if not whole:
        title = Markdown(f"{title} Only marked or chosen words of this long text are shown.")
    rows = []
    for row in block.rows:
        name = row.name
        if row.note:
            name = f"{row.name} ({row.note})"
        rows.append([name, emphasise(block.words, row.chosen, whole, block.joined)])
    return f"{title}\n\n{table(['By', 'Text'], rows, 2)}"


def _cell(cell: Cell | str, notes: bool) -> Markdown:
    if isinstance(cell, str):
        return inline_markdown(cell, starts_line=False)
    content = cell.text
    if cell.mark == "best":
        content = bold(content)
    text = inline_markdown(content, starts_line=False)
    if cell.mark == "tied":
        text = Markdown(f"<u>{text}</u>")
    if cell.note and notes:
        text = Markdown(f"{text} ({inline_markdown(cell.note, starts_line=False)})")
    return text

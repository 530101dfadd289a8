"""Blocks as GitHub Markdown, and text from data made safe for it.

Characters with a meaning in Markdown or HTML become character references (`&#42;`). By CommonMark 2.5 these are plain
text in every position, so one escape serves paragraphs, table cells and emphasis alike.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence

from explearn.core.blocks import (
    BOLD_END,
    BOLD_START,
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

NARROW = 6
"""Most columns of a table that shows its cells' small print, such as intervals."""

WHOLE_TEXT_WORDS = 60
"""Longest example text, in words, that every row repeats whole. Of longer ones only the chosen words are shown."""

_SPECIAL = "`*_[]|\\~#$@^"
_REFERENCES = {ord(char): f"&#{ord(char)};" for char in _SPECIAL} | {
    ord("&"): "&amp;",
    ord("<"): "&lt;",
    ord(">"): "&gt;",
}
# Quotation marks stay: they matter only inside attributes, where data never goes.
_BOLD = re.compile(f"{BOLD_START}([^{BOLD_START}{BOLD_END}]+){BOLD_END}")
# Neither white space nor visible: NUL and other control characters, and halves of surrogate pairs.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
# Between letters or digits an underscore starts no emphasis (CommonMark 6.2), so names_like_this stay legible.
_INNER_UNDERSCORE = re.compile(r"(?<=[A-Za-z0-9])&#95;(?=[A-Za-z0-9])")
# Bullets, setext underlines and ordered lists, which have a meaning only at the start of a line.
_LINE_START = re.compile(r"^([-+=]|\d+(?=[.)](?:\s|$)))")
# What GitHub turns into links by itself.
_AUTOLINK = re.compile(r"(?i)(?<=www)\.|:(?=//)")


class Markdown(str):
    """Text that is Markdown already; `table` escapes every other string."""

    __slots__ = ()


def escape_markdown(text: str) -> Markdown:
    """Return text as Markdown that renders as exactly that text, on one line.

    White space of any kind, newlines included, becomes single spaces and is removed at the ends. Characters that cannot
    be shown become U+FFFD. No part of the result can start an element, a table cell, emphasis, a link or HTML.
    """
    return Markdown(_LINE_START.sub(_first_as_reference, _escape(re.sub(r"\s+", " ", text).strip())))


def inline_markdown(text: str, starts_line: bool = True) -> Markdown:
    """Return a text of a block as Markdown: all is escaped but what `explearn.core.blocks.bold` marks."""
    parts = [_escape(part) for part in _BOLD.split(re.sub(r"\s+", " ", text).strip())]
    line = "".join(f"**{part}**" if index % 2 else part for index, part in enumerate(parts))
    return Markdown(_LINE_START.sub(_first_as_reference, line) if starts_line else line)


def _escape(line: str) -> str:
    line = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", line).translate(_REFERENCES)
    line = _INNER_UNDERSCORE.sub("_", line)
    return _AUTOLINK.sub(lambda match: f"&#{ord(match[0])};", line)


def _first_as_reference(match: re.Match[str]) -> str:
    return f"&#{ord(match[0][0])};{match[0][1:]}"


def emphasise(
    words: Sequence[str], selected: Sequence[bool], whole: bool = True, joined: Sequence[int] = ()
) -> Markdown:
    """Return words with the selected ones in bold, neighbours in one run; all are escaped.

    With `whole` False, an ellipsis stands for each run of other words. Runs have a blank between them, also where the
    text has none (`joined`): without, Markdown does not read marks beside punctuation as bold.
    """
    runs: list[tuple[bool, str]] = []
    for index, (word, chosen) in enumerate(zip(words, selected, strict=True)):
        if not runs or runs[-1][0] != bool(chosen):
            runs.append((bool(chosen), word))
        else:
            runs[-1] = bool(chosen), runs[-1][1] + ("" if index in joined else " ") + word
    parts = [(chosen, escape_markdown(run) if chosen or whole else "…") for chosen, run in runs]
    return Markdown(" ".join(f"**{text}**" if chosen else text for chosen, text in parts))


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Markdown:
    """Return a table; the first `left` columns are aligned left, the others right.

    Cells that are not Markdown are escaped.
    """
    lines = [headings, [Markdown("---")] * left + [Markdown("---:")] * (len(headings) - left), *rows]
    cells = [[cell if isinstance(cell, Markdown) else escape_markdown(cell) for cell in line] for line in lines]
    return Markdown("\n".join(f"| {' | '.join(line)} |" for line in cells))


def render_markdown(blocks: Sequence[Block], folder: str = "") -> str:
    """Return a page.

    folder: that of the page within the report, such as machine; its pictures are linked from there.
    """
    return "\n\n".join(_block(block, folder) for block in blocks) + "\n"


def _block(block: Block, folder: str) -> str:
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
            # No run of backticks in the text can end the block.
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", block.text)), default=0))
            return f"{fence}{block.language}\n{block.text.rstrip()}\n{fence}"
        case Table():
            numeric = [column.numeric for column in block.columns]
            left = numeric.index(True) if True in numeric else len(numeric)
            rows = [[_cell(cell, len(numeric) <= NARROW) for cell in row] for row in block.rows]
            caption = f"{inline_markdown(block.caption)}:\n\n" if block.caption else ""
            return caption + table([column.title for column in block.columns], rows, left)
        case Picture():
            return f"![{escape_markdown(block.alt)}]({posixpath.relpath(block.file, folder or '.')})"
        case ExampleText():
            whole = len(block.words) <= WHOLE_TEXT_WORDS
            words = [
                [
                    f"{row.name} ({row.note})" if row.note else row.name,
                    emphasise(block.words, row.chosen, whole, block.joined),
                ]
                for row in block.rows
            ]
            cut = "" if whole else f" Of more than {WHOLE_TEXT_WORDS} words only those marked or chosen are shown."
            return f"{inline_markdown(f'{bold(block.title)} {block.note}')}{cut}\n\n{table(['By', 'Text'], words, 2)}"
        case Fold():
            inside = render_markdown(block.blocks, folder)
            return f"<details><summary>{escape_markdown(block.summary)}</summary>\n\n{inside}\n</details>"
    raise TypeError(f"{type(block).__name__} is no block that is known here")


def _cell(cell: Cell | str, notes: bool) -> Markdown:
    if isinstance(cell, str):
        return inline_markdown(cell, starts_line=False)
    text = inline_markdown(bold(cell.text) if cell.mark == "best" else cell.text, starts_line=False)
    text = Markdown(f"<u>{text}</u>") if cell.mark == "tied" else text
    return Markdown(f"{text} ({inline_markdown(cell.note, starts_line=False)})") if cell.note and notes else text

"""Tables, and text from data made safe, for GitHub Markdown.

Characters with a meaning in Markdown or HTML become character references (`&#42;`). By CommonMark 2.5 these are plain
text in every position, so one escape serves paragraphs, table cells and emphasis alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from explearn.show.blocks import BOLD_END, BOLD_START

_SPECIAL = "`*_[]|\\~#$@^"
_REFERENCES = {ord(char): f"&#{ord(char)};" for char in _SPECIAL} | {
    ord("&"): "&amp;",
    ord("<"): "&lt;",
    ord(">"): "&gt;",
}
# Quotation marks stay: they matter only inside attributes, where no data is put.
_BOLD = re.compile(f"{BOLD_START}([^{BOLD_START}{BOLD_END}]+){BOLD_END}")
# Neither white space nor visible: NUL and other control characters, and halves of surrogate pairs.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
# Between letters or digits an underscore starts no emphasis (CommonMark 6.2), so names_like_this stay legible.
_INNER_UNDERSCORE = re.compile(r"(?<=[A-Za-z0-9])&#95;(?=[A-Za-z0-9])")
# Bullets, setext underlines and ordered lists, which have a meaning only at the start of a line.
_LINE_START = re.compile(r"^([-+=]|\d+(?=[.)](?:\s|$)))")
# Text that GitHub turns into links automatically.
_AUTOLINK = re.compile(r"(?i)(?<=www)\.|:(?=//)")


class Markdown(str):
    """Text that is already Markdown; `table` escapes every other string."""

    __slots__ = ()


def escape_markdown(text: str) -> Markdown:
    """Return text as Markdown that renders as exactly that text, on one line.

    White space of any kind, newlines included, becomes single spaces and is removed at the ends. Characters that cannot
    be shown become U+FFFD. No part of the result can start an element, a table cell, emphasis, a link or HTML.
    """
    return Markdown(_LINE_START.sub(_first_as_reference, _escape(re.sub(r"\s+", " ", text).strip())))


def inline_markdown(text: str, starts_line: bool = True) -> Markdown:
    """Return a block's text as Markdown: parts marked by `explearn.show.blocks.bold` are bold, all else is escaped.

    Args:
        text: the text.
        starts_line: whether it stands at the start of a line, where more characters have a meaning.
    """
    line = ""
    for index, part in enumerate(_BOLD.split(re.sub(r"\s+", " ", text).strip())):
        # Parts outside of and within bold text alternate.
        stars = "**" * (index % 2)
        line += stars + _escape(part) + stars
    return Markdown(_LINE_START.sub(_first_as_reference, line) if starts_line else line)


def _escape(line: str) -> str:
    line = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", line).translate(_REFERENCES)
    line = _INNER_UNDERSCORE.sub("_", line)
    return _AUTOLINK.sub(lambda match: f"&#{ord(match[0])};", line)


def _first_as_reference(match: re.Match[str]) -> str:
    return f"&#{ord(match[0][0])};{match[0][1:]}"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Markdown:
    """Return a table.

    Args:
        headings: of the columns.
        rows: the cells of each row. Those that are not Markdown are escaped.
        left: the first `left` columns are aligned left, the others right.
    """
    lines = [_row(headings), _row([Markdown("---")] * left + [Markdown("---:")] * (len(headings) - left))]
    lines += map(_row, rows)
    return Markdown("\n".join(lines))


def _row(cells: Sequence[str]) -> str:
    escaped = [cell if isinstance(cell, Markdown) else escape_markdown(cell) for cell in cells]
    return f"| {' | '.join(escaped)} |"

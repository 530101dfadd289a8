"""Text from data, made safe for GitHub Markdown.

Characters with a meaning in Markdown or HTML become character references (`&#42;`). By CommonMark 2.5 these are plain
text in every position, so one escape serves paragraphs, table cells and emphasis alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from markupsafe import Markup

_SPECIAL = "`*_[]|\\~#$@^"
_REFERENCES = {ord(char): f"&#{ord(char)};" for char in _SPECIAL} | {
    ord("&"): "&amp;",
    ord("<"): "&lt;",
    ord(">"): "&gt;",
}
# Quotation marks stay: they matter only inside attributes, where data never goes.
# Neither white space nor visible: NUL and other control characters, and halves of surrogate pairs.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
# Between letters or digits an underscore starts no emphasis (CommonMark 6.2), so names_like_this stay legible.
_INNER_UNDERSCORE = re.compile(r"(?<=[A-Za-z0-9])&#95;(?=[A-Za-z0-9])")
_WHITE_SPACE = re.compile(r"\s+")
# Bullets, setext underlines and ordered lists, which have a meaning only at the start of a line.
_LINE_START = re.compile(r"^([-+=]|\d+(?=[.)](?:\s|$)))")
_BOLD = re.compile(r"\*\*(.+?)\*\*")
# What GitHub turns into links by itself.
_AUTOLINK = re.compile(r"(?i)(?<=www)\.|:(?=//)")


class Markdown(str):
    """Text that is Markdown already; templates insert it as it is and escape every other string."""

    __slots__ = ()


def escape_markdown(text: str) -> Markdown:
    """Text as Markdown that renders as exactly that text, on one line.

    White space of any kind, newlines included, becomes single spaces and is removed at the ends. Characters that cannot
    be shown become U+FFFD. No part of the result can start an element, a table cell, emphasis, a link or HTML.
    """
    line = _WHITE_SPACE.sub(" ", text).strip()
    line = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", line).translate(_REFERENCES)
    line = _INNER_UNDERSCORE.sub("_", line)
    line = _AUTOLINK.sub(lambda match: f"&#{ord(match[0])};", line)
    return Markdown(_LINE_START.sub(_first_as_reference, line))


def _first_as_reference(match: re.Match[str]) -> str:
    return f"&#{ord(match[0][0])};{match[0][1:]}"


def emphasise(words: Sequence[str], selected: Sequence[bool], whole: bool = True) -> Markdown:
    """Words with the selected ones in bold, neighbours in one run; all are escaped.

    With `whole` False, an ellipsis stands for each run of other words.
    """
    runs: list[tuple[bool, list[str]]] = []
    for word, chosen in zip(words, selected, strict=True):
        if not runs or runs[-1][0] != bool(chosen):
            runs.append((bool(chosen), []))
        runs[-1][1].append(word)
    parts: list[str] = []
    for chosen, run in runs:
        text = escape_markdown(" ".join(run))
        if chosen:
            parts.append(f"**{text}**")
        else:
            parts.append(text if whole else "…")
    return Markdown(" ".join(parts))


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Markdown:
    """A table; the first `left` columns are aligned left, the others right. Cells that are not Markdown are escaped."""
    lines = [headings, ["---"] * left + ["---:"] * (len(headings) - left), *rows]
    cells = [
        [cell if isinstance(cell, Markdown) or index == 1 else escape_markdown(cell) for cell in line]
        for index, line in enumerate(lines)
    ]
    return Markdown("\n".join(f"| {' | '.join(line)} |" for line in cells))


def inline_html(text: Markdown) -> Markup:
    """One line of our own Markdown as HTML: bold becomes <strong>, and nothing else becomes an element.

    `text` holds only escaped data (`escape_markdown`) and `**bold**`; character references mean the same in HTML.
    """
    return Markup(_BOLD.sub(r"<strong>\1</strong>", text))

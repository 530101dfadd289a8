"""Blocks: what a report says, made once from the data, and rendered as Markdown and as HTML by `explearn.show`.

All text is plain: renderers escape it, so that names and words from data stand in sentences as they are. `bold` marks a
part of a sentence. A part of a page that only some runs have, such as what is said of a learned method, is a list of
blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from explearn.core.records import Attribution

Mark = Literal["", "best", "tied", "better", "worse"]
"""How a cell of a table stands out; see `Cell`."""

BOLD_START, BOLD_END = "\x02", "\x03"
"""Around bold text. Data that holds these control characters could at most make itself bold."""


def bold(text: str) -> str:
    """Mark a part of a text as bold."""
    return f"{BOLD_START}{text}{BOLD_END}"


def figure(value: float | None) -> str:
    """Return a figure to three digits, a dash where there is none."""
    return "–" if value is None else f"{round(value, 3) + 0.0:.3f}"


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a report.

    Attributes:
        machine: whether it depends on the machine of the run, as times do. Pages under version control leave it out.
        page_only: whether it stands on the HTML page alone.
    """

    _: KW_ONLY
    machine: bool = False
    page_only: bool = False


@dataclass(frozen=True, slots=True)
class Heading(Block):
    """A heading. level: 1 is the page's title, 2 begins a section. task: the task that the section is on, if any."""

    text: str
    level: int = 2
    task: str = ""


@dataclass(frozen=True, slots=True)
class Paragraph(Block):
    """A paragraph of text."""

    text: str
    style: Literal["", "lead", "note", "warning"] = ""


@dataclass(frozen=True, slots=True)
class Bullets(Block):
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True, slots=True)
class Code(Block):
    """Text shown as it is, such as a file of parameters. language: of the text, such as yaml."""

    text: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: its heading.
        numeric: whether its cells are numbers, which are aligned right.
        ascending: whether sorting puts the smallest value first.
        machine: whether its cells depend on the machine of the run.
        key: whether it says what a row is about, so that it stays where columns of a machine are parted from others.
    """

    title: str
    numeric: bool = True
    ascending: bool = False
    machine: bool = False
    key: bool = False


def columns(texts: Sequence[str], numbers: Sequence[str] = ()) -> list[Column]:
    """Return columns of text, and then columns of numbers, by their titles."""
    return [*(Column(title, numeric=False) for title in texts), *(Column(title) for title in numbers)]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: what it shows.
        value: the number by which the column is sorted; None sorts last.
        mark: best: no row is better; tied: not significantly worse than the best; better, worse: the row's method
            against the column's.
        note: small print, such as an interval.
        shade: strength of the background, -1 (blue) to 1 (orange); None for none.
    """

    text: str
    value: float | None = None
    mark: Mark = ""
    note: str = ""
    shade: float | None = None


@dataclass(frozen=True, slots=True)
class Table(Block):
    """A table. methods: the method that each row is about, by which rows can be filtered; empty where they are not."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell | str]]
    caption: str = ""
    methods: Sequence[str] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Picture(Block):
    """A drawing.

    Attributes:
        file: name of its SVG file, from the report's folder, such as figures/f1.svg.
        caption, alt: its title, and what it shows, in words.
        size: width and height in inches.
        draw: draws it onto an empty `matplotlib.figure.Figure` of that size.
    """

    file: str
    caption: str
    alt: str
    size: tuple[float, float]
    draw: Callable[[Any], None]


@dataclass(frozen=True, slots=True, eq=False)
class TextRow:
    """The words of an example text as one method, or those who marked it, see them.

    Attributes:
        name, note: who, and small print.
        chosen: the words that it chooses, bool (words,).
        attribution: its scores; None for marks.
        method: by which the row can be filtered; empty for none.
    """

    name: str
    note: str
    chosen: Sequence[bool]
    attribution: Attribution | None = None
    method: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ExampleText(Block):
    """A text, shown once a row.

    Attributes:
        title, note: its name, and what is known of it.
        words: of the text. pair_start: index of its second segment's first word, None where it has one segment.
        joined: indices of the words that stand directly behind the one before.
        rows: who chooses which words.
        right: whether the classifier's answer is right, None where that is not known.
    """

    title: str
    note: str
    words: Sequence[str]
    rows: Sequence[TextRow]
    pair_start: int | None = None
    right: bool | None = None
    joined: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Fold(Block):
    """Blocks that are shown when the reader opens them."""

    summary: str
    blocks: Sequence[Block]


def walk(blocks: Sequence[Block]) -> Iterator[Block]:
    """Give every block, those in folds included."""
    for block in blocks:
        yield block
        if isinstance(block, Fold):
            yield from walk(block.blocks)

"""Blocks: the content of a report, made once from the data, and rendered as Markdown and HTML by `explearn.show`.

All text is plain, and renderers escape it, so names and words from data can be put into sentences unchanged. `bold`
marks a part of a sentence. An optional part of a page, such as a section on a learned method, is a list of blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from explearn.core.attribution import Attribution

Mark = Literal["", "best", "tied", "better", "worse"]
"""How a cell of a table stands out; see `Cell`."""

BOLD_START = "\x02"
BOLD_END = "\x03"
"""Enclose bold text. Data with these control characters could at most make itself bold."""


def bold(text: str) -> str:
    """Mark a part of a text as bold."""
    return f"{BOLD_START}{text}{BOLD_END}"


def plain(text: str) -> str:
    """Return a text without the marks of bold words."""
    return text.replace(BOLD_START, "").replace(BOLD_END, "")


def several(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 task" or "1,200 texts"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def count_range(counts: Collection[int]) -> str:
    """Return the least and the largest count, such as "20 to 40"; if they are equal, one number."""
    return " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))


def figure(value: float | None) -> str:
    """Format a figure with three decimals; a dash for None."""
    return "–" if value is None else f"{round(value, 3) + 0.0:.3f}"


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a report.

    Attributes:
        machine: whether it depends on the machine, as times do. Pages under version control leave it out.
        page_only: whether only the HTML page shows it.
    """

    _: KW_ONLY
    machine: bool = False
    page_only: bool = False


@dataclass(frozen=True, slots=True)
class Heading(Block):
    """A heading.

    Attributes:
        text: the heading.
        level: 1 is the page's title, 2 begins a section.
        task: the section's task, if any.
    """

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
    """Text shown verbatim, such as a file of parameters.

    Attributes:
        text: the text.
        language: its language, such as yaml.
    """

    text: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: its heading.
        numeric: whether its cells are numbers, which are aligned right.
        ascending: whether sorting puts the smallest value first.
        machine: whether its cells depend on the machine.
        key: whether it says what a row is about, so that it is kept when a table is split by `machine`.
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
        mark: `best`: no row is better; `tied`: not significantly worse than the best; `better`, `worse`: the row's
            method against the column's.
        note: small print, such as an interval.
    """

    text: str
    value: float | None = None
    mark: Mark = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table(Block):
    """A table.

    Attributes:
        columns: its columns.
        rows: the cells of each row.
        caption: its title.
        methods: each row's method, by which rows can be filtered; empty if rows are not about methods.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell | str]]
    caption: str = ""
    methods: Sequence[str] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Picture(Block):
    """A drawing.

    Attributes:
        file: path of its SVG file within the report's folder, such as figures/f1.svg.
        caption: its title.
        alt: a description.
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
    """The words of an example text with one method's scores, or annotators' marks.

    Attributes:
        name: the method or annotators.
        note: small print.
        chosen: the chosen words, bool (words,).
        attribution: the scores; None for marks.
        method: method by which the row can be filtered; empty for none.
    """

    name: str
    note: str
    chosen: Sequence[bool]
    attribution: Attribution | None = None
    method: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ExampleText(Block):
    """An example text, repeated in each row.

    Attributes:
        title: its name.
        note: facts about it.
        words: its words.
        rows: one row per method, and for annotators.
        pair_start: index of its second segment's first word, None if it has one segment.
        right: whether the classifier's prediction is right, None if unknown.
        joined: indices of the words that directly follow the previous word.
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
    """Blocks that are shown when the reader opens them.

    Attributes:
        summary: what is always shown.
        blocks: the blocks.
    """

    summary: str
    blocks: Sequence[Block]


def walk(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield every block, including those in folds."""
    for block in blocks:
        yield block
        if isinstance(block, Fold):
            yield from walk(block.blocks)

"""Blocks as one self-contained HTML file: sorting, filters, words in colour; no script but its own can run."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib import resources

from markupsafe import Markup, escape

from explearn.core.escape import printable
from explearn.show.blocks import BOLD_END, BOLD_START, Block, ExampleText, Heading, Picture, Table, walk
from explearn.show.display import LOOK, css, words_html
from explearn.show.tables import csv_of, latex_of
from explearn.show.templates import html_templates

LEAST_INCH = 76
"""Pixels to which an inch of a picture shrinks at most; it scrolls then. Letters of 9 points stay 9.5 pixels high."""


def render_html(blocks: Sequence[Block], pictures: Mapping[str, str], filtered: str = "Methods") -> str:
    """Return a page; everything from data is escaped, also its control characters.

    Args:
        blocks: content of the page.
        pictures: file -> SVG, for the pictures among the blocks; pictures without an SVG are left out.
        filtered: what the rows of tables are filtered by (`Table.methods`).
    """
    environment = html_templates("explearn.show")
    environment.filters |= {
        "kind": lambda block: type(block).__name__,
        "inline": inline_html,
        "coloured": lambda row: Markup(words_html(row.attribution, list(row.chosen))),
        "drawing": lambda block: _drawing(pictures[block.file], block),
        "saved": _saved,
    }
    templates = resources.files("explearn.show").joinpath("templates")
    script = Markup(templates.joinpath("page.js").read_text(encoding="utf-8"))
    style = templates.joinpath("page.css").read_text(encoding="utf-8")
    first: list[Block] = []
    sections: dict[str, list[Block]] = {}
    part = first
    for block in blocks:
        if isinstance(block, Heading) and block.level == 2:
            # The name of its anchor; the same titles give the same names.
            name = _anchor(block.text)
            if not name or name in sections:
                name = f"section-{len(sections)}"
            part = sections[name] = []
        part.append(block)
    headings = [block for block in walk(blocks) if isinstance(block, Heading)]
    methods: list[str] = []
    for block in walk(blocks):
        if isinstance(block, Table):
            methods += block.methods
        if isinstance(block, ExampleText):
            methods += [row.method for row in block.rows if row.method]
    page = environment.get_template("page.html.j2").render(
        title=headings[0].text if headings else "",
        first=first,
        sections=sections,
        pictures=pictures,
        tasks=list(dict.fromkeys(heading.task for heading in headings if heading.task)),
        methods=list(dict.fromkeys(methods)),
        filtered=filtered,
        css=Markup(LOOK + style + css(".words")),
        script=script,
        # The page's Content-Security-Policy allows only the script with this hash.
        script_hash=f"sha256-{_base64(hashlib.sha256(script.encode()).digest())}",
    )
    return printable(page)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def inline_html(text: str) -> Markup:
    """Return a block's text as HTML: parts marked by `explearn.show.blocks.bold` are <strong>, all else is escaped.

    Long names may break after an underscore.
    """
    line = re.sub(f"{BOLD_START}([^{BOLD_START}{BOLD_END}]+){BOLD_END}", r"<strong>\1</strong>", str(escape(text)))
    return Markup(line.replace("_", "_<wbr>"))


def _drawing(svg: str, picture: Picture) -> Markup:
    """Return a picture for the page, with ids made unique.

    Args:
        svg: from matplotlib, which escapes text.
        picture: what it shows.
    """
    name = re.sub(r"[^a-z0-9]", "-", picture.file.lower())
    svg = re.sub(r'( id="|href="#|url\(#)', rf"\1{name}-", svg[svg.index("<svg") :])
    svg = svg.replace('<svg style="', f'<svg style="min-width:{picture.size[0] * LEAST_INCH:.0f}px;', 1)
    return Markup(svg).replace("<svg", Markup('<svg role="group" aria-label="{}"').format(picture.alt), 1)


def _saved(table: Table) -> list[tuple[str, str, str]]:
    """Return a table as downloadable files: kind, name and address of each."""
    name = _anchor(table.caption)[:60] or "table"
    address = "data:text/plain;charset=utf-8;base64,"
    return [
        ("CSV", f"{name}.csv", address + _base64(csv_of(table).encode())),
        ("LaTeX", f"{name}.tex", address + _base64(latex_of(table).encode())),
    ]


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")

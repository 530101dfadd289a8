"""Blocks: pieces of the report that only some runs have, for Markdown and HTML alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from explearn.show.markdown import Markdown, table


@dataclass(frozen=True, slots=True)
class Block:
    """A sentence, a table and a figure; any of them may be missing.

    Attributes:
        title: caption of the table. sentence: text above it.
        headings, rows: the table; cells that are not Markdown are escaped. left: how many columns are aligned left.
        figure, alt: name of an SVG file under figures/, and what it shows, in words.
    """

    title: str
    sentence: Markdown = field(default_factory=lambda: Markdown(""))
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    left: int = 1
    figure: str = ""
    alt: str = ""

    @property
    def markdown(self) -> Markdown:
        """The block without its title."""
        parts = [self.sentence] if self.sentence else []
        if self.rows:
            parts.append(table(self.headings, self.rows, self.left))
        if self.figure:
            parts.append(Markdown(f"![{self.alt}](figures/{self.figure})"))
        return Markdown("\n\n".join(parts))

"""Several attributions, grouped by text."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from explearn.core.attribution import Attribution, each_attribution, text_numbers
from explearn.core.word_tables import to_frame
from explearn.show import display
from explearn.show.blocks import several

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Group


class Attributions(list[Attribution]):
    """A list of attributions that displays itself text by text, in notebooks and in colour through rich (`print()`).

    Args:
        attributions: of any texts, classes and methods.

    Raises:
        DataError: an entry is not an attribution.

    Example:
        >>> import explearn
        >>> document = {"words": ["good"], "scores": [1], "target": "positive"}
        >>> attributions = explearn.Attributions(
        ...     explearn.Attribution.from_dict(document | {"method": method}) for method in ("lime", "gae")
        ... )
        >>> attributions
        Attributions(1 text, methods=lime, gae)
        >>> len(attributions)
        2
    """

    def __init__(self, attributions: Iterable[Attribution] = ()) -> None:
        super().__init__(each_attribution(attributions))

    @property
    def texts(self) -> list[list[Attribution]]:
        """The attributions of each text, in the order in which the texts first appear.

        A text that is repeated for the same method and class counts as two texts.
        """
        texts: dict[int, list[Attribution]] = {}
        for number, attribution in zip(text_numbers(self), self, strict=True):
            texts.setdefault(number, []).append(attribution)
        return list(texts.values())

    @property
    def methods(self) -> list[str]:
        """Names of the methods, in the order in which they first appear."""
        return list(dict.fromkeys(attribution.method for attribution in self))

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | Path:
        """Return HTML to embed in a page, or write a page and return its path.

        Args:
            path: the page to write, whole or not at all. None: return HTML.

        Raises:
            ParamsError: the page would replace something else.
            DataError: the page cannot be written.
        """
        return display.embed_or_write("".join(map(display.rows, self.texts)), path)

    def to_frame(self) -> pd.DataFrame:
        """Return a frame with one row per word (`explearn.to_frame`)."""
        return to_frame(self)

    def print(self) -> None:
        """Print the texts in colour; `print(attributions)` prints one plain line per attribution."""
        from rich.console import Console

        Console().print(self)

    _repr_html_ = to_html

    def __rich__(self) -> Group:
        from rich.console import Group

        return Group(*map(display.terminal, self.texts))

    def __str__(self) -> str:
        return "\n".join(map(display.line, chain.from_iterable(self.texts)))

    def __repr__(self) -> str:
        return f"Attributions({several(len(self.texts), 'text')}, methods={', '.join(self.methods) or 'none'})"

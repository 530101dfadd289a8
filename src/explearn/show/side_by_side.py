"""Several methods on the same texts, side by side."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from explearn.core.attribution import Attribution, each_attribution
from explearn.show.display import in_notebook, line, rows, terminal, write_page

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Group


@dataclass(frozen=True, slots=True, eq=False)
class SideBySide:
    """Attributions by text: each entry of `texts` holds one text's attributions, in the order given.

    It displays itself in notebooks, and in colour through rich (`print()`); it is also the sequence of its
    attributions.
    """

    texts: tuple[tuple[Attribution, ...], ...]

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods, in the order in which they first appear."""
        return tuple(dict.fromkeys(a.method for text in self.texts for a in text))

    def __iter__(self) -> Iterator[Attribution]:
        return (attribution for text in self.texts for attribution in text)

    def __len__(self) -> int:
        return sum(map(len, self.texts))

    def __getitem__(self, index: int) -> Attribution:
        return list(self)[index]

    def __repr__(self) -> str:
        texts = "text" if len(self.texts) == 1 else "texts"
        return f"SideBySide({len(self.texts)} {texts} by {', '.join(self.methods) or 'no method'})"

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | Path:
        """Return HTML to embed in a page, or with `path` write a page (whole or not at all) and return the path.

        Raises DataError if the page cannot be written.
        """
        body = "".join(rows(text) for text in self.texts)
        return in_notebook(body) if path is None else write_page(path, body)

    def to_pandas(self) -> pd.DataFrame:
        """Return a frame with one row per word (`explearn.to_frame`)."""
        from explearn.core.word_tables import to_frame

        return to_frame(self)

    def print(self) -> None:
        """Print the texts in colour; `print(side_by_side)` prints one plain line per attribution."""
        from rich.console import Console

        Console().print(self)

    _repr_html_ = to_html

    def __rich__(self) -> Group:
        from rich.console import Group

        return Group(*(terminal(a) for text in self.texts for a in text))

    def __str__(self) -> str:
        return "\n".join(line(a) for text in self.texts for a in text)


def side_by_side(attributions: Iterable[Attribution]) -> SideBySide:
    """Group attributions by text, that is by words and id, in the order given.

    A text that is repeated for the same method and class counts as two texts.

    Raises DataError for anything but attributions.
    """
    texts: dict[tuple[object, ...], list[Attribution]] = {}
    seen: Counter[tuple[object, ...]] = Counter()
    for attribution in each_attribution(attributions):
        text = (attribution.example_id, attribution.words, attribution.pair_start, attribution.token)
        of_method = (*text, attribution.method, attribution.target)
        texts.setdefault((*text, seen[of_method]), []).append(attribution)
        seen[of_method] += 1
    return SideBySide(tuple(map(tuple, texts.values())))

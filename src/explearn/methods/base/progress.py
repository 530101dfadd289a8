"""How far a method is: a bar on a terminal, and where texts are read through windows, lines on standard error."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import monotonic

from tqdm.auto import tqdm

from explearn.model.windows import Windowed

TELL_SECONDS = 60.0
"""Where there is no bar, a line each time that so much has passed."""


class Progress:
    """Counts texts or, where they are read through windows, the windows: one text alone may take hours.

    Args:
        description: what the bar and the lines begin with; None: nothing is said.
        windowed: whether windows are counted.
        limit: most sub-tokens that are read at once.
    """

    def __init__(self, description: str | None, windowed: bool, limit: int) -> None:
        self._description, self._windowed, self._limit = description, windowed, limit
        unit = "window" if windowed else "text"
        self._bar = tqdm(desc=description, unit=unit, disable=None if description else True)
        self._done = self._all = 0
        self._begun: float | None = None
        self._told: float | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def texts_read(self, texts: Sequence[Windowed]) -> None:
        """Say how many windows texts are read through, before anything is computed for them."""
        longer = [len(text.windows) for text in texts if len(text.windows) > 1]
        if self._description and longer:
            said = "1 text is longer" if len(longer) == 1 else f"{len(longer):,} texts are longer"
            self._tell(
                f"{self._description}: {said} than the {self._limit:,} sub-tokens that are read at once; "
                f"{sum(longer):,} windows are explained"
            )

    def begin(self, scored: int) -> None:
        """So many more texts or windows are now to be scored, each class of a text by itself."""
        if self._windowed:
            self._all += scored
            self._bar.total = self._all
            self._bar.refresh()
        if self._begun is None:
            self._begun = monotonic()

    def advance(self, scored: int) -> None:
        """So many of them are scored."""
        self._bar.update(scored)
        self._done += scored
        if not (self._description and self._windowed and self._bar.disable) or self._done >= self._all:
            return
        assert self._begun is not None
        now = monotonic()
        left = (now - self._begun) / self._done * (self._all - self._done)
        # The first line as soon as it is known that this takes long.
        due = left >= TELL_SECONDS if self._told is None else now - self._told >= TELL_SECONDS
        if due:
            self._told = now
            self._tell(
                f"{self._description}: {self._done:,} of {self._all:,} windows, about {tqdm.format_interval(left)} left"
            )

    def _tell(self, line: str) -> None:
        tqdm.write(line, file=sys.stderr)
        sys.stderr.flush()

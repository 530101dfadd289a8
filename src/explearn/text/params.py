"""Parameters that name the columns of a table of texts."""

from __future__ import annotations

from explearn.core.validation import Section


class Columns(Section):
    """Names of the columns of a user's table (adapter `custom`). Set `text` or `words`, not both."""

    id: str | None = None
    """Identifier (default: ids are TASK-FILE-ROW)."""
    text: str | None = None
    words: str | None = None
    pair: str | None = None
    """Second segment, as text."""
    label: str = "label"
    marked: str | None = None
    """Text with its evidence in double square brackets, [[like this]]."""
    mask: str | None = None
    """List of 0/1, one per word."""
    spans: str | None = None
    """List of [start, end) word offsets."""

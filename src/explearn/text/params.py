"""The columns of a table of texts, by what they hold."""

from __future__ import annotations

from explearn.core.validation import Section


class Columns(Section):
    """Names of the columns of a user's own table (adapter `custom`). Give `text` or `words`, not both."""

    id: str | None = None
    """Identifier; where there is none, ids are TASK-FILE-ROW."""
    text: str | None = None
    words: str | None = None
    pair: str | None = None
    """Second segment, as text."""
    label: str = "label"
    marked: str | None = None
    """Text whose evidence is set in double square brackets, [[like this]]."""
    mask: str | None = None
    """List of 0/1, one per word."""
    spans: str | None = None
    """List of [start, end) word offsets."""

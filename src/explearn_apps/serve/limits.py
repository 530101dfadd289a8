"""Limits of the service: what a request and its answer may hold, and how much may wait at once."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, computed_field

from explearn.core.validation import Section

CHAR_BYTES = 12
"""Most bytes that a character takes in a request: JSON as two escapes, \\ud83e\\udd8a, and a form as %F0%9F%A6%8A."""

MOST_BODY_BYTES = 256 * 2**20
MOST_SCORES = 1_000_000
MOST_WAITING = 512

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0)]


class Limits(Section):
    """Bounds of the service."""

    texts: Count = 32
    """Texts of a request."""
    text_chars: Count = 10_000
    """Characters of a text, its second segment included."""
    methods: Count = 8
    """Methods of a request."""
    labels: Count = 8
    """Labels of a request."""
    seconds: Seconds = 30.0
    """Seconds that a request may wait for its answer."""
    connections: Count = 256
    """Connections open at once."""
    join_seconds: Seconds = 0.003
    """Seconds that a text waits for others of the same method, which then go through the model with it."""
    join_texts: Count = 32
    """Texts of a batch."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def body_bytes(self) -> int:
        """Bytes of a request: room for the largest one, with the text before a change that a form holds as well."""
        return min(MOST_BODY_BYTES, CHAR_BYTES * max(2, self.texts) * self.text_chars + 8 * self.texts + 64 * 1024)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def scores(self) -> int:
        """Scores of an answer, one for each word, method and label; room for every text once."""
        return max(MOST_SCORES, self.texts * (self.text_chars // 2 + 1))

    @property
    def waiting(self) -> int:
        """Texts that may wait for the model: each once a method and once for its probabilities."""
        return max(MOST_WAITING, self.texts * (self.methods + 1))

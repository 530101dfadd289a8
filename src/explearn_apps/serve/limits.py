"""Limits of the service: sizes of a request and its answer, and how much may wait at once."""

from __future__ import annotations

from pydantic import computed_field

from explearn.core.validation import NonNegativeFloat, PositiveInt, Section

CHAR_BYTES = 12
"""Most bytes of a character in a request: two escapes in JSON, \\ud83e\\udd8a, or %F0%9F%A6%8A in a form."""

MOST_BODY_BYTES = 256 * 2**20
MOST_SCORES = 1_000_000
MOST_WAITING = 512


class Limits(Section):
    """Limits of the service."""

    texts: PositiveInt = 32
    """Texts per request."""
    text_chars: PositiveInt = 10_000
    """Characters per text, including its second segment."""
    methods: PositiveInt = 8
    """Methods per request."""
    labels: PositiveInt = 8
    """Labels per request."""
    seconds: NonNegativeFloat = 30.0
    """Seconds that a request may take to arrive, and then may wait for its answer."""
    connections: PositiveInt = 256
    """Open connections. A further one replaces the oldest one without a whole request, if any."""
    client_connections: PositiveInt = 200
    """Open connections of one address; as above."""
    join_texts: PositiveInt = 32
    """Texts per batch."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def body_bytes(self) -> int:
        """Bytes per request: room for the largest one, including the text before a change in the page's form."""
        return min(MOST_BODY_BYTES, CHAR_BYTES * max(2, self.texts) * self.text_chars + 8 * self.texts + 64 * 1024)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def scores(self) -> int:
        """Scores in an answer, one per word, method and label; room for every text once."""
        return max(MOST_SCORES, self.texts * (self.text_chars // 2 + 1))

    @property
    def waiting(self) -> int:
        """Texts that may wait for the model, counted once per method and once for probabilities."""
        return max(MOST_WAITING, self.texts * (self.methods + 1))

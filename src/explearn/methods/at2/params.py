"""Options of AT2."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from explearn.core.validation import PositiveInt, Seeded


class AT2Params(Seeded):
    samples: Annotated[int, Field(ge=4, le=10_000)] = 32
    """Answers a text."""
    max_texts: PositiveInt = 1000
    """Most training texts."""

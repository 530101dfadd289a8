"""What the log says of words that a classifier did not read."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

logger = logging.getLogger(__name__)

_KNOWN: ContextVar[bool] = ContextVar("unread words are known", default=False)


@contextmanager
def unread_words_known() -> Iterator[None]:
    """Within it, `tell_unread` is silent: for what explains the same texts many times and says it once by itself."""
    before = _KNOWN.set(True)
    try:
        yield
    finally:
        _KNOWN.reset(before)


def tell_unread(method: str, words: int, cut: int, read: int, most: int) -> None:
    """Log as a warning that `words` words of `cut` of `read` texts have no score; `most`: sub-tokens that are read."""
    if words and not _KNOWN.get():
        logger.warning(
            "%s: %s words of %s of %s texts were not read, being beyond %s sub-tokens or of no known characters; "
            "they have no score",
            method,
            *(f"{number:,}" for number in (words, cut, read, most)),
        )

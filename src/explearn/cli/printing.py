"""What commands print through rich."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from explearn.core.visible import visible


def printed(text: str) -> str:
    """Text from outside as rich may print it: neither markup nor the terminal's commands in it have an effect."""
    return escape(visible(text))


def console() -> Console:
    """A console that leaves figures and line ends as they are."""
    return Console(highlight=False, soft_wrap=True)

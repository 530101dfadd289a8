"""Old names, on their way out."""

from explearn.core.display import (
    AGAINST,
    FAINT,
    FOR,
    UNREAD,
    Colour,
    colour_map,
    css,
    hexadecimal,
    shows_signs,
    strengths,
)

__all__ = [
    "AGAINST",
    "FAINT",
    "FOR",
    "UNREAD",
    "Colour",
    "colour_map",
    "css",
    "hexadecimal",
    "shows_signs",
    "strengths",
]

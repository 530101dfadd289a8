"""The colours of word scores, the same on every page, in notebooks, in the terminal and in figures.

Orange speaks for the class and blue against it. People with any common colour blindness can tell the two apart, and a
sign before the word says the same without colour. The background is translucent, so that one pair of colours serves
light and dark pages.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import ArrayLike, NDArray

Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""

FOR: Colour = (200, 98, 10)
AGAINST: Colour = (47, 125, 209)

OPACITY = 0.7
"""Of the background at full strength. Text keeps a contrast of 4.5 to 1 on it, on light pages and on dark ones."""

FAINT = 0.1
"""Strength below which a word has no sign, and no colour in a terminal."""

UNREAD = "not read by the classifier"


def strengths(scores: ArrayLike) -> NDArray[np.float64]:
    """Scores as shares of the largest absolute score, from -1 to 1, (words,); NaN (a word that was not read) stays."""
    array = np.asarray(scores, dtype=np.float64)
    largest = np.nanmax(np.abs(array), initial=0.0)
    found: NDArray[np.float64] = array / (largest or 1.0)
    return found


def shows_signs(signed: bool, scores: ArrayLike) -> bool:
    """Whether words get a sign: where scores below zero would be evidence against the class, or there are some."""
    return signed or bool((np.asarray(scores) < 0).any())


def classes(strength: float, signs: bool) -> str:
    """The CSS classes of a word, for `css`."""
    if np.isnan(strength):
        return "unread"
    side = "against" if strength < 0 else "for"
    return f"{side} signed" if signs and abs(strength) >= FAINT else side


def css(scope: str) -> str:
    """Rules for words inside `scope`, a CSS selector; each word has its `classes` and its strength as --s, 0 to 1."""

    def tinted(colour: Colour) -> str:
        return f"background:rgb({' '.join(map(str, colour))} / calc(var(--s)*{OPACITY}))"

    rules = {
        ".for": tinted(FOR),
        ".against": tinted(AGAINST),
        ".for.signed::before": 'content:"+"',
        ".against.signed::before": 'content:"\\2212"',
        ".unread": "opacity:.65;text-decoration:line-through",
    }
    return "".join(f"{scope} {selector}{{{rule}}}\n" for selector, rule in rules.items())


def hexadecimal(colour: Colour) -> str:
    """As in `#c8620a`."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


def colour_map(sides: Collection[Colour]) -> list[str]:
    """Colours from which matplotlib makes a scale: from white to one colour, or from the first through white to the
    second."""
    ends = [hexadecimal(side) for side in sides]
    return ["#ffffff", *ends] if len(ends) == 1 else [ends[0], "#ffffff", ends[1]]

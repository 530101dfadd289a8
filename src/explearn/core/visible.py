"""Text from outside on its way to a terminal or a page: what would steer the reader's screen is shown instead.

A text, a label or a server's answer may hold escape sequences that clear a terminal, set its title or hide what was
printed, and marks that turn the direction of writing around. They are printed as Python writes them in a string.
"""

from __future__ import annotations

import json
import re

_STEERING = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and line feed, DEL, C1
    "\u2028\u2029"  # line and paragraph separators
    "\u202a-\u202e\u2066-\u2069"  # embeddings, overrides and isolates of writing direction
    "\ud800-\udfff"  # halves of UTF-16 pairs, which no terminal takes
)
_UNSEEN = re.compile(f"[{_STEERING}]")
_UNSEEN_IN_LINE = re.compile(f"[{_STEERING}\t\n]")

_RAW_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str, *, one_line: bool = False) -> str:
    """`text` with control characters as escapes such as `\\x1b`. Twice is the same as once.

    Tab and line feed stay, but for `one_line`, where they are escaped, too.
    """
    if text.isascii() and text.isprintable():
        return text
    return (_UNSEEN_IN_LINE if one_line else _UNSEEN).sub(_python_escape, text)


def visible_json(value: object, *, ascii_only: bool = False) -> str:
    """One line of JSON with the same characters escaped; what reads it gets the value as it was.

    Args:
        ascii_only: escape all that is not ASCII, for a terminal that takes nothing else.

    Raises ValueError for NaN and infinities, on which readers disagree.
    """
    line = json.dumps(value, ensure_ascii=ascii_only, allow_nan=False)
    return _RAW_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", line)


def _python_escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

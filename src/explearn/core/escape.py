"""Escaping of control characters in external text that is printed or put on a page.

A text, a label or a server's answer may hold escape sequences that clear a terminal, set its title or hide earlier
output, and marks that reverse the writing direction. They are printed as Python writes them in a string.
"""

from __future__ import annotations

import json
import re

_STEERING = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and line feed, DEL, C1
    "\u2028\u2029"  # line and paragraph separators
    "\u202a-\u202e\u2066-\u2069"  # embeddings, overrides and isolates of writing direction
    "\ud800-\udfff"  # halves of UTF-16 pairs, which no terminal accepts
)
_ESCAPED = re.compile(f"[{_STEERING}]")
_ESCAPED_IN_LINE = re.compile(f"[{_STEERING}\t\n]")
_RAW_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str, *, one_line: bool = False) -> str:
    """Return a text with control characters as escapes such as `\\x1b`; escaping twice is the same as once.

    Args:
        text: any text.
        one_line: escape tab and line feed, too.
    """

    def escape(match: re.Match[str]) -> str:
        code = ord(match[0])
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

    return (_ESCAPED_IN_LINE if one_line else _ESCAPED).sub(escape, text)


def printable_json(value: object, *, ascii_only: bool = False) -> str:
    """Return one line of JSON with the same characters escaped; a JSON reader gets the value back unchanged.

    Args:
        value: the value.
        ascii_only: escape all non-ASCII characters, for a terminal that accepts no others.

    Raises:
        ValueError: the value holds NaN or an infinity, which JSON readers treat differently.
    """
    line = json.dumps(value, ensure_ascii=ascii_only, allow_nan=False)
    return _RAW_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", line)


def is_unicode(text: str) -> bool:
    """Return whether `text` is free of lone surrogates (halves of UTF-16 pairs), which no file format accepts."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)

"""The ways to write down a word mask: text with marks, 0/1 lists, spans.

These functions raise DataError with what they got and expected; callers put file and row before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby

from explearn.core.documents import parse_json
from explearn.core.errors import DataError
from explearn.core.words import Segment, Span, locate

_PIECE = re.compile(r"\[{2,}|\]{2,}|.+?(?=\[\[|\]\]|$)", re.DOTALL)
"""Two or more brackets in a row, or the text up to the next ones."""

_CONTEXT_CHARS = 20
"""Characters of the text before and after a bracket that an error repeats."""


def parse_marked(text: str, expected: Segment | None = None) -> tuple[Segment, tuple[bool, ...]]:
    """Return a text without its marks, which are double square brackets around evidence, and the mask of its words.

    A word counts as marked when any of its characters stands inside brackets: `[[good]],` is the marked word `good,`.
    A single square bracket is text; of three in a row, the inner one is text (`[[[1]]]` is the marked word `[1]`).

    Args:
        text: a text with marks.
        expected: the same text without marks; its words count, where the characters are the same but for white space.

    Raises:
        DataError: brackets that are nested, not closed, not opened or without a word inside, or an empty text.

    Example:
        >>> segment, mask = parse_marked("a [[good film]] .")
        >>> segment.words, mask
        (('a', 'good', 'film', '.'), (False, True, True, False))
    """
    plain, marked = _without_brackets(text)
    if not plain.strip():
        raise DataError(f"got {text!r}; expected a text of at least one word")
    segment = Segment.of(plain)
    if expected is not None and plain.split() == expected.text.split():
        segment = Segment(plain, locate(expected.words, plain))
    return segment, tuple(any(marked[start:end]) for start, end in segment.spans)


def _without_brackets(text: str) -> tuple[str, list[bool]]:
    """Return a text without its marks, and whether each of its characters is marked."""
    plain = ""
    marked: list[bool] = []
    opened: int | None = None  # character of `text` at which the open marks begin
    start = 0  # and the character of `plain`
    for match in _PIECE.finditer(text):
        piece = match.group()
        where = _where(text, match.start())
        closes = piece.startswith("]]")
        if piece.startswith("[["):
            if opened is not None or len(piece) > 3:
                raise DataError(f"got '[[' inside marks {where}; expected ']]' before the next '[['")
            opened = match.start()
            start = len(plain)
            piece = piece[2:]
        elif closes:
            if opened is None:
                raise DataError(f"got ']]' without '[[' {where}; expected marks to be opened before they are closed")
            if len(piece) > 3:
                raise DataError(f"got ']]' twice {where}; expected one for each '[['")
            piece = piece[2:]
        plain += piece
        marked += [opened is not None] * len(piece)
        if closes:
            if not plain[start:].strip():
                raise DataError(f"got marks around nothing {where}; expected at least one word between '[[' and ']]'")
            opened = None
    if opened is not None:
        raise DataError(f"got '[[' {_where(text, opened)} that is never closed; expected ']]'")
    return plain, marked


def _where(text: str, position: int) -> str:
    context = text[max(0, position - _CONTEXT_CHARS) : position + _CONTEXT_CHARS]
    return f"at character {position} ({context!r})"


def spans_from_mask(mask: Sequence[bool]) -> list[Span]:
    """Return the longest runs of True in a mask as [start, end) word offsets, in order."""
    spans: list[Span] = []
    start = 0
    for marked, run in groupby(mask, bool):
        end = start + len(list(run))
        if marked:
            spans.append((start, end))
        start = end
    return spans


def parse_mask(value: object, n_words: int) -> tuple[bool, ...]:
    """Return the mask in a list of 0/1 (or booleans), or its text form.

    Args:
        value: the list; as text a JSON list, or 0s and 1s with spaces between.
        n_words: number of words.

    Raises:
        DataError: a value other than 0 and 1, or not one entry a word.
    """
    entries = value
    accepted: list[object] = [0, 1]
    if isinstance(value, str):
        accepted += ["0", "1"]
        entries = value.split()
        if value.lstrip().startswith("["):
            entries = _json(value)
    if not isinstance(entries, list | tuple):
        raise DataError(f"got {value!r}; expected a list of 0 and 1, one per word")
    for position, entry in enumerate(entries):
        if isinstance(entry, float) or entry not in accepted:
            raise DataError(f"got {entry!r} at entry {position}; expected 0 or 1")
    if len(entries) != n_words:
        raise DataError(f"got {len(entries)} entries; expected {n_words}, one per word")
    return tuple(entry in (1, "1") for entry in entries)


def parse_spans(value: object, n_words: int) -> tuple[bool, ...]:
    """Return a mask that is True for the words inside spans.

    Args:
        value: a list of [start, end) in words, which may overlap; or its JSON text.
        n_words: number of words.

    Raises:
        DataError: the value is no list, or a span is not a pair of integers, is empty or reaches beyond the words.

    Example:
        >>> parse_spans([(1, 3)], 4)
        (False, True, True, False)
    """
    spans = value
    if isinstance(value, str):
        spans = _json(value)
    if not isinstance(spans, list | tuple):
        raise DataError(f"got {value!r}; expected a list of [start, end) pairs of word offsets")
    mask = [False] * n_words
    for span in spans:
        if not isinstance(span, list | tuple) or len(span) != 2 or any(type(bound) is not int for bound in span):
            raise DataError(f"got the span {span!r}; expected a pair of whole numbers [start, end)")
        start, end = span
        if not 0 <= start < end <= n_words:
            raise DataError(
                f"got the span [{start}, {end}); expected 0 <= start < end <= {n_words}, the number of words"
            )
        mask[start:end] = [True] * (end - start)
    return tuple(mask)


def parse_word_list(value: object) -> tuple[str, ...]:
    """Return the words in a list of strings, or its text form: a JSON list, or words with spaces between.

    The words themselves are not checked.

    Raises:
        DataError: the value is neither.
    """
    if isinstance(value, str):
        # A text may itself begin with a bracket; only what parses as a list of strings is taken for JSON.
        with suppress(ValueError):
            parsed = parse_json(value)
            if isinstance(parsed, list) and all(isinstance(word, str) for word in parsed):
                return tuple(parsed)
        return tuple(value.split())
    if not isinstance(value, list | tuple):
        raise DataError(f"got {value!r}; expected a list of words")
    return tuple(value)


def _json(value: str) -> object:
    try:
        return parse_json(value)
    except ValueError as error:  # not JSON, a number of thousands of digits, nested too deeply
        raise DataError(f"got {value[:80]!r}; expected a list written as JSON") from error

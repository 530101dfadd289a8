"""The ways to write down a word mask: text with marks, 0/1 lists, spans.

These functions raise DataError saying what they got and expected; callers that know file and row put those before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

from explearn.core.documents import parse_json
from explearn.core.errors import DataError
from explearn.core.words import Segment, locate

_BRACKETS = re.compile(r"\[{2,}|\]{2,}")

_CONTEXT_CHARS = 20
"""Characters of the text repeated in an error, to find the place."""


def parse_marked(text: str, expected: Segment | None = None) -> tuple[Segment, tuple[bool, ...]]:
    """Return a text without its marks, which are double square brackets around evidence, and the mask of its words.

    `"a [[good film]] ."` gives the words `("a", "good", "film", ".")` and `(False, True, True, False)`. A word counts
    as marked when any of its characters stands inside brackets: `[[good]],` is the marked word `good,`. A single square
    bracket is text; of three in a row, the outer one of an opening pair's right side and of a closing pair's left side
    is text (`[[[1]]]` is the marked word `[1]`).

    Args:
        expected: the same text without marks; its words count, where the characters are the same but for white space.

    Raises DataError for brackets that are nested, not closed, not opened or without a word inside, and for an empty
    text.
    """
    plain = ""
    marked: list[bool] = []
    inside, filled = False, False
    opened_at = 0

    def take(piece: str) -> None:
        nonlocal plain, filled
        plain += piece
        marked.extend([inside] * len(piece))
        filled = filled or (inside and bool(piece.strip()))

    position = 0
    for match in _BRACKETS.finditer(text):
        take(text[position : match.start()])
        position = match.end()
        run = match.group()
        place = f"at character {match.start()} ({_context(text, match.start())})"
        if run[0] == "[":
            if inside or len(run) > 3:
                raise DataError(f"got '[[' inside marks {place}; expected ']]' before the next '[['")
            inside, filled, opened_at = True, False, match.start()
            take(run[2:])
        else:
            if not inside:
                raise DataError(f"got ']]' without '[[' {place}; expected marks to be opened before they are closed")
            if len(run) > 3:
                raise DataError(f"got ']]' twice {place}; expected one for each '[['")
            take(run[2:])
            if not filled:
                raise DataError(f"got marks around nothing {place}; expected at least one word between '[[' and ']]'")
            inside = False
    take(text[position:])
    if inside:
        raise DataError(
            f"got '[[' at character {opened_at} ({_context(text, opened_at)}) that is never closed; expected ']]'"
        )
    if not plain.strip():
        raise DataError(f"got {text!r}; expected a text of at least one word")
    if expected is not None and plain.split() == expected.text.split():
        segment = Segment(plain, locate(expected.words, plain))
    else:
        segment = Segment.of(plain)
    return segment, tuple(any(marked[start:end]) for start, end in segment.spans)


def _context(text: str, position: int) -> str:
    return repr(text[max(0, position - _CONTEXT_CHARS) : position + _CONTEXT_CHARS])


def mask_from_spans(spans: Iterable[Sequence[int]], n_words: int) -> tuple[bool, ...]:
    """Mask over `n_words` words that is True inside the [start, end) word offsets `spans`, which may overlap.

    Raises DataError for a span that is no pair of integers, is empty or reaches beyond the words.
    """
    mask = [False] * n_words
    for span in spans:
        whole = isinstance(span, (list, tuple)) and len(span) == 2
        if not whole or not all(isinstance(v, int) and not isinstance(v, bool) for v in span):
            raise DataError(f"got the span {span!r}; expected a pair of whole numbers [start, end)")
        start, end = span
        if not 0 <= start < end <= n_words:
            raise DataError(
                f"got the span [{start}, {end}); expected 0 <= start < end <= {n_words}, the number of words"
            )
        mask[start:end] = [True] * (end - start)
    return tuple(mask)


def parse_mask(value: object, n_words: int) -> tuple[bool, ...]:
    """Mask from a list of 0/1 (or booleans), or its text form: a JSON list, or 0s and 1s with spaces between.

    Raises DataError when there is a value other than 0 and 1, or not one entry a word.
    """
    entries: object = value
    if isinstance(value, str):
        entries = _json(value) if value.lstrip().startswith("[") else value.split()
    if not isinstance(entries, (list, tuple)):
        raise DataError(f"got {value!r}; expected a list of 0 and 1, one per word")
    mask = []
    for position, entry in enumerate(entries):
        if isinstance(entry, int) and entry in (0, 1):
            mask.append(bool(entry))
        elif isinstance(value, str) and entry in ("0", "1"):
            mask.append(entry == "1")
        else:
            raise DataError(f"got {entry!r} at entry {position}; expected 0 or 1")
    if len(mask) != n_words:
        raise DataError(f"got {len(mask)} entries; expected {n_words}, one per word")
    return tuple(mask)


def parse_spans(value: object, n_words: int) -> tuple[bool, ...]:
    """Mask from a list of [start, end) pairs or its JSON text; raises DataError as `mask_from_spans` does."""
    spans = _json(value) if isinstance(value, str) else value
    if not isinstance(spans, (list, tuple)):
        raise DataError(f"got {value!r}; expected a list of [start, end) pairs of word offsets")
    return mask_from_spans(spans, n_words)


def parse_word_list(value: object) -> tuple[str, ...]:
    """Words from a list of strings or its text form: a JSON list, or words with spaces between.

    Raises DataError for anything else. The words themselves are not checked.
    """
    words: object = value
    if isinstance(value, str):
        words = value.split()
        # A text may itself begin with a bracket; only what parses as a list of strings is taken for JSON.
        with suppress(ValueError):
            parsed = parse_json(value)
            words = parsed if isinstance(parsed, list) and all(isinstance(word, str) for word in parsed) else words
    if not isinstance(words, (list, tuple)):
        raise DataError(f"got {value!r}; expected a list of words")
    return tuple(words)


def _json(value: str) -> object:
    try:
        return parse_json(value)
    except ValueError as error:  # not JSON, a number of thousands of digits, nested too deeply
        raise DataError(f"got {value[:80]!r}; expected a list written as JSON") from error

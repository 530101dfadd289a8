"""Units that are scored instead of words: sub-tokens, phrases, sentences, or matches of a pattern or function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import ArrayLike

from explearn.core.errors import DataError, ParamsError, UnsupportedError, shown
from explearn.core.examples import Example
from explearn.core.extras import need
from explearn.core.words import Segment, Span
from explearn.text.alignment import NO_WORD
from explearn.text.encoding import Encoding, align_words

Unit = str | re.Pattern[str] | Callable[[str], Iterable[Span]]
"""One of UNITS; a pattern, whose matches are the units; or a function that gives the [start, end) of a text's units."""

UNITS = ("token", "word", "phrase", "sentence")

PHRASE_LEVEL, PHRASE_COST = 0.5, 0.1
"""Costs of each word in a phrase, and of each phrase, as shares of the text's largest absolute score
(`benchmarks/phrases.py`): words below the level extend a phrase only between stronger ones."""


def check_unit(unit: object) -> None:
    """Raise ParamsError for an invalid unit."""
    if not (unit in UNITS if isinstance(unit, str) else isinstance(unit, re.Pattern) or callable(unit)):
        raise ParamsError(f"unit: got {shown(unit)}; expected {', '.join(UNITS)}, a compiled pattern or a function")


def unit_name(unit: Unit) -> str:
    """Return a unit's name in attributions: its own, or `span`."""
    return unit if isinstance(unit, str) else "span"


def in_units(encoding: Encoding, segments: Sequence[Segment], unit: Unit, where: str) -> Encoding:
    """Replace an encoding's words by units.

    Sub-tokens belong to units as they do to words (`explearn.text.alignment`); those outside all units to none. For
    phrases words stay, since phrases are found from their scores (`find_phrases`).

    Args:
        segments: of the text. where: the text, for messages.

    Raises DataError for a text without units, ParamsError for spans that are none, UnsupportedError for questions.
    """
    if encoding.answer:
        raise UnsupportedError(f"{where}: questions are explained by words; leave out unit")
    if unit == "phrase":
        return encoding
    shift = len(segments[0].text) + 1
    offsets: list[Span | None] = []
    for word, (start, end) in zip(encoding.word_ids, encoding.characters, strict=True):
        second = encoding.pair_start is not None and word >= encoding.pair_start
        first = encoding.spans[word][0] + second * shift
        offsets.append(None if word == NO_WORD else (first + start, first + end))
    if unit == "token":
        owned = [(position, offset) for position, offset in enumerate(offsets) if offset is not None]
        together = " ".join(segment.text for segment in segments)
        places = {position: place for place, (position, _) in enumerate(owned)}
        result = replace(
            encoding,
            words=tuple(together[start:end] for _, (start, end) in owned),
            word_ids=tuple(places.get(position, NO_WORD) for position in range(len(offsets))),
            characters=tuple((0, 0) if offset is None else (0, offset[1] - offset[0]) for offset in offsets),
            spans=tuple((a - shift, b - shift) if a >= shift else (a, b) for _, (a, b) in owned),
            pair_start=None if len(segments) == 1 else sum(start < shift for _, (start, _) in owned),
            shared=(),
        )
    else:
        in_spans = [Segment(segment.text, tuple(_find(segment.text, unit))) for segment in segments]
        fields = align_words(offsets, [(n * shift, segment) for n, segment in enumerate(in_spans)])
        result = replace(encoding, pair_start=None if len(in_spans) == 1 else len(in_spans[0].spans), **fields)
    if not result.words or result.pair_start in (0, len(result.words)):
        raise DataError(f"{where}: has a segment without any {unit_name(unit)} to score; expected at least one")
    return result


def example_in_units(example: Example, encoding: Encoding, unit: Unit) -> Example:
    """Return an example with its words replaced by the units of its encoding (`in_units`)."""
    words, first = encoding.words, len(encoding.words) if encoding.pair_start is None else encoding.pair_start
    answer = None if encoding.token is None else (encoding.token, encoding.token + 1)
    return replace(
        example, words=words[:first], pair=words[first:], answer=answer, joined=encoding.joined, unit=unit_name(unit)
    )


def marks_in_units(mask: Sequence[bool], example: Example, encoding: Encoding) -> tuple[bool, ...]:
    """Return which units of an example are marked: those of which at least half of the words are, in whole or in part.

    Args:
        mask: of the example's words. encoding: of the example, in units.
    """
    words = [(n, *span) for n, segment in enumerate(example.segments) for span in segment.spans]
    marks = []
    for unit, (start, end) in enumerate(encoding.spans):
        second = encoding.pair_start is not None and unit >= encoding.pair_start
        inside = [mark for mark, (n, a, b) in zip(mask, words, strict=True) if n == second and a < end and start < b]
        marks.append(2 * sum(inside) >= len(inside))
    return tuple(marks)


def find_phrases(scores: ArrayLike, pair_start: int | None = None) -> list[Span]:
    """Return the phrases of a text as [first, end) in words, in order: runs of words with large scores of one sign.

    With s_i the scores divided by the largest absolute one, they maximise the sum over the words of all phrases of
    (|s_i| - PHRASE_LEVEL), less PHRASE_COST a phrase. The maximum is exact, by dynamic programming in O(words).

    Args:
        scores: (words,), NaN for words that were not read, which no phrase holds.
        pair_start: first word of a pair's second segment; no phrase crosses it.
    """
    values = np.nan_to_num(np.asarray(scores, dtype=np.float64))
    shares = values / (np.abs(values).max(initial=0.0) or 1.0)
    # Columns: outside all phrases, in a phrase for the class, in a phrase against it.
    gains = np.stack([np.zeros_like(shares), shares - PHRASE_LEVEL, -shares - PHRASE_LEVEL], axis=1)
    entering = np.array([[0, PHRASE_COST, PHRASE_COST], [0, 0, PHRASE_COST], [0, PHRASE_COST, 0]])
    phrases: list[Span] = []
    for first, end in pairwise([0, *([] if pair_start is None else [pair_start]), len(shares)]):
        best, before = np.array([0.0, -np.inf, -np.inf]), []
        for gain in gains[first:end]:
            reached = best[:, None] - entering
            before.append(reached.argmax(axis=0))
            best = reached.max(axis=0) + gain
        states = [int(best.argmax())]
        for previous in reversed(before[1:]):
            states.append(int(previous[states[-1]]))
        for state, run in groupby(zip(reversed(states), range(first, end), strict=True), key=lambda one: one[0]):
            places = [place for _, place in run]
            if state:
                phrases.append((places[0], places[-1] + 1))
    return phrases


def in_phrases(encoding: Encoding, scores: ArrayLike) -> Encoding:
    """Replace an encoding's words by phrases found from the words' scores, (words,).

    Words outside phrases stay; `characters` are left out.
    """
    inside = {word for first, end in find_phrases(scores, encoding.pair_start) for word in range(first + 1, end)}
    starts = [word for word in range(len(encoding.words)) if word not in inside]
    bounds = list(pairwise([*starts, len(encoding.words)]))
    unit_of = {word: unit for unit, (first, end) in enumerate(bounds) for word in range(first, end)}
    word_ids = tuple(unit_of.get(word, NO_WORD) for word in encoding.word_ids)
    shared = {unit_of[word]: unit_of[other] for word, other in encoding.shared if unit_of[word] not in word_ids}
    joined = set(encoding.joined)
    return replace(
        encoding,
        words=tuple(
            "".join(" " * (word > first and word not in joined) + encoding.words[word] for word in range(first, end))
            for first, end in bounds
        ),
        word_ids=word_ids,
        characters=(),
        spans=tuple((encoding.spans[first][0], encoding.spans[end - 1][1]) for first, end in bounds),
        pair_start=encoding.pair_start and unit_of[encoding.pair_start],
        shared=tuple(shared.items()),
    )


def _find(text: str, unit: Unit) -> list[Span]:
    if unit == "sentence":
        breakers = need("icu4py.breakers", extra="scripts", what="finding sentences")
        ends = [0]
        # "ss-standard": the dot of an abbreviation (Mr.) ends no sentence.
        for piece in breakers.SentenceBreaker(text, "en-u-ss-standard"):
            ends.append(ends[-1] + len(piece))
        bounds = [(start, start + len(text[start:end].rstrip())) for start, end in pairwise(ends)]
        return [(end - len(text[start:end].lstrip()), end) for start, end in bounds if start < end]
    if isinstance(unit, re.Pattern):
        return [match.span() for match in unit.finditer(text) if match.group().strip()]
    if isinstance(unit, str):
        raise ParamsError(f"unit: got {shown(unit)}; expected spans of a text")
    spans, last = unit(text), 0
    if not isinstance(spans, Iterable):
        raise ParamsError(f"unit: the function gave {shown(spans)}; expected [start, end) of each span")
    spans = list(spans)
    for span in spans:
        pair = isinstance(span, tuple | list) and len(span) == 2 and all(isinstance(place, int) for place in span)
        if not pair or not last <= span[0] < span[1] <= len(text):
            raise ParamsError(
                f"unit: the function gave {shown(span)}; expected [start, end) within the text's {len(text)} "
                "characters, in order and apart from each other"
            )
        last = span[1]
    return [(start, end) for start, end in spans]

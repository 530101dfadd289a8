"""Units that are scored instead of words: sub-tokens, phrases, sentences, or matches of a pattern or function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.errors import DataError, ParamsError, shown
from explearn.core.examples import Example
from explearn.core.extras import need
from explearn.core.words import Segment, Span, words_of
from explearn.text.alignment import NO_WORD
from explearn.text.encoding import Encoding

Unit = str | re.Pattern[str] | Callable[[str], Iterable[Span]]
"""One of UNITS; a pattern, whose matches are the units; or a function that gives the [start, end) of a text's units."""

UNITS = ("token", "word", "phrase", "sentence")

PHRASE_LEVEL = 0.5
PHRASE_COST = 0.1
"""Costs of each word in a phrase, and of each phrase, as shares of the text's largest absolute score: words below the
level extend a phrase only between stronger ones."""


def check_unit(unit: object) -> None:
    """Raise ParamsError for an invalid unit."""
    if unit in UNITS or isinstance(unit, re.Pattern) or callable(unit):
        return
    raise ParamsError(f"unit: got {shown(unit)}; expected {', '.join(UNITS)}, a compiled pattern or a function")


def unit_name(unit: Unit) -> str:
    """Return a unit's name in attributions: its own, or `span`."""
    return unit if isinstance(unit, str) else "span"


def in_units(encoding: Encoding, unit: Unit, where: str) -> Encoding:
    """Replace an encoding's words by units.

    Sub-tokens belong to units as they do to words (`explearn.text.alignment`); those outside all units to none. For
    phrases words stay, since phrases are found from their scores (`find_phrases`).

    Args:
        encoding: the text, in words.
        unit: the unit.
        where: the text, for messages.

    Raises:
        DataError: a text without units.
        ParamsError: a function that does not return spans.
    """
    if unit == "phrase":
        return encoding
    encoding = cut_at(encoding, unit)
    segments = []
    for number, segment in enumerate(encoding.segments):
        segments.append(Segment(segment.text, tuple(_spans(encoding, number, unit))))
    result = replace(encoding.with_words(segments), in_units=unit != "token")
    if not result.words or result.pair_start in (0, len(result.words)):
        raise DataError(f"{where}: has a segment without any {unit_name(unit)} to score; expected at least one")
    return result


def _spans(encoding: Encoding, number: int, unit: Unit) -> list[Span]:
    """Return the spans of a segment's units; sub-tokens of one character have one span, and are one unit."""
    if unit != "token":
        return _find(encoding.segments[number].text, unit)
    spans: dict[Span, None] = {}
    bounds = encoding.spans
    for word, (start, end) in zip(encoding.word_ids, encoding.characters, strict=True):
        if word != NO_WORD and _in_pair(encoding, word) == (number > 0):
            first = bounds[word][0]
            spans[first + start, first + end] = None
    return list(spans)


def cut_at(encoding: Encoding, unit: Unit) -> Encoding:
    """Cut words at the bounds of units, if the predictor can leave out parts of a word, as a function can."""
    if unit in ("token", "phrase"):
        return encoding
    return encoding.cut([set(chain.from_iterable(_find(segment.text, unit))) for segment in encoding.segments])


def _in_pair(encoding: Encoding, unit: int) -> bool:
    """Return whether a word or unit is in the second segment."""
    return encoding.pair_start is not None and unit >= encoding.pair_start


def _parts(segments: Sequence[Segment], spans: Sequence[Span], pair_start: int | None) -> list[Segment]:
    """Return segments with units in place of their words."""
    first = pair_start or len(spans)
    by_segment = spans[:first], spans[first:]
    return [Segment(segment.text, tuple(its)) for segment, its in zip(segments, by_segment, strict=False)]


def example_in_units(example: Example, encoding: Encoding, unit: Unit) -> Example:
    """Return an example with its words replaced by the units of its encoding (`in_units`)."""
    words, pair, gaps = words_of(_parts(example.segments, encoding.spans, encoding.pair_start))
    return replace(example, words=words, pair=pair, focus=encoding.focus, gaps=gaps, unit=unit_name(unit))


def marks_in_units(mask: Sequence[bool], example: Example, encoding: Encoding) -> tuple[bool, ...]:
    """Return which units of an example are marked: those of which at least half of the words are, in whole or in part.

    Args:
        mask: marks of the example's words.
        example: the example, in words.
        encoding: its encoding, in units.
    """
    words: list[tuple[bool, Span]] = []  # whether in the second segment, and where
    for in_pair, segment in zip((False, True), example.segments, strict=False):
        words.extend((in_pair, span) for span in segment.spans)
    marks = []
    for unit, (start, end) in enumerate(encoding.spans):
        marked = total = 0
        for mark, (in_pair, (word_start, word_end)) in zip(mask, words, strict=True):
            if in_pair == _in_pair(encoding, unit) and word_start < end and start < word_end:
                marked += mark
                total += 1
        marks.append(2 * marked >= total)
    return tuple(marks)


def find_phrases(scores: ArrayLike, pair_start: int | None = None) -> list[Span]:
    """Return the phrases of a text as [first, end) in words, in order: runs of words with large scores of one sign.

    With s_i the scores divided by the largest absolute one, they maximise the sum over the words of all phrases of
    (|s_i| - PHRASE_LEVEL), less PHRASE_COST a phrase. The maximum is exact, by dynamic programming in O(words).

    Args:
        scores: (words,), NaN for words that were not read, which no phrase holds.
        pair_start: first word of a pair's second segment; no phrase crosses it.

    Example:
        >>> find_phrases([0.1, 0.9, 1.0, 0.0, -0.8])
        [(1, 3), (4, 5)]
    """
    values = np.nan_to_num(np.asarray(scores, dtype=np.float64))
    shares = values / (np.abs(values).max(initial=0.0) or 1.0)
    # Columns: outside all phrases, in a phrase for the class, in a phrase against it.
    gains = np.stack([np.zeros_like(shares), shares - PHRASE_LEVEL, -shares - PHRASE_LEVEL], axis=1)
    if pair_start is None:
        return _best_runs(gains, 0)
    return _best_runs(gains[:pair_start], 0) + _best_runs(gains[pair_start:], pair_start)


def _best_runs(gains: NDArray[np.float64], first: int) -> list[Span]:
    """Return the runs of words in one state other than 0, on the path of states with the largest sum of gains.

    Args:
        gains: gain of each word in each state, (words, 3).
        first: number of the first word.
    """
    entering = np.array([[0, PHRASE_COST, PHRASE_COST], [0, 0, PHRASE_COST], [0, PHRASE_COST, 0]])
    best = np.array([0.0, -np.inf, -np.inf])
    previous: list[NDArray[np.int64]] = []  # the best state before each word, by the word's state
    for gain in gains:
        reached = best[:, None] - entering
        previous.append(reached.argmax(axis=0))
        best = reached.max(axis=0) + gain
    runs: list[Span] = []
    state = int(best.argmax())
    end = len(gains)
    for word in reversed(range(len(gains))):
        before = int(previous[word][state])
        if before != state or word == 0:
            if state:
                runs.append((first + word, first + end))
            end = word
        state = before
    return runs[::-1]


def in_phrases(encoding: Encoding, scores: ArrayLike) -> Encoding:
    """Replace an encoding's words by phrases found from the words' scores, (words,).

    Words outside phrases stay; `characters` are left out.
    """
    words = encoding.words
    starts = set(range(len(words)))
    for first, end in find_phrases(scores, encoding.pair_start):
        starts.difference_update(range(first + 1, end))
    spans: list[Span] = []
    owners = {NO_WORD: NO_WORD}  # word -> its unit
    for first, end in pairwise([*sorted(starts), len(words)]):
        owners.update(dict.fromkeys(range(first, end), len(spans)))
        spans.append((encoding.spans[first][0], encoding.spans[end - 1][1]))
    word_ids = tuple(owners[word] for word in encoding.word_ids)
    shared = {owners[word]: owners[other] for word, other in encoding.shared if owners[word] not in word_ids}
    pair_start = encoding.pair_start and owners[encoding.pair_start]
    segments = tuple(_parts(encoding.segments, spans, pair_start))
    return replace(encoding, segments=segments, word_ids=word_ids, characters=(), shared=tuple(shared.items()))


def _find(text: str, unit: Unit) -> list[Span]:
    """Return the spans of a text's units."""
    if unit == "sentence":
        return _sentences(text)
    if isinstance(unit, re.Pattern):
        return [match.span() for match in unit.finditer(text) if match.group().strip()]
    if isinstance(unit, str):
        raise ParamsError(f"unit: got {shown(unit)}; expected spans of a text")
    found = unit(text)
    if not isinstance(found, Iterable):
        raise ParamsError(f"unit: the function gave {shown(found)}; expected [start, end) of each span")
    spans: list[Span] = []
    last = 0
    for span in found:
        pair = isinstance(span, tuple | list) and len(span) == 2 and all(isinstance(bound, int) for bound in span)
        if not pair or not last <= span[0] < span[1] <= len(text):
            raise ParamsError(
                f"unit: the function gave {shown(span)}; expected [start, end) within the text's {len(text)} "
                "characters, in order and apart from each other"
            )
        last = span[1]
        spans.append((span[0], last))
    return spans


def _sentences(text: str) -> list[Span]:
    """Return the spans of a text's sentences, without white space around them, by ICU."""
    breakers = need("icu4py.breakers", extra="scripts", what="finding sentences")
    spans: list[Span] = []
    end = 0
    # "ss-standard": the dot of an abbreviation (Mr.) ends no sentence.
    for piece in breakers.SentenceBreaker(text, "en-u-ss-standard"):
        start = end + len(piece) - len(piece.lstrip())
        end += len(piece)
        if piece.strip():
            spans.append((start, start + len(piece.strip())))
    return spans

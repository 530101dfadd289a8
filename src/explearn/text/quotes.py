"""The words of a text that a model's quotes mean.

Each quote is looked for as words side by side, in three rounds over all quotes: as it stands; without regard to case,
punctuation and Unicode form; and by likeness (rapidfuzz's normalised Indel similarity) of at least a threshold. A quote
takes words that no other has taken: the first between those of the quotes before and after it, or else the first
anywhere. Earlier rounds come first. A quote that skips words (`warm ... funny`) counts as several quotes, one for each
part. A quote that is nowhere in the text is a hallucination: it is counted and marks nothing.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from explearn.core.extras import need
from explearn.core.words import Segment, Span, lay_out
from explearn.text.marks import spans_from_mask

FUZZY_THRESHOLD = 90.0
"""Least likeness, 0 to 100, of a quote and the words it may mean. At 90 a word of six letters or more may lack one
letter or have one too many; `never` is not taken for `ever` (88.9)."""

_ELLIPSIS = re.compile(r"\.{3,}|…")

Round = Literal["exact", "insensitive", "fuzzy"]
ROUNDS: tuple[Round, ...] = get_args(Round)


class Quote(NamedTuple):
    """Words that a model gave as evidence.

    Attributes:
        text: the words.
        occurrence: which of the places that have these words is meant, from 1; 1 if the model gave none.
    """

    text: str
    occurrence: int = 1


class Alignment(NamedTuple):
    """The words that a model's quotes mean.

    Attributes:
        mask: the text's words that they mean.
        places: the place of each quote that has one, in the quotes' order.
        exact: number of quotes that took a place in the first round.
        insensitive: number of quotes that took a place in the second round.
        fuzzy: number of quotes that took a place in the third round.
        repeated: number of quotes whose words are in the text, but taken at every place.
        hallucinated: quotes that are not in the text.
        hallucinated_words: number of words in those.
    """

    mask: tuple[bool, ...]
    places: tuple[Span, ...]
    exact: int
    insensitive: int
    fuzzy: int
    repeated: int
    hallucinated: tuple[str, ...]
    hallucinated_words: int


def folded_word(word: str) -> str:
    """Return a word for comparison: its letters and digits, without case; a word without any stays."""
    folded = unicodedata.normalize("NFKC", word).casefold()
    return "".join(char for char in folded if unicodedata.category(char)[0] in "LMN") or folded


def quote_evidence(words: Sequence[str], mask: Sequence[bool], joined: Collection[int] = ()) -> list[tuple[str, int]]:
    """Return the quotes, (words, occurrence), of a perfect answer, from which `align_quotes` gives the mask back."""
    plain_words = [folded_word(word) for word in words]
    quotes = []
    for start, end in spans_from_mask(mask):
        # The punctuation before the first and after the last word stands alone.
        inner = [n for n in range(start, end) if not _is_loose(plain_words[n])]
        bounds = [start, end]
        if inner:
            bounds = [start, inner[0], inner[-1] + 1, end]
        for first, last in pairwise(bounds):
            if first == last:
                continue
            places = _plain_places(plain_words, words[first:last])
            quotes.append((lay_out(words[first:last], joined, first).text, places.index((first, last)) + 1))
    return quotes


def align_quotes(
    quotes: Sequence[Quote], words: Sequence[str], threshold: float = FUZZY_THRESHOLD, in_order: bool = True
) -> Alignment:
    """Find the words that quotes mean; see the module for the rules.

    Args:
        quotes: the quotes in the model's order.
        words: words of the text (for a pair: of both segments).
        threshold: least likeness in the third round, 0 to 100; 100 leaves the round out.
        in_order: the quotes follow the text; else each takes its first free place.
    """
    plain_words = [folded_word(word) for word in words]
    parts: list[Quote] = []
    for quote in quotes:
        parts += [part for part in _without_skips(quote, plain_words) if part.text.split()]
    places: dict[int, Span] = {}  # number of a part -> its place
    taken = [False] * len(words)

    def is_free(place: Span) -> bool:
        return not any(taken[slice(*place)])

    counts = {}
    for name in ROUNDS:
        before = len(places)
        for number, part in enumerate(parts):
            if number in places:
                continue
            free = list(filter(is_free, _places(name, part, words, plain_words, threshold)))
            # The model counts places as a reader does, `Warm,` and `warm` alike.
            counted = _plain_places(plain_words, part.text.split())[part.occurrence - 1 : part.occurrence]
            if part.occurrence > 1 and name != "fuzzy" and any(map(is_free, counted)):
                # An exact quote of what stands there in another spelling is a matter of the next round.
                free = [place for place in counted if name == "insensitive" or place in free]
            if free:
                start, end = _first(free, number, places if in_order else {})
                places[number] = (start, end)
                taken[start:end] = [True] * (end - start)
        counts[name] = len(places) - before
    missing = [part for number, part in enumerate(parts) if number not in places]
    invented = [part for part in missing if not _plain_places(plain_words, part.text.split())]
    return Alignment(
        mask=tuple(taken),
        places=tuple(places[number] for number in sorted(places)),
        **counts,
        repeated=len(missing) - len(invented),
        hallucinated=tuple(part.text for part in invented),
        hallucinated_words=sum(len(part.text.split()) for part in invented),
    )


def rank_scores(places: Sequence[Span], words: int) -> NDArray[np.float64]:
    """Return scores of a text's words, (words,), from the places of ranked quotes, the best first.

    Of n quotes the first gives its words 1, the last 1/n; all other words score 0 (Barkan et al. 2024, "LLM
    Explainability via Attributive Masking Learning", section 4, LLM).
    """
    scores = np.zeros(words)
    for rank, (start, end) in enumerate(places):
        scores[start:end] = 1 - rank / len(places)
    return scores


def _places(
    name: Round, quote: Quote, words: Sequence[str], plain_words: Sequence[str], threshold: float
) -> list[Span]:
    """Return the places that have a quote's words."""
    part = quote.text.split()
    if name == "insensitive":
        return _plain_places(plain_words, part)
    if name == "fuzzy":
        return _like_places(plain_words, Segment.of(quote.text).words, threshold)
    return [(i, i + len(part)) for i in range(len(words)) if list(words[i : i + len(part)]) == part]


def _first(free: Sequence[Span], number: int, places: Mapping[int, Span]) -> Span:
    """Return the first place between those of the quotes before and after; the first of all if there is none."""
    low = max((end for other, (_, end) in places.items() if other < number), default=0)
    high = min((start for other, (start, _) in places.items() if other > number), default=sys.maxsize)
    return next(((start, end) for start, end in free if low <= start and end <= high), free[0])


def _without_skips(quote: Quote, plain_words: Sequence[str]) -> list[Quote]:
    """Return a quote in its parts between ellipses, unless the text has it as it stands."""
    parts = [part for part in _ELLIPSIS.split(quote.text) if part.strip()]
    if len(parts) < 2 or _plain_places(plain_words, quote.text.split()):
        return [quote]
    return [Quote(part) for part in parts]


def _is_loose(plain_word: str) -> bool:
    """Return whether a word is punctuation alone."""
    return not any(char.isalnum() for char in plain_word)


def _plain_places(plain_words: Sequence[str], part: Sequence[str]) -> list[Span]:
    """Return the places that have the letters of the part's words, however they are split: `do n't` for `don't`.

    Punctuation that stands alone counts only if the part is nothing else; it neither begins nor ends a place.
    """
    wanted_words = [folded_word(word) for word in part]
    only_loose = all(_is_loose(word) for word in wanted_words)
    wanted = "".join(word for word in wanted_words if only_loose or not _is_loose(word))
    places = []
    for start, first in enumerate(plain_words):
        if not wanted.startswith(first) or (_is_loose(first) and not only_loose):
            continue
        reached = ""
        for end in range(start + 1, len(plain_words) + 1):
            piece = plain_words[end - 1]
            if only_loose or not _is_loose(piece):
                reached += piece
            if reached == wanted:
                places.append((start, end))
            if len(reached) >= len(wanted) or not wanted.startswith(reached):
                break
    return places


def _like_places(plain_words: Sequence[str], part: Sequence[str], threshold: float) -> list[Span]:
    """Return the places like the part, the most similar first; of equals the first in the text."""
    if threshold >= 100:
        return []
    need("rapidfuzz", extra="annotate", what="looking for a model's quotes")
    from rapidfuzz import fuzz

    wanted = " ".join(folded_word(word) for word in part)
    scored = []
    for length in range(max(1, len(part) - 1), len(part) + 2):
        for start in range(len(plain_words) - length + 1):
            likeness = fuzz.ratio(wanted, " ".join(plain_words[start : start + length]), score_cutoff=threshold)
            if likeness >= threshold:
                scored.append((-likeness, start, start + length))
    return [(start, end) for _, start, end in sorted(scored)]

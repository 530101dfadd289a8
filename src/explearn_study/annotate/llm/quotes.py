"""The words of a text that a model's quotes mean.

Each quote is looked for as words side by side, in three rounds over all quotes: as it stands; without regard to case,
punctuation and Unicode form; and by likeness (rapidfuzz's normalised Indel similarity) of at least a threshold. A quote
takes words that no other has taken, if it can between those of the quotes before and after it, and there the first; an
earlier round goes before a later one. A quote that skips words (`warm ... funny`) is as many quotes as it has parts.
A quote without a place is a hallucination: it is counted and marks nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from rapidfuzz import fuzz

from explearn.core.words import Segment, Span, lay_out
from explearn_study.annotate.marked_text import spans_from_mask

FUZZY_THRESHOLD = 90.0
"""Least likeness, 0 to 100, of a quote and the words it may mean. At 90 a word of six letters or more may lack one
letter or have one too many; `never` is not taken for `ever` (88.9)."""

_ELLIPSIS = re.compile(r"\.{3,}|…")

Round = Literal["exact", "insensitive", "fuzzy"]


@dataclass(frozen=True, slots=True)
class Quote:
    """Words that a model gave as evidence. `occurrence` counts the places where they come, from 1; 1 also where the
    model said nothing."""

    text: str
    occurrence: int = 1


@dataclass(frozen=True, slots=True)
class Alignment:
    """The words that a model's quotes mean.

    Attributes:
        mask: the text's words that they mean.
        places: those of each quote that has a place, in the quotes' order.
        exact, insensitive, fuzzy: quotes that took a place in each round.
        repeated: quotes whose words are in the text, but as often taken already as they come there.
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


def plain(word: str) -> str:
    """A word for comparison: compatibility form, no case, letters and digits alone; a word without any stays."""
    folded = unicodedata.normalize("NFKC", word).casefold()
    return "".join(char for char in folded if unicodedata.category(char)[0] in "LMN") or folded


def quote_evidence(words: Sequence[str], mask: Sequence[bool], joined: Collection[int] = ()) -> list[tuple[str, int]]:
    """Return the quotes, (words, occurrence), of a perfect answer, from which `align_quotes` gives the mask back."""
    plain_words = [plain(word) for word in words]
    quotes = []
    for start, end in spans_from_mask(mask):
        # The punctuation before the first and after the last word stands alone.
        inner = [n for n in range(start, end) if not _is_loose(plain_words[n])]
        bounds = [start, inner[0], inner[-1] + 1, end] if inner else [start, end]
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
        quotes: in the model's order.
        words: of the text (for a pair: of both segments).
        threshold: least likeness in the third round, 0 to 100; 100 leaves the round out.
        in_order: the quotes follow the text; else each takes its first free place.
    """
    plain_words = [plain(word) for word in words]
    quotes = [part for quote in quotes for part in _without_skips(quote, plain_words)]
    parts = [quote.text.split() for quote in quotes]
    spans: dict[int, Span] = {}
    taken = [False] * len(words)

    def choose(name: Round, number: int) -> Span | None:
        """Return the place that a quote takes among those where its words come."""
        part, occurrence = parts[number], quotes[number].occurrence
        if name == "exact":
            places = [(i, i + len(part)) for i in range(len(words)) if list(words[i : i + len(part)]) == part]
        elif name == "insensitive":
            places = _plain_places(plain_words, part)
        else:
            places = _like_places(plain_words, Segment.of(quotes[number].text).words, threshold)
        if occurrence > 1 and name != "fuzzy":
            # The model counts places as a reader does, `Warm,` and `warm` alike.
            counted = _plain_places(plain_words, part)
            if occurrence <= len(counted) and not any(taken[slice(*counted[occurrence - 1])]):
                place = counted[occurrence - 1]
                # An exact quote of what stands there in another spelling is a matter of the next round.
                return place if name == "insensitive" or place in places else None
        free = [place for place in places if not any(taken[slice(*place)])]
        if not in_order:
            return next(iter(free), None)
        low = max((end for n, (_, end) in spans.items() if n < number), default=0)
        high = min((start for n, (start, _) in spans.items() if n > number), default=len(words))
        return next((place for place in free if place[0] >= low and place[1] <= high), next(iter(free), None))

    counts: dict[Round, int] = {"exact": 0, "insensitive": 0, "fuzzy": 0}
    for name in counts:
        for number, part in enumerate(parts):
            if not part or number in spans or (name == "fuzzy" and threshold >= 100):
                continue
            place = choose(name, number)
            if place is not None:
                spans[number] = place
                taken[slice(*place)] = [True] * (place[1] - place[0])
                counts[name] += 1
    missing = [(quotes[n].text, part) for n, part in enumerate(parts) if part and n not in spans]
    invented = [(text, part) for text, part in missing if not _plain_places(plain_words, part)]
    return Alignment(
        mask=tuple(taken),
        places=tuple(spans[number] for number in sorted(spans)),
        **counts,
        repeated=len(missing) - len(invented),
        hallucinated=tuple(text for text, _ in invented),
        hallucinated_words=sum(len(part) for _, part in invented),
    )


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
    """Return where the letters of the part's words come, however they are split: `do n't` for `don't`.

    Punctuation that stands alone counts only where the part is nothing else; it neither begins nor ends a place.
    """
    wanted_words = [plain(word) for word in part]
    only_loose = all(_is_loose(word) for word in wanted_words)
    wanted = "".join(word for word in wanted_words if only_loose or not _is_loose(word))
    places = []
    for start, first in enumerate(plain_words):
        if not wanted.startswith(first) or (_is_loose(first) and not only_loose):
            continue
        reached = ""
        for end in range(start + 1, len(plain_words) + 1):
            piece = plain_words[end - 1]
            reached += "" if _is_loose(piece) and not only_loose else piece
            if reached == wanted:
                places.append((start, end))
            if len(reached) >= len(wanted) or not wanted.startswith(reached):
                break
    return places


def _like_places(plain_words: Sequence[str], part: Sequence[str], threshold: float) -> list[Span]:
    """Places like the part, the likest first; of equals the first in the text."""
    wanted = " ".join(plain(word) for word in part)
    scored = []
    for length in range(max(1, len(part) - 1), len(part) + 2):
        for start in range(len(plain_words) - length + 1):
            likeness = fuzz.ratio(wanted, " ".join(plain_words[start : start + length]), score_cutoff=threshold)
            if likeness >= threshold:
                scored.append((-likeness, start, start + length))
    return [(start, end) for _, start, end in sorted(scored)]

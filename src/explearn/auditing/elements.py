"""Elements that a classifier may lean on: where a text has them, and how a text is changed to test that they count.

An intervention gives versions of a text, each with a weight; the weighted sum of the probabilities of a class is the
element's effect on this text (AS_IT_IS stands for the text itself). For most elements that is the probability with the
element less that without it. A claim about several words is about more than its words claim alone:

    phrase      with it less with its strongest word only
    order       a before b less b before a
    together    f(a and b) - f(a) - f(b) + f(neither), as the interaction of two features
                (Grabisch and Roubens 1999, An axiomatic approach to the concept of interaction among players)
    place       at this end of the text less at the other end
    length      the long version of a text less the short one
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np

from explearn.auditing.texts import AuditText, bare, is_mark
from explearn.text.rewriting import Rewritten

AS_IT_IS: Rewritten = ""
"""Stands for the text itself among its versions."""

Intervention = list[tuple[int, Rewritten | None]]
"""Weights and versions of a text; None: a version without any word, which cannot be asked."""

FREQUENT_WORDS = 30
"""The most frequent words of a set of texts are its function words."""

STRONGEST = 5
"""Words of a text, the highest-scoring, of which pairs are made."""

_NEGATIONS = (
    "no not nor never none nobody nothing neither nowhere without cannot can't don't doesn't didn't isn't wasn't "
    "aren't weren't won't wouldn't shouldn't couldn't haven't hasn't hadn't ain't kein keine keinen nicht nie niemand "
    "nichts ohne ne pas jamais rien sans nunca nada nadie sin"
)
NEGATIONS = frozenset(_NEGATIONS.split())
"""Words that negate, in English, German, French and Spanish."""

SENTENCE_ENDS = (".", "!", "?", ":", "…")


class Element(NamedTuple):
    """Something that texts have.

    Attributes:
        kind: one of KINDS.
        parts: its words, or the name of the class of words, pattern, mark or length.
    """

    kind: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return NAMES[self.kind].format(*self.parts, phrase=" ".join(self.parts))


NAMES = {
    "word": "‘{0}’",
    "phrase": "‘{phrase}’",
    "order": "‘{0}’ before ‘{1}’",
    "together": "‘{0}’ together with ‘{1}’",
    "place": "‘{0}’ at the {1}",
    "class of words": "{0}",
    "punctuation": "the mark ‘{0}’",
    "pattern": "the pattern ‘{0}’",
    "length": "{0} texts",
}
"""Kind of element -> how it is named."""

KINDS = tuple(NAMES)
OF_WORDS = ("word", "phrase", "order", "together", "place")
"""Kinds whose parts are words (the second part of a place is an end of the text)."""

CLASSES_OF_WORDS = ("numbers", "negations", "names", "function words")


class Vocabulary(NamedTuple):
    """Facts about all texts together, which single texts are read with.

    Attributes:
        function_words: the most frequent words.
        length: median number of words.
        shares: word -> its mean share in the explained texts.
    """

    function_words: frozenset[str]
    length: float
    shares: Mapping[str, float]

    @classmethod
    def of(cls, texts: Sequence[AuditText]) -> Vocabulary:
        counts = Counter(chain.from_iterable(text.keys for text in texts))
        # The order among equally frequent words does not depend on the order of texts.
        frequent = sorted(counts, key=lambda key: (-counts[key], key))[:FREQUENT_WORDS]
        length = float(np.median([len(text.words) for text in texts]))
        sums: Counter[str] = Counter()
        explained: Counter[str] = Counter()
        for text in texts:
            if text.shares is not None:
                explained.update(text.keys)
                for key, share in zip(text.keys, text.shares.tolist(), strict=True):
                    sums[key] += share
        return cls(frozenset(frequent), length, {key: sums[key] / count for key, count in explained.items()})


# ---- where an element is ---------------------------------------------------------------------------------------------


def positions(element: Element, text: AuditText, known: Vocabulary) -> list[int]:
    """Return the numbers of the words that make an element in a text; empty if the text does not have it."""
    return _FINDERS[element.kind](element.parts, text, known)


def _word(parts: Sequence[str], text: AuditText, _: Vocabulary) -> list[int]:
    return [number for number, key in enumerate(text.keys) if key == parts[0]]


def _phrase(parts: Sequence[str], text: AuditText, _: Vocabulary) -> list[int]:
    size = len(parts)
    found: list[int] = []
    for number in range(len(text.keys) - size + 1):
        if text.keys[number : number + size] == parts:
            found += range(number, number + size)
    return sorted(set(found))


def _order(parts: Sequence[str], text: AuditText, _: Vocabulary) -> list[int]:
    """The first of either word."""
    if not set(parts) <= set(text.keys):
        return []
    first, second = map(text.keys.index, parts)
    if first > second:
        return []
    return [first, second]


def _together(parts: Sequence[str], text: AuditText, _: Vocabulary) -> list[int]:
    if not set(parts) <= set(text.keys):
        return []
    return [number for number, key in enumerate(text.keys) if key in parts]


def _place(parts: Sequence[str], text: AuditText, _: Vocabulary) -> list[int]:
    """The word, if it comes once, and in the first or last fifth."""
    if text.keys.count(parts[0]) != 1:
        return []
    number = text.keys.index(parts[0])
    if _end_at(number, text) != parts[1]:
        return []
    return [number]


def _end_at(number: int, text: AuditText) -> str:
    """Return in which end of a text, its first or last fifth, a word is; empty for neither."""
    share = (number + 0.5) / len(text.words)
    if share <= 0.2:
        return "start"
    if share >= 0.8:
        return "end"
    return ""


def _class_of_words(parts: Sequence[str], text: AuditText, known: Vocabulary) -> list[int]:
    if parts[0] == "names":
        return [number for number in range(len(text.words)) if _is_name(text, number)]
    if parts[0] == "numbers":
        return [number for number, key in enumerate(text.keys) if any(map(str.isdigit, key))]
    listed = known.function_words
    if parts[0] == "negations":
        listed = NEGATIONS
    return [number for number, key in enumerate(text.keys) if key in listed]


def _is_name(text: AuditText, number: int) -> bool:
    """Return whether a word is capitalised inside a sentence."""
    if number == 0 or number == len(text.example.words):
        return False
    before = text.words[number - 1]
    return bare(text.words[number])[:1].isupper() and not before.rstrip("\"')”’").endswith(SENTENCE_ENDS)


def _punctuation(parts: Sequence[str], text: AuditText, _: Vocabulary) -> list[int]:
    return [number for number, word in enumerate(text.words) if parts[0] in word]


def _pattern(parts: Sequence[str], text: AuditText, _: Vocabulary) -> list[int]:
    return text.matches[parts[0]]


def _length(parts: Sequence[str], text: AuditText, known: Vocabulary) -> list[int]:
    is_long = len(text.words) > known.length
    if is_long != (parts[0] == "long"):
        return []
    return list(range(len(text.words)))


_FINDERS: Mapping[str, Callable[[Sequence[str], AuditText, Vocabulary], list[int]]] = {
    "word": _word,
    "phrase": _phrase,
    "order": _order,
    "together": _together,
    "place": _place,
    "class of words": _class_of_words,
    "punctuation": _punctuation,
    "pattern": _pattern,
    "length": _length,
}


def elements_of(text: AuditText, common: frozenset[str]) -> set[Element]:
    """Return the words, phrases, pairs, places and marks of a text whose words are all in `common`.

    Pairs are those of the text's STRONGEST words.
    """
    elements = set()
    keys = text.keys
    for number, key in enumerate(keys):
        if key not in common:
            continue
        elements.add(Element("word", (key,)))
        end = _end_at(number, text)
        if end:
            elements.add(Element("place", (key, end)))
        for size in (2, 3):
            phrase = keys[number : number + size]
            if len(phrase) == size and common.issuperset(phrase):
                elements.add(Element("phrase", phrase))
    for mark in set("".join(text.words)):
        if is_mark(mark):
            elements.add(Element("punctuation", (mark,)))
    chosen = sorted({keys[number] for number in text.strongest(STRONGEST)} & common, key=keys.index)
    for first, second in combinations(chosen, 2):
        elements.add(Element("order", (first, second)))
        elements.add(Element("together", tuple(sorted((first, second)))))
    return elements


# ---- interventions ---------------------------------------------------------------------------------------------------


def lacks(element: Element, text: AuditText, known: Vocabulary) -> bool:
    """Return whether an element can be put into a text: it has none of its words, or one of two whose order counts."""
    if element.kind not in OF_WORDS:
        return not positions(element, text, known)
    if element.kind == "order":
        return not set(element.parts) <= set(text.keys)
    words = element.parts
    if element.kind == "place":
        words = words[:1]
    return set(text.keys).isdisjoint(words)


def take_out(element: Element, text: AuditText, known: Vocabulary) -> Intervention:
    """Return the intervention that takes an element out of a text that has it."""
    if element.kind == "together":
        first, second = element.parts
        without_first = text.without(_word((first,), text, known))
        without_second = text.without(_word((second,), text, known))
        return [(1, AS_IT_IS), (-1, without_first), (-1, without_second), (1, without(element, text, known))]
    return [(1, AS_IT_IS), (-1, without(element, text, known))]


def without(element: Element, text: AuditText, known: Vocabulary) -> Rewritten | None:
    """Return a text that has an element without what the claim is about; None if a segment would have no word."""
    at = positions(element, text, known)
    words = text.words
    if element.kind == "phrase":
        strongest = _strongest(element, known)
        return text.without([number for number in at if text.keys[number] != strongest])
    if element.kind == "order":
        first, second = at
        return text.rewritten({first: words[second], second: words[first]})
    if element.kind == "place":
        other_end = len(words)
        if element.parts[1] == "end":
            other_end = 0
        return text.rewritten({at[0]: None}, {other_end: [words[at[0]]]})
    if element.kind == "punctuation":
        return text.rewritten({number: words[number].replace(element.parts[0], "") or None for number in at})
    if element.kind == "length":
        return _stretched(text, known)
    return text.without(at)


def put_in(element: Element, text: AuditText, known: Vocabulary, donor: AuditText) -> Intervention:
    """Return the intervention that puts an element into a text without it.

    Args:
        element: the element.
        text: the text.
        known: what is known of all texts.
        donor: a text that has it: its words are put in, at the same share of the text.
    """
    if element.kind == "length":
        return [(1, _stretched(text, known)), (-1, AS_IT_IS)]
    at = _to_give(element, positions(element, donor, known), donor)
    place = round(at[0] / len(donor.words) * len(text.words))
    given = [bare(donor.words[position]) for position in at]
    with_element = text.rewritten({}, {place: given})
    if element.kind == "phrase":
        strongest = given[element.parts.index(_strongest(element, known))]
        return [(1, with_element), (-1, text.rewritten({}, {place: [strongest]}))]
    if element.kind == "order":
        return _put_in_order(element.parts, text, place, given)
    if element.kind == "together":
        first = text.rewritten({}, {place: given[:1]})
        second = text.rewritten({}, {place: given[1:]})
        return [(1, with_element), (-1, first), (-1, second), (1, AS_IT_IS)]
    if element.kind == "place":
        at_start = text.rewritten({}, {0: given})
        at_end = text.rewritten({}, {len(text.words): given})
        if element.parts[1] == "start":
            return [(1, at_start), (-1, at_end)]
        return [(1, at_end), (-1, at_start)]
    if element.kind == "punctuation":
        number = min(place, len(text.words) - 1)
        with_element = text.rewritten({number: text.words[number] + element.parts[0]})
    return [(1, with_element), (-1, AS_IT_IS)]


def _put_in_order(parts: Sequence[str], text: AuditText, place: int, given: Sequence[str]) -> Intervention:
    """Return the intervention that puts two words into a text in order; of a text that has one, only the other."""
    first, second = given
    before = {place: [first, second]}
    reverse = {place: [second, first]}
    if parts[0] in text.keys:
        place = text.keys.index(parts[0])
        before = {place + 1: [second]}
        reverse = {place: [second]}
    elif parts[1] in text.keys:
        place = text.keys.index(parts[1])
        before = {place: [first]}
        reverse = {place + 1: [first]}
    return [(1, text.rewritten({}, before)), (-1, text.rewritten({}, reverse))]


def _strongest(element: Element, known: Vocabulary) -> str:
    """Return the word of a phrase that scores highest on average."""
    return max(element.parts, key=lambda part: known.shares.get(part, 0.0))


def _to_give(element: Element, at: Sequence[int], donor: AuditText) -> list[int]:
    """Return the words of a donor that are put into a text: one time the element."""
    if element.kind in ("order", "together"):
        return [donor.keys.index(part) for part in element.parts]
    if element.kind == "phrase":
        return list(at[: len(element.parts)])
    given = [at[0]]
    while element.kind == "pattern" and given[-1] + 1 in at:
        given.append(given[-1] + 1)
    return given


def _stretched(text: AuditText, known: Vocabulary) -> Rewritten | None:
    """Return a long text without the half of its words that score least; a short one with them a second time."""
    by_share = sorted(range(len(text.words)), key=lambda number: abs(known.shares.get(text.keys[number], 0.0)))
    least = sorted(by_share[: (len(text.words) + 1) // 2])
    if len(text.words) > known.length:
        return text.without(least)
    return text.rewritten({}, {len(text.words): [bare(text.words[number]) for number in least]})

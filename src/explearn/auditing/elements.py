"""Elements that a classifier may lean on: where a text has them, and how a text is changed to test that they count.

An intervention gives versions of a text, each with a weight; the weights sum to 0, and the weighted sum of the
probabilities of a class is the element's effect on this text (AS_IT_IS stands for the text itself). For most elements
that is the probability with the element less that without it. A claim about several words is about more than its words
claim alone:

    phrase      with it less with its strongest word only
    order       a before b less b before a
    together    f(a and b) - f(a) - f(b) + f(neither), as the interaction of two features
                (Grabisch and Roubens 1999, An axiomatic approach to the concept of interaction among players)
    place       at this end of the text less at the other end
    length      the long version of a text less the short one
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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
        kind: one of NAMES.
        parts: its words, or the name of the class of words, pattern, mark or length.
    """

    kind: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return NAMES[self.kind].format(*self.parts, phrase=" ".join(self.parts))

    @property
    def words(self) -> tuple[str, ...]:
        """The parts that are words."""
        return self.parts[: WORDS.get(self.kind, 0)]


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

WORDS = {"word": 1, "phrase": 3, "order": 2, "together": 2, "place": 1}
"""Kind of element -> most of its parts that are words, the first ones."""

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
    def from_texts(cls, texts: Sequence[AuditText]) -> Vocabulary:
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
    kind, parts = element
    keys = text.keys
    if kind == "pattern":
        return text.matches[parts[0]]
    if kind == "class of words":
        return _in_class(parts[0], text, known)
    if kind == "punctuation":
        return [number for number, word in enumerate(text.words) if parts[0] in word]
    if kind == "length":
        is_long = len(keys) > known.length
        return list(range(len(keys))) if is_long == (parts[0] == "long") else []
    if not all(word in keys for word in element.words):
        return []
    if kind == "phrase":
        size = len(parts)
        starts = [number for number in range(len(keys) - size + 1) if keys[number : number + size] == parts]
        return sorted({number for start in starts for number in range(start, start + size)})
    first = keys.index(parts[0])
    if kind == "order":  # the first of either word
        second = keys.index(parts[1])
        return [first, second] if first < second else []
    if kind == "place":  # of a word that comes once
        return [first] if keys.count(parts[0]) == 1 and _end_at(first, text) == parts[1] else []
    return [number for number, key in enumerate(keys) if key in parts]


def _end_at(number: int, text: AuditText) -> str:
    """Return in which end of a text, its first or last fifth, a word is; empty for neither."""
    share = (number + 0.5) / len(text.words)
    if share <= 0.2:
        return "start"
    if share >= 0.8:
        return "end"
    return ""


def _in_class(name: str, text: AuditText, known: Vocabulary) -> list[int]:
    """Return the numbers of the words of a class."""
    if name == "names":
        return [number for number in range(len(text.words)) if _is_name(text, number)]
    if name == "numbers":
        return [number for number, key in enumerate(text.keys) if any(map(str.isdigit, key))]
    listed = NEGATIONS if name == "negations" else known.function_words
    return [number for number, key in enumerate(text.keys) if key in listed]


def _is_name(text: AuditText, number: int) -> bool:
    """Return whether a word is capitalised inside a sentence."""
    if number == 0 or number == len(text.example.words):
        return False
    before = text.words[number - 1]
    return bare(text.words[number])[:1].isupper() and not before.rstrip("\"')”’").endswith(SENTENCE_ENDS)


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
    if not element.words:
        return not positions(element, text, known)
    has = [word in text.keys for word in element.words]
    if element.kind == "order":
        return not all(has)
    return not any(has)


def take_out(element: Element, text: AuditText, known: Vocabulary) -> Intervention:
    """Return the intervention that takes an element out of a text that has it."""
    if element.kind == "together":
        first, second = element.parts
        without_first = text.without(positions(Element("word", (first,)), text, known))
        without_second = text.without(positions(Element("word", (second,)), text, known))
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
    kind, parts = element
    if kind == "length":
        return [(1, _stretched(text, known)), (-1, AS_IT_IS)]
    at = _to_give(element, positions(element, donor, known), donor)
    place = round(at[0] / len(donor.words) * len(text.words))
    if kind == "punctuation":
        number = min(place, len(text.words) - 1)
        return [(1, text.rewritten({number: text.words[number] + parts[0]})), (-1, AS_IT_IS)]
    given = [bare(donor.words[position]) for position in at]
    puts: list[tuple[int, Mapping[int, list[str]]]] = [(1, {place: given})]
    if kind == "phrase":
        puts.append((-1, {place: [given[parts.index(_strongest(element, known))]]}))
    elif kind == "together":
        puts += [(-1, {place: given[:1]}), (-1, {place: given[1:]})]
    elif kind == "order":
        this, other = _both_orders(parts, text, place, given)
        puts = [(1, this), (-1, other)]
    elif kind == "place":
        ends = [{0: given}, {len(text.words): given}]
        sign = 1 if parts[1] == "start" else -1
        puts = [(sign, ends[0]), (-sign, ends[1])]
    intervention: Intervention = [(weight, text.rewritten({}, put)) for weight, put in puts]
    rest = sum(weight for weight, _ in puts)
    if rest:
        intervention.append((-rest, AS_IT_IS))
    return intervention


def _both_orders(
    parts: Sequence[str], text: AuditText, place: int, given: list[str]
) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """Return what is put in for two words in order, and in the other order: both, or one beside the other."""
    first, second = given
    if parts[0] in text.keys:
        number = text.keys.index(parts[0])
        return {number + 1: [second]}, {number: [second]}
    if parts[1] in text.keys:
        number = text.keys.index(parts[1])
        return {number: [first]}, {number + 1: [first]}
    return {place: given}, {place: [second, first]}


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

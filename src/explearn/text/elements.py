"""Elements that a classifier may lean on: where a text has them, and how they are taken out, put in and planted.

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

import re
import string
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import combinations
from random import Random
from typing import ClassVar, Literal, Self

from explearn.core.errors import ParamsError, first_line, shown
from explearn.text.rewriting import Rewritten
from explearn.text.scored import ScoredText, Vocabulary, bare, is_mark

AS_IT_IS: Rewritten = ""
"""Stands for the text itself among its versions."""

Intervention = list[tuple[int, Rewritten | None]]
"""Weights and versions of a text; None: a version without any word, which cannot be asked."""

Planted = tuple[list[str], list[int]]
"""The words of a text with an element planted, and the numbers of those that make it."""


@dataclass(frozen=True, slots=True)
class Element(ABC):
    """Something that texts have; its kind and its fields say what. Elements are sorted by both.

    Attributes:
        kind: name of the kind of element.
        is_marked: whether it is made by some words of a text, which can be marked, rather than by all.

    Example:
        >>> from explearn import Example
        >>> text = ScoredText(Example("t", ("not", "good"), "negative", "train", "films"))
        >>> negations = WordClass("negations")
        >>> negations.find(text, Vocabulary.from_texts([text]))
        [0]
        >>> negations.take_out(text, Vocabulary.from_texts([text]))
        [(1, ''), (-1, 'good')]
    """

    kind: ClassVar[str]
    is_marked: ClassVar[bool] = True

    def __lt__(self, other: Element) -> bool:
        return (self.kind, astuple(self)) < (other.kind, astuple(other))

    @property
    def named(self) -> tuple[str, ...]:
        """The words that it names; empty if it names none."""
        return ()

    @classmethod
    def propose(cls, text: ScoredText, common: frozenset[str]) -> set[Self]:
        """Return the elements of this kind that an explained text may suggest, with words from `common` only.

        Kinds of which there are few elements suggest none: all of them are looked at anyway.
        """
        return set()

    def signs(self) -> list[Element]:
        """Return the proposed elements that show this one: itself, but of a long phrase its shorter ones."""
        return [self]

    @abstractmethod
    def find(self, text: ScoredText, vocabulary: Vocabulary) -> list[int]:
        """Return the numbers of the words that make it in a text; empty if the text does not have it."""

    def lacks(self, text: ScoredText, vocabulary: Vocabulary) -> bool:
        """Return whether it can be put into a text: the text has neither it nor a word that it names."""
        return not (any(word in text.keys for word in self.named) or self.find(text, vocabulary))

    def remove(self, text: ScoredText, vocabulary: Vocabulary) -> Rewritten | None:
        """Return a text that has it without all that makes it; None if a segment would have no word."""
        return text.without(self.find(text, vocabulary))

    def without(self, text: ScoredText, vocabulary: Vocabulary) -> Rewritten | None:
        """Return a text that has it without what the claim is about; None if a segment would have no word."""
        return self.remove(text, vocabulary)

    def take_out(self, text: ScoredText, vocabulary: Vocabulary) -> Intervention:
        """Return the intervention that takes it out of a text that has it."""
        return [(1, AS_IT_IS), (-1, self.without(text, vocabulary))]

    def put_in(self, text: ScoredText, donor: ScoredText, vocabulary: Vocabulary) -> Intervention:
        """Return the intervention that puts it into a text without it; the first version has it.

        Args:
            text: the text.
            donor: a text that has it: its words are put in, at the same share of the text.
            vocabulary: facts about all texts.
        """
        place, words = self.given(donor, text, vocabulary)
        return [(1, text.having(words, place)), (-1, AS_IT_IS)]

    def given(self, donor: ScoredText, text: ScoredText, vocabulary: Vocabulary) -> tuple[int, list[str]]:
        """Return where a donor's words are put into a text, and these words: one time the element."""
        numbers = self.once(donor, vocabulary)
        place = round(numbers[0] / len(donor.words) * len(text.words))
        return place, [bare(donor.words[number]) for number in numbers]

    def once(self, text: ScoredText, vocabulary: Vocabulary) -> list[int]:
        """Return the numbers of the words that make it once in a text that has it."""
        return self.find(text, vocabulary)[:1]

    def plant(self, words: Sequence[str], draw: Random, given: Sequence[str] = ()) -> Planted:
        """Plant it into the words of a text.

        Args:
            words: the words.
            draw: draws the place.
            given: the words that make it, as `given` returns them, for an element that names none.

        Returns:
            The words of the new text, and the numbers of those that make the element.
        """
        new = given or self.named
        assert new, "an element that names no words needs those of a text that has it"
        return _inserted(words, draw.randint(0, len(words)), new)

    def plant_contrast(self, words: Sequence[str], draw: Random) -> list[str]:
        """Return the words of a text with the element's words planted otherwise; unchanged if there is no such way."""
        return list(words)


def _inserted(words: Sequence[str], place: int, new: Sequence[str]) -> Planted:
    return [*words[:place], *new, *words[place:]], list(range(place, place + len(new)))


# ---- words -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Word(Element):
    """A word, wherever a text has it."""

    kind = "word"
    word: str

    def __str__(self) -> str:
        return f"‘{self.word}’"

    @property
    def named(self) -> tuple[str, ...]:
        return (self.word,)

    @classmethod
    def propose(cls, text: ScoredText, common: frozenset[str]) -> set[Self]:
        return {cls(key) for key in text.keys if key in common}

    def find(self, text: ScoredText, vocabulary: Vocabulary) -> list[int]:
        return [number for number, key in enumerate(text.keys) if key == self.word]


@dataclass(frozen=True, slots=True)
class Phrase(Element):
    """Words one after the other."""

    kind = "phrase"
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"‘{' '.join(self.words)}’"

    @property
    def named(self) -> tuple[str, ...]:
        return self.words

    @classmethod
    def propose(cls, text: ScoredText, common: frozenset[str]) -> set[Self]:
        return {cls(words) for words in _runs(text.keys) if common.issuperset(words)}

    def signs(self) -> list[Element]:
        return [Phrase(words) for words in _runs(self.words)]

    def find(self, text: ScoredText, vocabulary: Vocabulary) -> list[int]:
        size = len(self.words)
        numbers: set[int] = set()
        for start in range(len(text.keys) - size + 1):
            if text.keys[start : start + size] == self.words:
                numbers.update(range(start, start + size))
        return sorted(numbers)

    def without(self, text: ScoredText, vocabulary: Vocabulary) -> Rewritten | None:
        strongest = vocabulary.strongest(self.words)
        return text.without([number for number in self.find(text, vocabulary) if text.keys[number] != strongest])

    def put_in(self, text: ScoredText, donor: ScoredText, vocabulary: Vocabulary) -> Intervention:
        place, words = self.given(donor, text, vocabulary)
        strongest = words[self.words.index(vocabulary.strongest(self.words))]
        return [(1, text.having(words, place)), (-1, text.having([strongest], place))]

    def once(self, text: ScoredText, vocabulary: Vocabulary) -> list[int]:
        return self.find(text, vocabulary)[: len(self.words)]

    def plant_contrast(self, words: Sequence[str], draw: Random) -> list[str]:
        """Return the text with the phrase's words put in apart."""
        scattered = list(words)
        for word in self.words:
            scattered.insert(draw.randint(0, len(scattered)), word)
        return scattered


def _runs(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Return all two and three words that follow each other."""
    for size in (2, 3):
        for start in range(len(words) - size + 1):
            yield tuple(words[start : start + size])


# ---- pairs of words --------------------------------------------------------------------------------------------------

STRONGEST = 5
"""Words of a text, the highest-scoring, of which pairs are proposed."""


@dataclass(frozen=True, slots=True)
class Pair(Element):
    """Two words of a text."""

    first: str
    second: str

    @property
    def named(self) -> tuple[str, ...]:
        return self.first, self.second

    @classmethod
    def propose(cls, text: ScoredText, common: frozenset[str]) -> set[Self]:
        strongest = {text.keys[number] for number in text.strongest(STRONGEST)}
        return {cls(*pair) for pair in combinations(sorted(strongest & common, key=text.keys.index), 2)}

    def both_in(self, text: ScoredText) -> bool:
        """Return whether a text has both words."""
        return self.first in text.keys and self.second in text.keys

    def once(self, text: ScoredText, vocabulary: Vocabulary) -> list[int]:
        return [text.keys.index(self.first), text.keys.index(self.second)]

    def plant_contrast(self, words: Sequence[str], draw: Random) -> list[str]:
        """Return the text with one of the two words."""
        planted, numbers = Together(*sorted(self.named)).plant(words, draw)
        planted.pop(draw.choice(numbers))
        return planted


@dataclass(frozen=True, slots=True)
class Order(Pair):
    """A word before another: the first of either in a text."""

    kind = "order"

    def __str__(self) -> str:
        return f"‘{self.first}’ before ‘{self.second}’"

    def find(self, text: ScoredText, vocabulary: Vocabulary) -> list[int]:
        if self.both_in(text):
            first, second = self.once(text, vocabulary)
            if first < second:
                return [first, second]
        return []

    def lacks(self, text: ScoredText, vocabulary: Vocabulary) -> bool:
        """Return whether it can be put into a text: the text does not have both words."""
        return not self.both_in(text)

    def without(self, text: ScoredText, vocabulary: Vocabulary) -> Rewritten | None:
        first, second = self.find(text, vocabulary)
        return text.rewritten({first: text.words[second], second: text.words[first]})

    def put_in(self, text: ScoredText, donor: ScoredText, vocabulary: Vocabulary) -> Intervention:
        place, new = self.given(donor, text, vocabulary)
        right = wrong = place
        if self.first in text.keys:
            wrong = text.keys.index(self.first)
            right = wrong + 1
            new = new[1:]
        elif self.second in text.keys:
            right = text.keys.index(self.second)
            wrong = right + 1
            new = new[:1]
        return [(1, text.having(new, right)), (-1, text.having(new[::-1], wrong))]

    def plant(self, words: Sequence[str], draw: Random, given: Sequence[str] = ()) -> Planted:
        before, after = sorted(draw.sample(range(len(words) + 1), 2))
        later, _ = _inserted(words, after, [self.second])
        return _inserted(later, before, [self.first])[0], [before, after + 1]


@dataclass(frozen=True, slots=True)
class Together(Pair):
    """Two words that a text has both."""

    kind = "together"

    def __str__(self) -> str:
        return f"‘{self.first}’ together with ‘{self.second}’"

    @classmethod
    def propose(cls, text: ScoredText, common: frozenset[str]) -> set[Self]:
        return {cls(*sorted(order.named)) for order in Order.propose(text, common)}

    def find(self, text: ScoredText, vocabulary: Vocabulary) -> list[int]:
        if self.both_in(text):
            return [number for number, key in enumerate(text.keys) if key in self.named]
        return []

    def take_out(self, text: ScoredText, vocabulary: Vocabulary) -> Intervention:
        without_first = Word(self.first).without(text, vocabulary)
        without_second = Word(self.second).without(text, vocabulary)
        return [(1, AS_IT_IS), (-1, without_first), (-1, without_second), (1, self.without(text, vocabulary))]

    def put_in(self, text: ScoredText, donor: ScoredText, vocabulary: Vocabulary) -> Intervention:
        place, words = self.given(donor, text, vocabulary)
        first, second = (text.having([word], place) for word in words)
        return [(1, text.having(words, place)), (-1, first), (-1, second), (1, AS_IT_IS)]

    def plant(self, words: Sequence[str], draw: Random, given: Sequence[str] = ()) -> Planted:
        order = Order(self.second, self.first)
        if draw.random() < 0.5:
            order = Order(self.first, self.second)
        return order.plant(words, draw)


# ---- a word's place --------------------------------------------------------------------------------------------------

End = Literal["start", "end"]

END_SHARE = 0.2
"""The first and the last fifth of a text are its ends."""


@dataclass(frozen=True, slots=True)
class Place(Word):
    """A word, which the text has once, at the start or the end of the text."""

    kind = "place"
    end: End

    def __str__(self) -> str:
        return f"‘{self.word}’ at the {self.end}"

    @classmethod
    def propose(cls, text: ScoredText, common: frozenset[str]) -> set[Self]:
        places = set()
        for number, key in enumerate(text.keys):
            end = _end_at(number, text)
            if end and key in common:
                places.add(cls(key, end))
        return places

    def find(self, text: ScoredText, vocabulary: Vocabulary) -> list[int]:
        numbers = Word(self.word).find(text, vocabulary)
        if len(numbers) == 1 and _end_at(numbers[0], text) == self.end:
            return numbers
        return []

    def without(self, text: ScoredText, vocabulary: Vocabulary) -> Rewritten | None:
        (number,) = self.find(text, vocabulary)
        other_end = {"start": len(text.words), "end": 0}[self.end]
        return text.rewritten({number: None}, {other_end: [text.words[number]]})

    def put_in(self, text: ScoredText, donor: ScoredText, vocabulary: Vocabulary) -> Intervention:
        _, words = self.given(donor, text, vocabulary)
        here, there = 0, len(text.words)
        if self.end == "end":
            here, there = there, here
        return [(1, text.having(words, here)), (-1, text.having(words, there))]

    def plant(self, words: Sequence[str], draw: Random, given: Sequence[str] = ()) -> Planted:
        place = {"start": 0, "end": len(words)}[self.end]
        return _inserted(words, place, self.named)

    def plant_contrast(self, words: Sequence[str], draw: Random) -> list[str]:
        """Return the text with the word neither first nor last."""
        return _inserted(words, draw.randint(1, max(1, len(words) - 1)), self.named)[0]


def _end_at(number: int, text: ScoredText) -> End | None:
    """Return in which end of a text a word is; None for neither."""
    share = (number + 0.5) / len(text.words)
    if share <= END_SHARE:
        return "start"
    if share >= 1 - END_SHARE:
        return "end"
    return None


# ---- classes of words, and patterns ----------------------------------------------------------------------------------

_NEGATIONS = (
    "no not nor never none nobody nothing neither nowhere without cannot can't don't doesn't didn't isn't wasn't "
    "aren't weren't won't wouldn't shouldn't couldn't haven't hasn't hadn't ain't kein keine keinen nicht nie niemand "
    "nichts ohne ne pas jamais rien sans nunca nada nadie sin"
)
NEGATIONS = frozenset(_NEGATIONS.split())
"""Words that negate, in English, German, French and Spanish."""

SENTENCE_ENDS = (".", "!", "?", ":", "…")


def _is_number(text: ScoredText, number: int, vocabulary: Vocabulary) -> bool:
    return any(map(str.isdigit, text.keys[number]))


def _is_negation(text: ScoredText, number: int, vocabulary: Vocabulary) -> bool:
    return text.keys[number] in NEGATIONS


def _is_name(text: ScoredText, number: int, vocabulary: Vocabulary) -> bool:
    """Return whether a word is capitalised inside a sentence."""
    if number == 0 or number == len(text.example.words):
        return False
    before = text.words[number - 1]
    return bare(text.words[number])[:1].isupper() and not before.rstrip("\"')”’").endswith(SENTENCE_ENDS)


def _is_function_word(text: ScoredText, number: int, vocabulary: Vocabulary) -> bool:
    return text.keys[number] in vocabulary.function_words


CLASSES_OF_WORDS: Mapping[str, Callable[[ScoredText, int, Vocabulary], bool]] = {
    "numbers": _is_number,
    "negations": _is_negation,
    "names": _is_name,
    "function words": _is_function_word,
}
"""Class of words -> whether the word of a text with this number is in it."""


@dataclass(frozen=True, slots=True)
class WordClass(Element):
    """A class of words, one of CLASSES_OF_WORDS."""

    kind = "class of words"
    name: str

    def __str__(self) -> str:
        return self.name

    def find(self, text: ScoredText, vocabulary: Vocabulary) -> list[int]:
        is_member = CLASSES_OF_WORDS[self.name]
        return [number for number in range(len(text.words)) if is_member(text, number, vocabulary)]


PATTERN_SECONDS = 1.0
"""Longest time that a pattern may search one segment of a text."""


@dataclass(frozen=True, slots=True)
class Pattern(Element):
    """Words that a regular expression matches.

    Raises:
        ParamsError: it matches the empty text, is not a regular expression, or is nested too deeply.
    """

    kind = "pattern"
    pattern: str

    def __post_init__(self) -> None:
        import regex

        try:
            program = regex.compile(self.pattern)
        except (regex.error, RecursionError) as error:
            message = f"pattern {shown(self.pattern)}: not a regular expression ({first_line(error)})"
            raise ParamsError(message) from error
        if program.match(""):
            raise ParamsError(f"pattern {self.pattern!r}: matches the empty text; expected one that needs a character")

    def __str__(self) -> str:
        return f"the pattern ‘{self.pattern}’"

    def find(self, text: ScoredText, vocabulary: Vocabulary) -> list[int]:
        """Return the numbers of the words that it matches, also in part.

        Raises:
            ParamsError: it searches a segment for more than PATTERN_SECONDS.
        """
        import regex

        program = regex.compile(self.pattern)
        numbers = []
        first = 0
        for segment in text.example.segments:
            try:
                found = [match.span() for match in program.finditer(segment.text, timeout=PATTERN_SECONDS)]
            except TimeoutError as error:
                raise ParamsError(
                    f"pattern {self.pattern!r}: takes more than {PATTERN_SECONDS:g} second on the text "
                    f"{text.example.id!r}; expected one with fewer ways to match"
                ) from error
            for number, (start, end) in enumerate(segment.spans, start=first):
                if any(start < b and a < end for a, b in found):
                    numbers.append(number)
            first += len(segment.spans)
        return numbers

    def once(self, text: ScoredText, vocabulary: Vocabulary) -> list[int]:
        numbers = self.find(text, vocabulary)
        match = numbers[:1]
        while match[-1] + 1 in numbers:
            match.append(match[-1] + 1)
        return match


# ---- punctuation and length ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Punctuation(Element):
    """A mark, wherever a text has it."""

    kind = "punctuation"
    mark: str

    def __str__(self) -> str:
        return f"the mark ‘{self.mark}’"

    @classmethod
    def propose(cls, text: ScoredText, common: frozenset[str]) -> set[Self]:
        return {cls(mark) for mark in set("".join(text.words)) if is_mark(mark)}

    def find(self, text: ScoredText, vocabulary: Vocabulary) -> list[int]:
        return [number for number, word in enumerate(text.words) if self.mark in word]

    def remove(self, text: ScoredText, vocabulary: Vocabulary) -> Rewritten | None:
        numbers = self.find(text, vocabulary)
        return text.rewritten({number: text.words[number].replace(self.mark, "") or None for number in numbers})

    def put_in(self, text: ScoredText, donor: ScoredText, vocabulary: Vocabulary) -> Intervention:
        place, _ = self.given(donor, text, vocabulary)
        number = min(place, len(text.words) - 1)
        return [(1, text.rewritten({number: text.words[number] + self.mark})), (-1, AS_IT_IS)]

    def plant(self, words: Sequence[str], draw: Random, given: Sequence[str] = ()) -> Planted:
        """Plant it behind the last word, in place of this word's punctuation."""
        return [*words[:-1], words[-1].rstrip(string.punctuation) + self.mark], [len(words) - 1]


@dataclass(frozen=True, slots=True)
class Length(Element):
    """Being long, with more words than the median text, or short."""

    kind = "length"
    is_marked = False
    length: Literal["long", "short"]

    def __str__(self) -> str:
        return f"{self.length} texts"

    def find(self, text: ScoredText, vocabulary: Vocabulary) -> list[int]:
        is_long = len(text.words) > vocabulary.length
        if is_long == (self.length == "long"):
            return list(range(len(text.words)))
        return []

    def remove(self, text: ScoredText, vocabulary: Vocabulary) -> Rewritten | None:
        """Return a long text without the half of its words that score least; a short one with them a second time."""
        by_share = sorted(range(len(text.words)), key=lambda number: abs(vocabulary.shares.get(text.keys[number], 0.0)))
        least = sorted(by_share[: (len(text.words) + 1) // 2])
        if len(text.words) > vocabulary.length:
            return text.without(least)
        return text.having([bare(text.words[number]) for number in least], len(text.words))

    def put_in(self, text: ScoredText, donor: ScoredText, vocabulary: Vocabulary) -> Intervention:
        return [(1, self.remove(text, vocabulary)), (-1, AS_IT_IS)]

    def plant(self, words: Sequence[str], draw: Random, given: Sequence[str] = ()) -> Planted:
        """Plant all words a second time, or keep only the first half of them."""
        if self.length == "short":
            return list(words[: (len(words) + 1) // 2]), []
        return [*words, *draw.sample(words, len(words))], list(range(len(words), 2 * len(words)))


# ---- names of elements -----------------------------------------------------------------------------------------------


def parse_element(name: str) -> Element:
    """Return the element with a name, as `str` gives it; without quotes, a word, words or punctuation themselves.

    Args:
        name: such as ‘zinc’ at the end, numbers, long texts, the mark ‘!’, or a phrase.

    Raises:
        ParamsError: it has no word.

    Example:
        >>> parse_element("‘zinc’ before ‘tulip’")
        Order(first='zinc', second='tulip')
        >>> parse_element("Under a paper moon"), parse_element("!"), parse_element("long texts")
        (Phrase(words=('under', 'a', 'paper', 'moon')), Punctuation(mark='!'), Length(length='long'))
    """
    for pattern, make in NAMES.items():
        match = re.fullmatch(pattern, name.strip(), re.DOTALL)
        if match:
            return make(*match.groups())
    words = tuple(bare(word).casefold() for word in name.strip().removeprefix("‘").removesuffix("’").split())
    if not words:
        raise ParamsError(
            f"element {name!r}: names nothing; expected a word, a phrase, a mark, or a name as audits give"
        )
    if len(words) > 1:
        return Phrase(words)
    if len(words[0]) == 1 and is_mark(words[0]):
        return Punctuation(words[0])
    return Word(words[0])


NAMES: Mapping[str, Callable[..., Element]] = {
    "‘(.+)’ before ‘(.+)’": Order,
    "‘(.+)’ together with ‘(.+)’": Together,
    "‘(.+)’ at the (start|end)": Place,
    "the pattern ‘(.+)’": Pattern,
    "the mark ‘(.+)’": Punctuation,
    "(long|short) texts": Length,
    f"({'|'.join(CLASSES_OF_WORDS)})": WordClass,
}
"""Form of an element's name -> its class; phrases and words have no form but quotes."""

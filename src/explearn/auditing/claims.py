"""The claims that an audit tests: found by attributions, and by counting words beside the answers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from explearn.auditing.reading import AuditText
from explearn.core.arrays import Array
from explearn.text.elements import (
    CLASSES_OF_WORDS,
    Element,
    Length,
    Order,
    Pattern,
    Phrase,
    Place,
    Punctuation,
    Together,
    Word,
    WordClass,
)
from explearn.text.scored import Vocabulary

FEWEST_TEXTS = 5
"""An element must occur in this many of the texts that are searched."""

MOST_CLAIMS = 120
"""Claims over all classes, besides classes of words, patterns and lengths, which are always looked at."""

SHARES: Mapping[type[Element], float] = {
    Word: 0.35,
    Phrase: 0.15,
    Order: 0.15,
    Together: 0.15,
    Place: 0.15,
    Punctuation: 0.05,
}
"""Kind of element -> its share of a class's claims."""

GENERAL: Sequence[Element] = (*map(WordClass, CLASSES_OF_WORDS), Length("long"), Length("short"))
"""Elements that are looked at wherever enough texts have them."""

PRIOR_WORDS = 500
"""Weight of the prior of the log-odds, in words."""

ATTRIBUTIONS = "attributions"
PREDICTION = "word counts"
"""Ways to find a claim: by its share of the attributions, or as a word that is more frequent beside an answer."""


class Claim(NamedTuple):
    """A claim: an element counts for a class.

    Attributes:
        element: the element.
        target: index of the class.
        sources: ATTRIBUTIONS, PREDICTION or both.
    """

    element: Element
    target: int
    sources: tuple[str, ...]


def excess(shares: Array, numbers: Sequence[int]) -> float:
    """Return how much some words score beyond as many average words.

    Args:
        shares: each word's share of the text's scores, (words,).
        numbers: the words.
    """
    return float(shares[numbers].sum()) - len(numbers) / len(shares)


def find_claims(texts: Sequence[AuditText], vocabulary: Vocabulary, patterns: Sequence[Pattern]) -> list[Claim]:
    """Return the claims to look at, from the texts that are searched.

    Attributions: for each class and kind, the elements with the largest sum of `excess` over the texts of this answer.

    Args:
        texts: the texts that are searched, which are explained.
        vocabulary: facts about all texts.
        patterns: patterns of the user.
    """
    frequency = Counter(key for text in texts for key in set(text.keys))
    common = frozenset(key for key, count in frequency.items() if count >= FEWEST_TEXTS)
    always: list[Element] = [*patterns]
    for element in GENERAL:
        if sum(bool(element.find(text, vocabulary)) for text in texts) >= FEWEST_TEXTS:
            always.append(element)
    found: dict[tuple[Element, int], list[str]] = {}
    answers = sorted({text.predicted for text in texts})
    for target in answers:
        answered = [text for text in texts if text.predicted == target]
        for kind, share in SHARES.items():
            most = max(1, round(share * MOST_CLAIMS / len(answers)))
            for element in _strongest(kind, answered, common, vocabulary)[:most]:
                found.setdefault((element, target), []).append(ATTRIBUTIONS)
        for element in always:
            found.setdefault((element, target), []).append(ATTRIBUTIONS)
        most = max(1, round(SHARES[Word] * MOST_CLAIMS / len(answers)))
        odds = log_odds(texts, common, target)
        for word in sorted(odds, key=lambda word: (-odds[word], word))[:most]:
            found.setdefault((Word(word), target), []).append(PREDICTION)
    return [Claim(element, target, tuple(sources)) for (element, target), sources in found.items()]


def _strongest(
    kind: type[Element], texts: Sequence[AuditText], common: frozenset[str], vocabulary: Vocabulary
) -> list[Element]:
    """Return the elements of a kind that score more than average words in enough of some texts, the strongest first."""
    counts: Counter[Element] = Counter()
    sums: defaultdict[Element, float] = defaultdict(float)
    for text in texts:
        assert text.shares is not None
        for element in kind.propose(text, common):
            numbers = element.find(text, vocabulary)
            if numbers:
                counts[element] += 1
                sums[element] += excess(text.shares, numbers)
    enough = [element for element, total in sums.items() if total > 0 and counts[element] >= FEWEST_TEXTS]
    return sorted(enough, key=lambda element: (-sums[element], element))


def log_odds(texts: Sequence[AuditText], words: Collection[str], target: int) -> dict[str, float]:
    """Return how much each word goes with a class: its log-odds against the other classes, in standard errors.

    The prior is the words' frequency in all texts (Monroe et al. 2008, Fightin' Words, equations 16, 19 to 22).

    Args:
        texts: the texts.
        words: the words.
        target: index of the class.
    """
    here: Counter[str] = Counter()
    elsewhere: Counter[str] = Counter()
    for text in texts:
        counts = here if text.predicted == target else elsewhere
        counts.update(text.keys)
    total = here.total() + elsewhere.total()
    scores = {}
    for word in words:
        prior = PRIOR_WORDS * (here[word] + elsewhere[word]) / total
        mine = here[word] + prior
        theirs = elsewhere[word] + prior
        odds = np.log(mine / (here.total() + PRIOR_WORDS - mine))
        odds -= np.log(theirs / (elsewhere.total() + PRIOR_WORDS - theirs))
        scores[word] = float(odds / np.sqrt(1 / mine + 1 / theirs))
    return scores

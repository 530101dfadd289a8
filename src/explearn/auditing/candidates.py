"""The claims that an audit tests: found by attributions, and by counting words beside the answers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from explearn.auditing.elements import CLASSES_OF_WORDS, Element, Vocabulary, elements_of, positions
from explearn.auditing.texts import AuditText

FEWEST_TEXTS = 5
"""An element must occur in this many of the texts that are searched."""

MOST_CANDIDATES = 120
"""Candidates over all classes, besides classes of words, patterns and lengths, which are always looked at."""

SHARES = {"word": 0.35, "phrase": 0.15, "order": 0.15, "together": 0.15, "place": 0.15, "punctuation": 0.05}
"""Kind of element -> its share of a class's candidates."""

PRIOR_WORDS = 500
"""Weight of the prior of the log-odds, in words."""

ATTRIBUTIONS = "attributions"
PREDICTION = "word counts"
"""Ways to find a candidate: by its share of the attributions, or as a word that is more frequent beside an answer."""


class Candidate(NamedTuple):
    """A claim: an element counts for a class.

    Attributes:
        element: the element.
        target: index of the class.
        sources: ATTRIBUTIONS, PREDICTION or both.
    """

    element: Element
    target: int
    sources: tuple[str, ...]


def excess(element: Element, text: AuditText, known: Vocabulary) -> float:
    """Return how much an element scores in an explained text that has it, beyond as many average words."""
    assert text.shares is not None
    at = positions(element, text, known)
    return float(text.shares[at].sum()) - len(at) / len(text.words)


def find_candidates(texts: Sequence[AuditText], known: Vocabulary, patterns: Collection[str]) -> list[Candidate]:
    """Return the claims to look at, from the texts that are searched.

    Attributions: for each class and kind, the elements with the largest sum of `excess` over the texts of this answer.

    Args:
        texts: the texts that are searched.
        known: what is known of all texts.
        patterns: regular expressions of the user.
    """
    frequency = Counter(key for text in texts for key in set(text.keys))
    common = frozenset(key for key, count in frequency.items() if count >= FEWEST_TEXTS)
    counts: Counter[tuple[int, Element]] = Counter()
    sums: defaultdict[tuple[int, Element], float] = defaultdict(float)
    for text in texts:
        for element in elements_of(text, common):
            at = positions(element, text, known)
            if at:
                counts[text.predicted, element] += 1
                sums[text.predicted, element] += excess(element, text, known)
    found: dict[tuple[Element, int], list[str]] = {}
    answers = sorted({text.predicted for text in texts})
    always = [Element("pattern", (pattern,)) for pattern in patterns]
    general = [Element("class of words", (name,)) for name in CLASSES_OF_WORDS]
    general += [Element("length", (length,)) for length in ("long", "short")]
    for element in general:
        if sum(bool(positions(element, text, known)) for text in texts) >= FEWEST_TEXTS:
            always.append(element)
    for target in answers:
        for kind, share in SHARES.items():
            most = max(1, round(share * MOST_CANDIDATES / len(answers)))
            enough = [
                element
                for (answer, element), total in sums.items()
                if answer == target and element.kind == kind and total > 0 and counts[answer, element] >= FEWEST_TEXTS
            ]
            enough.sort(key=lambda element: (-sums[target, element], element))
            for element in enough[:most]:
                found.setdefault((element, target), []).append(ATTRIBUTIONS)
        for element in always:
            found.setdefault((element, target), []).append(ATTRIBUTIONS)
        most = max(1, round(SHARES["word"] * MOST_CANDIDATES / len(answers)))
        odds = log_odds(texts, common, target)
        for word in sorted(odds, key=lambda word: (-odds[word], word))[:most]:
            found.setdefault((Element("word", (word,)), target), []).append(PREDICTION)
    return [Candidate(element, target, tuple(sources)) for (element, target), sources in found.items()]


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


def occurrences(
    elements: Collection[Element], texts: Sequence[AuditText], known: Vocabulary
) -> Mapping[Element, list[int]]:
    """Return element -> numbers of the texts that have it."""
    where = {}
    for element in elements:
        where[element] = [number for number, text in enumerate(texts) if positions(element, text, known)]
    return where

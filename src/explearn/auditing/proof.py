"""What a classifier does with elements in texts that no step has seen: their effects, beside those of words that mean
nothing, and how often it is right.

For each element, CONTROLS draws of as many words that mean nothing are put into the same number of texts. If it meant
nothing either, its effect would be the largest of all in one of CONTROLS + 1 cases, so a larger one is told from noise
at a level of 5 %.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from random import Random
from typing import NamedTuple

import numpy as np

from explearn.auditing.claims import log_odds
from explearn.auditing.guard import Editor
from explearn.auditing.reading import AuditText
from explearn.auditing.tested import CONFIDENCE, LEAST_EFFECT, known
from explearn.core.arrays import Array
from explearn.core.errors import DataError
from explearn.metrics.significance import FEWEST_TEXTS, mean_interval
from explearn.predictors.answers import Answers
from explearn.predictors.predictor import Predictor
from explearn.text.elements import Element
from explearn.text.encoding import PlainText, plain_text
from explearn.text.scored import ScoredText

MOST_CHANGED = 30
"""Most texts from which an element is taken out, and most into which it is put."""

CONTROLS = 20
"""Draws of words that mean nothing."""

FREQUENT = 100
"""The most frequent words, of which those that go least with an answer or a label mean nothing."""

NEUTRAL = 0.3
"""Share of these."""

BINS = 10
"""Bins of the calibration error."""


class Trial(NamedTuple):
    """A text with and without an element.

    Attributes:
        having: with it.
        without: without it.
        label: index of the text's class; None if that is not known.
    """

    having: PlainText
    without: PlainText
    label: int | None


@dataclass(frozen=True, slots=True)
class ElementEffect:
    """The effect of an element on a classifier, in texts that no step has seen.

    Attributes:
        element: the element, in words.
        kind: its kind.
        way: name of the way by which the classifier was made; BEFORE for the classifier as it was.
        target: the class for which it counted before.
        texts: number of texts that were changed.
        effect: by how much the element raises the probability of this class, mean.
        low: lower bound of its 95 % interval.
        high: upper bound.
        noise: the largest mean effect, on any class, of as many words that mean nothing.
        size: the element's largest mean effect on any class.
    """

    element: str
    kind: str
    way: str
    target: str
    texts: int
    effect: float
    low: float | None
    high: float | None
    noise: float
    size: float

    @property
    def matters(self) -> bool:
        """Whether the effect is beyond noise, with its interval."""
        return self.low is not None and self.low > max(self.noise, LEAST_EFFECT)

    @property
    def gone(self) -> bool:
        """Whether the effect cannot be told from noise."""
        return self.size <= max(self.noise, LEAST_EFFECT)


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """What one classifier does with the texts.

    Attributes:
        effects: of each element.
        probabilities: of all texts as they are, (texts, C).
        right: whether the answer to each text is its label, NaN without a label, (texts,).
        disagreeing: whether the answers to texts that have an element, but another label than the one for which it
            counts, are right.
        calibration: expected calibration error in 10 bins (Guo et al. 2017).
    """

    effects: Sequence[ElementEffect]
    probabilities: Array
    right: Array
    disagreeing: Sequence[bool]
    calibration: float


class Proof:
    """Asks classifiers about the same texts.

    Args:
        texts: texts that no step has seen.
        editor: the elements.
        neutral: words that mean nothing (`neutral_words`).
        labels: the classes.
        seed: seed of the draws.

    Raises:
        DataError: an element can be taken out of no text, and put into none.

    Attributes:
        having: whether each text has an element, (texts,).
        targets: element -> index of the class for which it counts; the first classifier that is judged decides.
    """

    def __init__(
        self, texts: Sequence[AuditText], editor: Editor, neutral: Sequence[str], labels: Sequence[str], seed: int
    ) -> None:
        self.texts = texts
        self.labels = labels
        self.editor = editor
        self.having = np.array([bool(editor.found(text)) for text in texts])
        self.targets: dict[Element, int] = {}
        self._truth = [labels.index(text.example.label) if text.example.label else None for text in texts]
        self._trials = {element: self._changed(element) for element in editor.elements}
        self._controls: dict[int, list[list[Trial]]] = {}
        draw = Random(seed)
        for trials in self._trials.values():
            size = words_changed(trials)
            if size not in self._controls:
                self._controls[size] = [self._control(size, neutral, draw) for _ in range(CONTROLS)]

    def _changed(self, element: Element) -> list[Trial]:
        vocabulary = self.editor.vocabulary
        taken: list[Trial] = []
        put: list[Trial] = []
        for text, label in zip(self.texts, self._truth, strict=True):
            as_it_is = plain_text(text.example.segments)
            if element.find(text, vocabulary):
                version = element.remove(text, vocabulary)
                if version is not None and len(taken) < MOST_CHANGED:
                    taken.append(Trial(as_it_is, version, label))
            elif len(put) < MOST_CHANGED:
                version = self.editor.having(text, element, len(put))
                if version is not None:
                    put.append(Trial(version, as_it_is, label))
        if not taken + put:
            raise DataError(f"element {element}: cannot be taken out of a text, nor put into one")
        return taken + put

    def _control(self, size: int, neutral: Sequence[str], draw: Random) -> list[Trial]:
        words = draw.choices(neutral, k=size)
        trials = []
        for text in self.texts[: 2 * MOST_CHANGED]:
            without = self.editor.without(text)
            if without is not None:
                plain = ScoredText.of(without)
                having = plain.having(words, draw.randint(0, len(plain.words)))
                assert having is not None
                trials.append(Trial(having, without, None))
        return trials

    def judge(self, classifier: Predictor, way: str) -> Judged:
        """Return what a classifier does.

        Args:
            classifier: the classifier, with the same classes in the same order.
            way: name of the way by which it was made.
        """
        asked = Answers(classifier)
        probabilities = asked.ask([text.example for text in self.texts], gaps=True)
        noise = {}
        for size, draws in self._controls.items():
            means = []
            for trials in draws:
                _, differences = _differences(asked, trials)
                means.append(float(np.abs(np.nanmean(differences, axis=0)).max()))
            noise[size] = max(means)
        effects = []
        disagreeing: list[bool] = []
        for element, trials in self._trials.items():
            having, differences = _differences(asked, trials)
            means_of_classes = np.nanmean(differences, axis=0)
            target = self.targets.setdefault(element, int(means_of_classes.argmax()))
            low, high = mean_interval(known(differences[:, target]), CONFIDENCE, -1, 1)
            effects.append(
                ElementEffect(
                    element=str(element),
                    kind=element.kind,
                    way=way,
                    target=self.labels[target],
                    texts=len(trials),
                    effect=float(means_of_classes[target]),
                    low=low,
                    high=high,
                    noise=noise[words_changed(trials)],
                    size=float(np.abs(means_of_classes).max()),
                )
            )
            for trial, row in zip(trials, having, strict=True):
                if trial.label not in (None, target) and not np.isnan(row).any():
                    disagreeing.append(int(row.argmax()) == trial.label)
        right = np.array([np.nan if label is None else float(label) for label in self._truth])
        labelled = ~np.isnan(right) & ~np.isnan(probabilities).any(1)
        right[labelled] = probabilities[labelled].argmax(1) == right[labelled]
        right[~labelled] = np.nan
        calibration = calibration_error(probabilities[labelled].max(1), right[labelled])
        return Judged(effects, probabilities, right, disagreeing, calibration)


def _differences(asked: Answers, trials: Sequence[Trial]) -> tuple[Array, Array]:
    """Return the probabilities with an element, and by how much they are above those without, (trials, C) each."""
    rows = asked.ask([*(trial.having for trial in trials), *(trial.without for trial in trials)], gaps=True)
    having, without = np.split(rows, 2)
    return having, having - without


def words_changed(trials: Sequence[Trial]) -> int:
    """Return by how many words texts with and without an element differ, the median; at least 1."""
    counts = []
    for trial in trials:
        versions = [ScoredText.of(version) for version in (trial.having, trial.without)]
        counts.append(abs(len(versions[0].words) - len(versions[1].words)))
    return max(1, round(float(np.median(counts))))


def neutral_words(texts: Sequence[AuditText], labels: Sequence[str], editor: Editor) -> list[str]:
    """Return words that mean nothing: frequent ones that go least with any answer or label (`log_odds`).

    Args:
        texts: texts, which need not be explained.
        labels: the classes.
        editor: elements, of which none may be made by these words.
    """
    labelled = []
    for text in texts:
        if text.example.label:
            is_label = np.array([label == text.example.label for label in labels])
            labelled.append(replace(text, probabilities=is_label))
    frequency: Counter[str] = Counter()
    for text in labelled:
        frequency.update(set(text.keys))
    marked = [element for element in editor.elements if element.is_marked]
    named = set(chain.from_iterable(element.named for element in marked))
    frequent: list[str] = []
    for word in sorted(frequency, key=lambda word: (-frequency[word], word)):
        alone = ScoredText.of(word)
        makes_one = any(element.find(alone, editor.vocabulary) for element in marked)
        if word not in named and not makes_one:
            frequent.append(word)
    frequent = frequent[:FREQUENT]
    strongest = dict.fromkeys(frequent, 0.0)
    for answered, target in product((texts, labelled), range(len(labels))):
        for word, odds in log_odds(answered, frequent, target).items():
            strongest[word] = max(strongest[word], abs(odds))
    ordered = sorted(frequent, key=lambda word: (strongest[word], word))
    return ordered[: math.ceil(NEUTRAL * len(ordered))]


def calibration_error(confidence: Array, right: Array) -> float:
    """Return the expected calibration error, in BINS bins of equal width (Guo et al. 2017, equation 3).

    Args:
        confidence: probability of each answer, (n,).
        right: whether it is right, (n,).

    Example:
        >>> round(calibration_error(np.array([0.9, 0.9]), np.array([1.0, 0.0])), 3)
        0.4
    """
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    error = 0.0
    for number in np.unique(bins):
        members = bins == number
        error += abs(float(confidence[members].mean() - right[members].mean())) * members.mean()
    return float(error)


def share(values: Sequence[bool] | Array) -> tuple[float | None, float | None, float | None]:
    """Return the share of right answers and its 95 % interval; None without any, or of too few for an interval."""
    array = np.asarray(values, dtype=np.float64)
    array = array[~np.isnan(array)]
    if not len(array):
        return None, None, None
    low = high = None
    if len(array) >= FEWEST_TEXTS:
        low, high = mean_interval(array, CONFIDENCE, 0, 1)
    return float(array.mean()), low, high

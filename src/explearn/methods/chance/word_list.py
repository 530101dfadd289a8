"""Lower bounds for methods that learn from marks: what marked words have in common, whatever the text."""

from __future__ import annotations

import string
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import expit

from explearn.core.arrays import Array
from explearn.core.errors import DataError
from explearn.core.validation import Seeded
from explearn.methods.base.explainer import About, Encoding
from explearn.methods.base.learned import LearnedExplainer, TaskData, TrainedState
from explearn.methods.chance.random import TextScorer

FREQUENT = 0.05
"""Share of the training texts from which a word of theirs is a stop word."""


class WordScorer(LearnedExplainer, TextScorer):
    """Base of methods that learn from marks to score the words themselves, without the model or the class."""

    class Options(Seeded):
        protocol: Literal["in_domain"] = "in_domain"
        """How it is trained: on the task's own marks."""

    @abstractmethod
    def score_words(self, words: Sequence[str]) -> ArrayLike:
        """Score the words of a text, (words,)."""

    def score_text(self, text: Encoding) -> ArrayLike:
        return self.score_words([bare(word) for word in text.words])


def marked_texts(task: TaskData) -> Iterator[tuple[list[str], Sequence[bool]]]:
    """Yield the bare words and the marks of each training text that has some.

    Raises:
        DataError: no text has a rationale, no word is marked, or every word.
    """
    count = 0
    marked = 0
    for example in task.examples(task.rationale_split):
        if example.id in task.gold:
            mask = task.gold[example.id]
            count += len(mask)
            marked += sum(mask)
            yield [bare(word) for word in example.all_words], mask
    where = f"task {task.name!r}, split {task.rationale_split!r}"
    if not count:
        raise DataError(f"{where}: no text has a rationale; this method learns from rationales (marked words)")
    if not 0 < marked < count:
        raise DataError(
            f"{where}: of {count:,} words of marked texts {marked / count:.0%} are marked; expected some of them"
        )


class WordList(WordScorer):
    """The share of a word's occurrences in the training texts that are marked; the same in every text.

    A word that occurs n times, m of them marked, has the score (m + r) / (n + 1), where r is the share of all words
    that are marked; a word in no training text has r. Case and surrounding punctuation are ignored. It is the lower
    bound for methods that learn from the task's own marks.
    """

    about = About(
        name="word_list",
        family="learned",
        cost="one forward pass",
        needs={"training_rationales"},
        binarisation="expected_f1",
    )
    weights_file = "word_list.safetensors"

    shares: Mapping[str, float] | None = None
    rate = 0.0
    kept: ClassVar = {"rate": float}

    def learn(self, task: TaskData, *, description: str | None = None) -> Self:
        """Count the marked words.

        Args:
            task: what to learn from.
            description: not used; counting takes no time.

        Raises:
            DataError: no word is marked, or every word.
        """
        counts: Counter[str] = Counter()
        marked: Counter[str] = Counter()
        for words, mask in marked_texts(task):
            for word, mark in zip(words, mask, strict=True):
                counts[word] += 1
                marked[word] += mark
        self.rate = marked.total() / counts.total()
        self.shares = {word: (marked[word] + self.rate) / (count + 1) for word, count in sorted(counts.items())}
        return self

    def score_words(self, words: Sequence[str]) -> ArrayLike:
        shares = self._trained(self.shares)
        return [shares.get(word, self.rate) for word in words]

    def _state(self) -> TrainedState:
        shares = self._trained(self.shares)
        return TrainedState({"shares": torch.tensor([*shares.values()])}, {"words": [*shares]})

    def _restore(self, state: TrainedState) -> None:
        words = state.value("words", list[str])
        self.shares = dict(zip(words, state.tensors["shares"].tolist(), strict=True))


class WordFacts(WordScorer):
    """The probability that a word is marked, by its length, its place and whether it is a stop word.

    Logistic regression of the marks of the training texts on a word's letters, ln(1 + n); its place p in the text, from
    0 to 1, and p^2; and whether it occurs in FREQUENT of the training texts or more, which makes a stop word in any
    language. Neither the model nor the class plays a part, nor which word it is: what a method has above it is not owed
    to such facts.
    """

    about = About(
        name="word_facts",
        family="learned",
        cost="one forward pass",
        needs={"training_rationales"},
        binarisation="expected_f1",
    )
    weights_file = "word_facts.safetensors"

    coefficients: Array | None = None
    kept: ClassVar = {"frequent": list[str]}
    frequent: Sequence[str] = ()

    def learn(self, task: TaskData, *, description: str | None = None) -> Self:
        """Fit the regression.

        Args:
            task: what to learn from.
            description: not used; it takes no time.

        Raises:
            DataError: no word is marked, or every word.
        """
        # scikit-learn takes a second to load.
        from sklearn.linear_model import LogisticRegression

        texts = list(marked_texts(task))
        counts = Counter(word for words, _ in texts for word in set(words))
        self.frequent = sorted(word for word, count in counts.items() if count >= FREQUENT * len(texts))
        x = np.concatenate([self.facts(words) for words, _ in texts])
        y = np.concatenate([mask for _, mask in texts])
        fitted = LogisticRegression(max_iter=1000).fit(x, y)
        self.coefficients = np.append(fitted.coef_[0], fitted.intercept_)
        return self

    def facts(self, words: Sequence[str]) -> Array:
        """Return what is known of each word, (words, 4): letters, place, its square, stop word."""
        letters = np.log1p([len(word) for word in words])
        place = np.linspace(0, 1, len(words))
        frequent = [word in self.frequent for word in words]
        return np.column_stack([letters, place, place**2, frequent])

    def score_words(self, words: Sequence[str]) -> Array:
        *slopes, intercept = self._trained(self.coefficients)
        return np.asarray(expit(self.facts(words) @ slopes + intercept))

    def _state(self) -> TrainedState:
        coefficients = torch.tensor(self._trained(self.coefficients), dtype=torch.float64)
        return TrainedState({"coefficients": coefficients})

    def _restore(self, state: TrainedState) -> None:
        state.check_sizes({"coefficients": (5,)})
        self.coefficients = state.tensors["coefficients"].numpy()


def bare(word: str) -> str:
    """Return a word in lower case without surrounding punctuation, or unchanged if nothing would be left."""
    return word.strip(string.punctuation).lower() or word

"""A word list with how often each word was marked: agreement with marks that needs no model."""

from __future__ import annotations

import string
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import torch

from explearn.core.errors import DataError
from explearn.core.validation import Seeded
from explearn.methods.base.explainer import BatchExplainer, BatchScores, resolve_targets
from explearn.methods.base.learned import LearnedExplainer, TrainedState
from explearn.methods.base.task import TaskData
from explearn.methods.info import About
from explearn.predictors.encoding import Batch
from explearn.predictors.predictor import Predictor

if TYPE_CHECKING:
    from collections.abc import Mapping


class WordList(LearnedExplainer, BatchExplainer):
    """The share of a word's occurrences in the training texts that are marked; the same in every text.

    A word that occurs n times, m of them marked, has the score (m + r) / (n + 1), where r is the share of all words
    that are marked; a word in no training text has r. Case and surrounding punctuation are ignored. It is the lower
    bound for methods that learn from the task's own marks.
    """

    about = About(
        name="word_list",
        family="learned",
        cost="one forward pass",
        needs=frozenset({"training_rationales"}),
        binarisation="expected_f1",
    )
    aggregation = "max"
    signed = False
    needs_model = False
    weights_file = "word_list.safetensors"

    class Options(Seeded):
        protocol: Literal["in_domain"] = "in_domain"
        """How it is trained: on the task's own marks."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.shares: Mapping[str, float] | None = None
        self.rate = 0.0

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
        for example in task.examples(task.rationale_split):
            if example.id in task.gold:
                for word, mark in zip(map(bare, example.all_words), task.gold[example.id], strict=True):
                    counts[word] += 1
                    marked[word] += mark
        total = counts.total()
        self.rate = marked.total() / max(1, total)
        if not 0 < self.rate < 1:
            raise DataError(
                f"task {task.name!r}, split {task.rationale_split!r}: of {total:,} words of marked texts "
                f"{self.rate:.0%} are marked; expected some of them"
            )
        self.shares = {word: (marked[word] + self.rate) / (count + 1) for word, count in sorted(counts.items())}
        return self

    def check(self, classifier: Predictor) -> None:
        self._trained(self.shares)

    @torch.inference_mode()
    def score_batch(self, classifier: Predictor, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        logits = classifier.logits(batch)
        shares = self._trained(self.shares)
        scores = []
        for text in batch.encodings:
            scores.append([shares.get(bare(word), self.rate) for word in text.words])
        return BatchScores(batch.token_scores(scores), logits, resolve_targets(logits, targets))

    def _state(self) -> TrainedState:
        shares = self._trained(self.shares)
        return TrainedState({"shares": torch.tensor([*shares.values()])}, {"words": [*shares], "rate": self.rate})

    def _restore(self, state: TrainedState, folder: Path) -> None:
        words = state.value("words", list[str])
        self.shares = dict(zip(words, state.tensors["shares"].tolist(), strict=True))
        self.rate = state.value("rate", float)


def bare(word: str) -> str:
    """Return a word in lower case without surrounding punctuation, or unchanged if nothing would be left."""
    return word.strip(string.punctuation).lower() or word

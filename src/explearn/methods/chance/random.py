"""Scores that do not depend on the model: the lower bound for every method."""

from __future__ import annotations

import hashlib
from abc import abstractmethod

import numpy as np
import torch
from numpy.typing import ArrayLike

from explearn.core.validation import Seeded
from explearn.methods.base.explainer import About, Batch, BatchExplainer, BatchScores, Encoding
from explearn.predictors.predictor import Predictor


class TextScorer(BatchExplainer):
    """Base of methods that score the words of a text without the model or the class."""

    needs_model = False

    @abstractmethod
    def score_text(self, text: Encoding) -> ArrayLike:
        """Score the words of a text, (words,)."""

    @torch.inference_mode()
    def score_batch(self, classifier: Predictor, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        logits = classifier.logits(batch)
        return BatchScores(batch.token_scores(map(self.score_text, batch.encodings)), logits, targets)


class EveryWord(TextScorer):
    """The score 1 for every word, so that every word is chosen.

    The top K are the first K words of the text. If a share p of the words is marked, the F1 of choosing every word is
    2p / (1 + p), which is what a method has to beat.
    """

    about = About(
        name="every_word",
        family="chance",
        cost="one forward pass",
        binarisation="expected_f1",
    )

    def score_text(self, text: Encoding) -> ArrayLike:
        return np.ones(len(text.words))


class Random(TextScorer):
    """Seeded uniform scores; a word is chosen with the training rationales' positive rate.

    Seeded uniform scores in [0, 1), one per word (ExpNet's RandomBaseline, section 4.3).

    Its binary form, each word chosen with probability p, is `score >= 1 - p`; evaluation takes p = the positive rate of
    the training rationales. The draw depends only on the seed, the text and its id: batching and order change nothing.
    """

    about = About(
        name="random",
        family="chance",
        cost="one forward pass",
        binarisation="positive_rate",
    )

    class Options(Seeded):
        """The seed."""

    def score_text(self, text: Encoding) -> ArrayLike:
        identity = "\x1f".join((text.example_id, *text.words))
        digest = hashlib.sha256(f"{self.options.seed}\x1f{identity}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8])).random(len(text.words))

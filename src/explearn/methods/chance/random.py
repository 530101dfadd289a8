"""Scores that do not depend on the model: the lower bound for every method."""

from __future__ import annotations

import hashlib

import numpy as np
import torch

from explearn.core.arrays import Array
from explearn.core.validation import Seeded
from explearn.methods.base.explainer import About, Batch, BatchExplainer, BatchScores, Encoding
from explearn.predictors.predictor import Predictor


class Random(BatchExplainer):
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

    needs_model = False

    class Options(Seeded):
        """The seed."""

    def score_batch(self, classifier: Predictor, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        with torch.inference_mode():
            logits = classifier.logits(batch)
        scores = map(self._draw, batch.encodings)
        return BatchScores(batch.token_scores(scores), logits, targets)

    def _draw(self, encoding: Encoding) -> Array:
        text = "\x1f".join((encoding.example_id, *encoding.words))
        digest = hashlib.sha256(f"{self.options.seed}\x1f{text}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8])).random(len(encoding.words))

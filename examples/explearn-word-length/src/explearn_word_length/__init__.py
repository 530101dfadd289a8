"""A baseline for Explearn that looks at neither the classifier nor the meaning of a word."""

from __future__ import annotations

import torch

from explearn import About, BatchExplainer, BatchScores, TransformerPredictor
from explearn.core.validation import Section
from explearn.predictors.encoding import Batch


class WordLength(BatchExplainer):
    """The longer a word, the higher its score.

    The score of each sub-token is the number of characters of its word, to a power; a word has the score of its pieces.
    The class plays no part.
    """

    about = About(name="word_length", family="chance", cost="one forward pass")

    class Options(Section):
        power: float = 1.0
        """1 counts characters; -1 prefers short words."""

    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        with torch.inference_mode():
            logits = classifier.logits(batch)
        scores = torch.zeros(batch.input_ids.shape)
        for row, encoding in enumerate(batch.encodings):
            for position, word in enumerate(encoding.word_ids):
                if word >= 0:  # special tokens belong to no word
                    scores[row, position] = len(encoding.words[word]) ** self.options.power
        return BatchScores(scores, logits, targets)

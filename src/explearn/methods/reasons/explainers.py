"""The words that a language model itself names, when asked what decided its answer."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from explearn.core.arrays import Array
from explearn.core.errors import UnansweredError, UnsupportedError
from explearn.core.words import Span
from explearn.methods.base.attributions import TextScores
from explearn.methods.base.explainer import Explainer
from explearn.methods.info import About
from explearn.predictors.encoding import Encoding
from explearn.predictors.llm.classifier import LLMClassifier
from explearn.predictors.llm.reasons import RANKING, RATIONALE, named_words
from explearn.predictors.predictor import Predictor
from explearn.text.alignment import NO_WORD
from explearn.text.quotes import rank_scores

logger = logging.getLogger(__name__)


class OwnReason(Explainer):
    """Base of methods that ask the classifier itself, a language model, for the words that decided its answer.

    Quotes are put on words by `explearn.text.quotes`; a text of which the model quotes nothing has scores of 0, and is
    counted in the log. The requests count in the classifier's budget.
    """

    needs_model = False
    question: ClassVar[str]

    @abstractmethod
    def word_scores(self, places: Sequence[Span], words: int) -> Array:
        """Return the scores of a text's words, (words,), from the places of the quotes, in their order."""

    def check(self, classifier: Predictor) -> None:
        if not isinstance(classifier, LLMClassifier):
            raise UnsupportedError(
                f"{self.name}: asks a language model about its own answers, and {classifier.name} is none; expected a "
                "prompt (explearn.LLMClassifier, --llm)"
            )

    def score_texts(
        self, classifier: LLMClassifier, encodings: Sequence[Encoding], targets: Sequence[int] | None
    ) -> list[TextScores]:
        start = time.perf_counter()
        logits = classifier.predict_logits(encodings)
        if targets is None:
            targets = logits.argmax(1).tolist()
        places_by_text = named_words(classifier, encodings, targets, self.question)
        if None in places_by_text:
            refused = places_by_text.count(None)
            raise UnansweredError(f"{classifier.name}: no answer to {refused} of {len(encodings)} questions")
        seconds = (time.perf_counter() - start) / max(1, len(encodings))
        results = []
        for encoding, row, target, places in zip(encodings, logits, targets, places_by_text, strict=True):
            by_word = self.word_scores(places or (), len(encoding.words))
            owners = np.array(encoding.word_ids)
            scores = np.where(owners == NO_WORD, 0.0, by_word[owners])
            results.append(TextScores(scores, row, target, seconds))
        empty = sum(not places for places in places_by_text)
        if empty:
            logger.warning(
                "%s: %s of %s reasons quote no word of their text; all their scores are 0",
                self.name,
                f"{empty:,}",
                f"{len(encodings):,}",
            )
        return results


class LLMRationale(OwnReason):
    """The words that a prompted language model itself says decided its answer.

    A word that it quotes scores 1, any other 0. Whether to believe it is another question, which `explearn compare`
    answers (Madsen, Chandar and Reddy 2024, "Are self-explanations from Large Language Models faithful?").

    Unsigned; one more request a text.
    """

    about = About(
        name="llm_rationale",
        family="reason",
        cost="one request",
        binarisation="threshold",
        uncounted=True,
    )
    question = RATIONALE
    threshold = 1.0

    def word_scores(self, places: Sequence[Span], words: int) -> Array:
        scores = np.zeros(words)
        for start, end in places:
            scores[start:end] = 1.0
        return scores


class LLMRanking(OwnReason):
    """A prompted language model's own ranking of the words by how much they decided.

    Of n quotes the first gives its words 1, the last 1/n; all other words score 0 (Barkan et al. 2024, "LLM
    Explainability via Attributive Masking Learning", section 4, LLM).

    Unsigned; one more request a text.
    """

    about = About(
        name="llm_ranking",
        family="reason",
        cost="one request",
        uncounted=True,
    )
    question = RANKING

    def word_scores(self, places: Sequence[Span], words: int) -> Array:
        return rank_scores(places, words)

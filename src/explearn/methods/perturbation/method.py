"""Copies of a text without some of its words, and the base class of the methods that ask the classifier about them."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar, NamedTuple

import numpy as np

from explearn.core.arrays import Array, Counts, Mask
from explearn.core.errors import ModelError, UnsupportedError
from explearn.core.extras import check_installed
from explearn.core.validation import Section
from explearn.methods.base.explainer import Explainer, TextScores
from explearn.predictors.answers import Answers
from explearn.predictors.encoding import Encoding
from explearn.predictors.labelled import Output
from explearn.predictors.predictor import Predictor
from explearn.text.alignment import NO_WORD
from explearn.text.encoding import Removal

_LOCK = threading.RLock()


@contextmanager
def numpy_seeded(seed: int) -> Iterator[None]:
    """Seed numpy's global generator within the block, one thread at a time, and restore its state afterwards."""
    with _LOCK:
        before = np.random.get_state(legacy=False)
        np.random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(before)


class PerturbedText:
    """One text whose words can be left out.

    Words without a sub-token (odd Unicode, or truncated) cannot be left out. Sub-tokens of no word always stay, as in
    `Encoding.delete` and `Encoding.mask`. A word that is classified can be masked, but not deleted.

    Args:
        encoding: the text.
        mask_token_id: id of the mask token.

    Attributes:
        encoding: the text.
        words: indices of the w words that have sub-tokens, ascending, (w,).
        owners: index in `words` of each position's word, w if it has none, (tokens,).
    """

    def __init__(self, encoding: Encoding, mask_token_id: int) -> None:
        self.encoding = encoding
        word_ids = np.array(encoding.word_ids, dtype=np.int64)
        owned = word_ids != NO_WORD
        words, indices = np.unique(word_ids[owned], return_inverse=True)
        self.words = words
        self.owners = np.full(len(word_ids), len(self.words))
        self.owners[owned] = indices
        self._mask_token_id = mask_token_id

    def __len__(self) -> int:
        """Return the number of words that can be left out."""
        return len(self.words)

    def perturbed(self, kept: Mask, removal: Removal) -> list[Encoding]:
        """Return the text once for each row of `kept`, bool, (n, w), without the words that are False there."""
        # A column for each word, and one for positions of no word.
        stays = np.ones((len(kept), len(self) + 1), dtype=bool)
        stays[:, :-1] = kept
        mask: int | None = self._mask_token_id
        if removal == "delete":
            stays[:, :-1] |= np.isin(self.words, list(self.encoding.fixed_words))
            mask = None
        return self.encoding.copies(stays[:, self.owners], mask)

    def on_pieces(self, scores: Array) -> Array:
        """Give each sub-token its word's score, 0 if it has no word: (w,) -> (tokens,)."""
        return np.asarray(np.append(scores, 0.0)[self.owners])

    def pieces(self) -> Counts:
        """Return the number of each word's sub-tokens, (w,)."""
        return np.bincount(self.owners, minlength=len(self) + 1)[:-1]


class AskedText(NamedTuple):
    """A text, and what a classifier answers to copies of it.

    Attributes:
        text: the text.
        answers: the classifier's answers.
        target: index of the explained class.
        removal: whether missing words are deleted or masked.
        output: the explained number f.
    """

    text: PerturbedText
    answers: Answers
    target: int
    removal: Removal = "mask"
    output: Output = "probability"

    def by_class(self, copies: Sequence[Encoding], gaps: bool = False) -> Array:
        """Return f of all classes for n copies, (n, C); with gaps, NaN for a copy without an answer."""
        return self.answers.ask(copies, self.output, gaps=gaps)

    def values(self, kept: Mask, gaps: bool = False) -> Array:
        """Return f of the target without the words that are False in each row of `kept`, bool, (n, w): (n,)."""
        return self.by_class(self.text.perturbed(kept, self.removal), gaps)[:, self.target]

    def whole(self) -> float:
        """Return f of the target for the text itself."""
        return float(self.by_class([self.text.encoding])[0, self.target])


class Scored(NamedTuple):
    """Scores of one text.

    Attributes:
        scores: score of each sub-token, (tokens,).
        completeness_error: by how much the scores miss the number to which they should add up; None: there is none.
    """

    scores: Array
    completeness_error: float | None = None


class AskOptions(Section):
    removal: Removal = "mask"
    """A missing word's sub-tokens are each replaced by the mask token (`mask`) or deleted (`delete`)."""
    output: Output = "probability"
    """The explained output f: the target's `probability`, `log_probability` or `logit`."""


class PerturbationExplainer(Explainer):
    """Base of methods that use predictions for perturbed copies of a text.

    Subclasses score one text.
    """

    needs_model = False
    perturbs = True
    package: ClassVar[str] = ""
    """Package of the extra `baselines` that the method is taken from; empty for none."""
    additive: ClassVar[bool] = False
    """Whether scores add up to f(text) - f(text without any word)."""

    @abstractmethod
    def score_text(self, asked: AskedText) -> Scored:
        """Score every sub-token of a text of at least one word."""

    def check_text(self, text: PerturbedText) -> None:
        """Raise UnsupportedError for a text that the method does not support, before anything is computed."""

    def check(self, classifier: Predictor) -> None:
        if self.package:
            check_installed(self.package, extra="baselines", what=self.name)
        check_mask_token(classifier, getattr(self.options, "removal", "mask"))

    def score_texts(
        self, classifier: Predictor, encodings: Sequence[Encoding], targets: Sequence[int] | None
    ) -> list[TextScores]:
        start = time.perf_counter()
        texts = [PerturbedText(encoding, stand_in(classifier)) for encoding in encodings]
        for text in texts:
            self.check_text(text)
        answers = Answers(classifier)
        logits = answers.ask(encodings, "logit")
        if targets is None:
            targets = logits.argmax(-1).tolist()
        asks = self.options.model_dump(include={"removal", "output"})
        classified = (time.perf_counter() - start) / max(1, len(texts))
        results = []
        for text, row, target in zip(texts, logits, targets, strict=True):
            start = time.perf_counter()
            scored = Scored(np.zeros(len(text.encoding)), 0.0 if self.additive else None)
            if len(text):
                # Libraries draw from numpy's global generator; seeding it makes a text's copies independent of other
                # texts.
                with numpy_seeded(getattr(self.options, "seed", 0)):
                    scored = self.score_text(AskedText(text, answers, target, **asks))
            seconds = classified + time.perf_counter() - start
            results.append(TextScores(scored.scores, row, target, seconds, scored.completeness_error))
        return results


def stand_in(classifier: Predictor) -> int:
    """Return the id of the mask token; 0 for classifiers without one, whose words can only be deleted."""
    try:
        return classifier.mask_token_id
    except ModelError:
        return 0


def check_mask_token(classifier: Predictor, removal: Removal) -> None:
    """Raise UnsupportedError if words are to be masked but the tokenizer has no token to mask them with."""
    if removal == "mask":
        try:
            classifier.mask_token_id  # noqa: B018
        except ModelError as error:
            raise UnsupportedError(f"{error}; use removal=delete") from error

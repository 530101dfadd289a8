"""A classifier without weights, and texts in its encoding, for tests of the metrics."""

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from explearn import Attribution
from explearn.predictors.labelled import Problem
from explearn.predictors.predictor import Inside, Predictor

MASK = 103
CLS = 101
SEP = 102


@dataclass(frozen=True)
class FakeEncoding:
    """One sub-token a word between two special tokens."""

    input_ids: tuple[int, ...]
    words: tuple[str, ...]
    word_ids: tuple[int, ...]
    fixed_words = frozenset()

    @property
    def key(self):
        return self.input_ids

    @property
    def special(self):
        return tuple(word < 0 for word in self.word_ids)

    def _only(self, positions):
        return replace(
            self,
            input_ids=tuple(self.input_ids[i] for i in positions),
            word_ids=tuple(self.word_ids[i] for i in positions),
        )

    def delete(self, words):
        return self._only([i for i, w in enumerate(self.word_ids) if w < 0 or w not in set(words)])

    def keep(self, words):
        return self._only([i for i, w in enumerate(self.word_ids) if w < 0 or w in set(words)])

    def mask(self, words, mask_token_id):
        ids = [mask_token_id if w in set(words) else t for t, w in zip(self.input_ids, self.word_ids, strict=True)]
        return replace(self, input_ids=tuple(ids))


def encode(words):
    ids = tuple(1000 + int(hashlib.sha256(w.encode()).hexdigest()[:6], 16) for w in words)
    return FakeEncoding((CLS, *ids, SEP), tuple(words), (-1, *range(len(words)), -1))


class FakeClassifier(Predictor):
    """Probabilities from `probability(encoding) -> array (C,)`; notes every input it is asked about."""

    name = "fake"
    fingerprint = "fake"
    mask_token_id = MASK
    problem = Problem.SINGLE_LABEL

    def __init__(self, probability, labels=("no", "yes")):
        self.labels = list(labels)
        self.probability = probability
        self.calls = []

    def logits(self, batch):
        raise NotImplementedError

    def encode(self, examples):
        return [encode(e.all_words) for e in examples]

    def inside(self, encodings, targets=None):
        return Inside(self, encodings, targets)

    def predict_proba(self, encodings, description=None):
        self.calls.append(list(encodings))
        return np.array([self.probability(e) for e in encodings], dtype=np.float64)


def random_probability(encoding):
    """A fixed pseudo-random distribution over two classes for each input."""
    p = int(hashlib.sha256(repr(encoding.input_ids).encode()).hexdigest()[:8], 16) / 16**8
    return np.array([1 - p, p])


def attribution(words, scores, *, example_id="a", target="yes", predicted="yes", method="m", unaligned=0):
    return Attribution(
        words=tuple(words),
        scores=np.asarray(scores, dtype=np.float32),
        tokens=tuple(words),
        token_scores=np.asarray(scores, dtype=np.float32),
        target=target,
        method=method,
        probability=0.5,
        predicted=predicted,
        aggregation="max",
        signed=True,
        unaligned=unaligned,
        example_id=example_id,
    )

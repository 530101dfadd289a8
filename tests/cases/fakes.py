"""A classifier without weights, and texts in its encoding, for tests of the metrics."""

import hashlib

import numpy as np

from explearn import Attribution, Encoding, Predictor, Problem
from explearn.text.encoding import segments_in

MASK = 103
CLS = 101
SEP = 102


def encode(words):
    """One sub-token a word between two special tokens."""
    return encode_text(" ".join(words))


def encode_text(text):
    segments = segments_in(text)
    ids = [CLS]
    offsets = [(0, 0)]
    sequence = [None]
    for number, segment in enumerate(segments):
        ids += [1000 + int(hashlib.sha256(word.encode()).hexdigest()[:6], 16) for word in segment.words]
        offsets += segment.spans
        sequence += [number] * len(segment.spans)
    return Encoding.of(segments, [*ids, SEP], [*offsets, (0, 0)], [*sequence, None])


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

    def encode(self, texts):
        return [encode_text(text) for text in texts]

    def predict_logits(self, encodings, description=None):
        self.calls.append(encodings)
        rows = np.array([self.probability(encoding) for encoding in encodings], dtype=np.float64)
        return np.log(np.maximum(rows, np.finfo(np.float64).tiny)).reshape(-1, len(self.labels))


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

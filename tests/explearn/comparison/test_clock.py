"""The clock that a method's time is compared with, and predictions of no more than the head reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny

from explearn.comparison.methods_run import HeadPredictions
from explearn.core.records import Example
from explearn.judge.predictions import Predictions
from explearn.methods.base import timing
from explearn.methods.base.timing import ForwardClock


class Counting:
    """Takes a second a text, on a clock of its own."""

    def __init__(self) -> None:
        self.now, self.lengths = 0.0, []

    def encode(self, texts: Any) -> Any:
        return list(texts)

    def predict_proba(self, texts: Any) -> Any:
        self.lengths.append(sorted(len(text.words) for text in texts))
        self.now += len(texts)


@pytest.mark.parametrize(("share", "lengths"), [(1, list(range(1, 13))), (4, [2, 6, 10])])
def test_a_share_of_the_texts_of_all_lengths_stands_for_them(
    share: int, lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    of: Any = Counting()
    monkeypatch.setattr(timing.time, "perf_counter", lambda: of.now)
    examples = [Example(str(i), ("a",) * i, "no", "test", "t") for i in range(1, 13)]
    clock = ForwardClock(of, examples, share)
    assert clock.seconds() == pytest.approx(12)
    assert of.lengths[-1] == lengths


@pytest.mark.parametrize("kind", ("bert", "modernbert", "gpt2"))
def test_predictions_of_what_the_head_reads_are_those_of_whole_passes(kind: str) -> None:
    of = tiny.classifier(kind)
    found = []
    for pool in (HeadPredictions(of), Predictions(of)):
        for encoding in of.encode([*tiny.TEXTS, *tiny.PAIRS]):
            pool.request(encoding)
        pool.evaluate("texts")
        found.append(pool.probabilities)
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-6)


class Cycle:
    def __init__(self) -> None:
        self.itself = self

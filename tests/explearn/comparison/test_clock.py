"""The clock that a method's time is compared with."""

import pytest

from explearn.core.examples import Example
from explearn.methods.base import timing
from explearn.methods.base.timing import ForwardClock


class Counting:
    """Takes a second a text, on a clock of its own."""

    def __init__(self):
        self.now = 0.0
        self.lengths = []

    def encode(self, texts):
        return list(texts)

    def predict_proba(self, texts):
        self.lengths.append(sorted(len(text.words) for text in texts))
        self.now += len(texts)


@pytest.mark.parametrize(("share", "lengths"), [(1, list(range(1, 13))), (4, [2, 6, 10])])
def test_a_share_of_the_texts_of_all_lengths_stands_for_them(share, lengths, monkeypatch):
    of = Counting()
    monkeypatch.setattr(timing.time, "perf_counter", lambda: of.now)
    examples = [Example(str(i), ("a",) * i, "no", "test", "t") for i in range(1, 13)]
    clock = ForwardClock(of, examples, share)
    assert clock.seconds() == pytest.approx(12)
    assert of.lengths[-1] == lengths

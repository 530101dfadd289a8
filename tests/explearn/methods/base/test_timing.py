import pytest
from fakes import FakeClassifier, random_probability

from explearn import DataError, Example
from explearn.methods.base.timing import ForwardClock

SHARE = 4


@pytest.mark.parametrize("texts", range(1, 2 * SHARE))
def test_a_share_of_the_texts_is_timed_for_all_of_them(texts, monkeypatch):
    asked = []

    def count(examples):
        asked.append(len(examples))

    classifier = FakeClassifier(random_probability)
    monkeypatch.setattr(classifier, "predict_proba", count)
    clock = ForwardClock(
        classifier, [Example(f"t{number}", ("warm", "film"), "yes", "test", "films") for number in range(texts)], SHARE
    )
    assert clock.seconds() > 0 and 1 <= asked[0] <= texts


def test_without_a_text_there_is_nothing_to_time():
    with pytest.raises(DataError, match="no text"):
        ForwardClock(FakeClassifier(random_probability), [])

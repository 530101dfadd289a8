"""Which texts are explained, and which are learned from."""

import pytest

from explearn import Example
from explearn.text.sampling import texts_to_explain
from explearn_study.feature_files import texts_to_learn_from

TEXTS = [Example(f"t{number}", ("word",), "yes", "train", "mine") for number in range(20)]
MARKED = {f"t{number}" for number in range(0, 20, 2)}


def ids(texts):
    return [text.id for text in texts]


class TestTextsToLearnFrom:
    @pytest.mark.parametrize("most", [4, 10, 13])
    @pytest.mark.parametrize("unmarked", [0, 3, 100])
    def test_so_many_as_ever_and_unmarked_ones_besides(self, most, unmarked):
        before = set(ids(texts_to_explain(TEXTS, MARKED, most, 13)))
        actual = set(ids(texts_to_learn_from(TEXTS, MARKED, most, unmarked, 13)))
        more = actual - before
        assert before <= actual and not more & MARKED
        assert len(more) == min(unmarked, 10 - len(before - MARKED))

"""Answers and what they cost, in a file."""

import pytest

from explearn import DataError
from explearn.predictors.llm.store import Spent, open_store


def test_answers_and_costs_outlive_the_process_that_wrote_them(tmp_path):
    for number in (1, 2):
        with open_store(tmp_path / "answers") as store:
            store[f"key {number}"] = [number]
            store.spend(Spent(1, 20, 3, 0.5))
    with open_store(tmp_path / "answers") as store:
        assert store["key 1"] == [1] and "key 2" in store and "key 3" not in store
        assert store.spent == Spent(2, 40, 6, 1.0)


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "answers").write_text("mine\n" * 1000, encoding="utf-8")
    with pytest.raises(DataError, match=r"answers: .*; expected a file of answers"), open_store(tmp_path / "answers"):
        pass

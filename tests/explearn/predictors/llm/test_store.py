"""Answers and what they cost, in a file."""

import contextlib
import sqlite3

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


def test_a_database_of_something_else_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "notes.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE answers (key TEXT PRIMARY KEY, answer TEXT)")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(DataError, match="another program; expected a file of answers"), open_store(path):
        pass
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_an_empty_file_becomes_one_of_answers(tmp_path):
    (tmp_path / "answers").touch()
    for _ in range(2):
        with open_store(tmp_path / "answers") as store:
            store["key"] = 1

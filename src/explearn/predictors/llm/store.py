"""What a language model has answered and what that has cost, in an SQLite file that outlives a killed process."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from explearn.core.errors import DataError
from explearn.core.writing import locked
from explearn.predictors.llm.budget import Meter, Spent

TABLES = """
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS spent (
        only INTEGER PRIMARY KEY, requests INTEGER, input_tokens INTEGER, output_tokens INTEGER, money REAL
    );
    INSERT OR IGNORE INTO spent VALUES (1, 0, 0, 0, 0);
"""


class AnswerStore:
    """Answers by key, as JSON values, and the sum spent on them. Each change survives a kill once its call returns.

    Args:
        connection: the open file.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.executescript(TABLES)

    def __contains__(self, key: str) -> bool:
        return self._connection.execute("SELECT 1 FROM answers WHERE key = ?", [key]).fetchone() is not None

    def __getitem__(self, key: str) -> Any:
        (answer,) = self._connection.execute("SELECT answer FROM answers WHERE key = ?", [key]).fetchone()
        return json.loads(answer)

    def __setitem__(self, key: str, answer: object) -> None:
        self._connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", [key, json.dumps(answer)])

    @property
    def spent(self) -> Spent:
        """All that was spent so far, with the worst case of requests that a kill has cut off."""
        row = self._connection.execute("SELECT requests, input_tokens, output_tokens, money FROM spent").fetchone()
        return Spent(*row)

    def spend(self, amount: Spent, sign: int = 1) -> None:
        """Add an amount to what was spent, or take it away."""
        self._connection.execute(
            "UPDATE spent SET requests = requests + ?, input_tokens = input_tokens + ?, "
            "output_tokens = output_tokens + ?, money = money + ?",
            [
                sign * amount.requests,
                sign * amount.input_tokens,
                sign * amount.output_tokens,
                sign * amount.money,
            ],
        )


@contextmanager
def open_store(path: str | os.PathLike[str]) -> Iterator[AnswerStore]:
    """Open a file of answers for one process at a time; others wait.

    Raises:
        DataError: the file is not one of answers, or cannot be written.
    """
    with locked(path, what=f"answers {path}"):
        try:
            connection = sqlite3.connect(Path(path), isolation_level=None, check_same_thread=False)
            try:
                yield AnswerStore(connection)
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise DataError(f"{path}: {error}; expected a file of answers that can be written") from error


class StoredMeter(Meter):
    """A meter whose sum outlives the process: the worst case is on disk before a request is sent.

    Args:
        store: the sum.
        limits: limits and prices, as for `Meter`.
    """

    def __init__(self, store: AnswerStore, **limits: Any) -> None:
        super().__init__(spent=store.spent, **limits)
        self._store = store

    async def reserve(self, model: str, input_tokens: int, output_tokens: int) -> Spent:
        worst = await super().reserve(model, input_tokens, output_tokens)
        self._store.spend(worst)
        return worst

    async def settle(self, reserved: Spent, actual: Spent) -> None:
        await super().settle(reserved, actual)
        change = Spent()
        change.add(actual)
        change.add(reserved, -1)
        self._store.spend(change)

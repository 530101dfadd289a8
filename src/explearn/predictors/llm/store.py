"""What a language model has answered and what that has cost, in an SQLite file that outlives a killed process."""

from __future__ import annotations

import json
import operator
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from explearn.core.documents import check_regular
from explearn.core.errors import DataError
from explearn.core.writing import locked

MARK = 0x45584C41  # "EXLA"
"""The application id of a file of answers, which SQLite keeps in bytes 68 to 71."""

TABLES = """
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS spent (
        only INTEGER PRIMARY KEY, requests INTEGER, input_tokens INTEGER, output_tokens INTEGER, money REAL
    );
    INSERT OR IGNORE INTO spent VALUES (1, 0, 0, 0, 0);
"""


@dataclass(frozen=True, slots=True)
class Spent:
    """Requests sent, tokens read and written, and money (in the prices' currency)."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(*map(operator.add, astuple(self), astuple(other)))

    def __sub__(self, other: Spent) -> Spent:
        return Spent(*map(operator.sub, astuple(self), astuple(other)))


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

    def spend(self, amount: Spent) -> None:
        """Add an amount to what was spent."""
        self._connection.execute(
            "UPDATE spent SET requests = requests + ?, input_tokens = input_tokens + ?, "
            "output_tokens = output_tokens + ?, money = money + ?",
            astuple(amount),
        )


@contextmanager
def open_store(path: str | os.PathLike[str]) -> Iterator[AnswerStore]:
    """Open a file of answers for one process at a time; others wait.

    Raises:
        DataError: the file is not one of answers, in which case it is left as it is, or cannot be written.
    """
    with locked(path, what=f"answers {path}"):
        path = Path(path)
        check_regular(path)
        new = not path.exists() or path.stat().st_size == 0
        if not new:
            with path.open("rb") as file:
                mark = file.read(72)[68:]
            if mark != MARK.to_bytes(4):
                raise DataError(
                    f"{path}: is of another program; expected a file of answers, or a name that no file has"
                )
        try:
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            try:
                if new:
                    # Before the journal's mode is changed, so that it is in the file itself at once.
                    connection.execute(f"PRAGMA application_id = {MARK}")
                yield AnswerStore(connection)
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise DataError(f"{path}: {error}; expected a file of answers that can be written") from error

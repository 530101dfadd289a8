"""A cache of language models' answers: an append-only file of JSON Lines.

A line is on disk (fsync) before its answer is used, so a killed run never repeats a call whose answer was used; a line
torn by the kill is cut off when the file is next opened. An answer's key consists of the model, the prompt's version
and the text, so the same question is never asked twice.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import filelock
from pydantic import ConfigDict, Field

from explearn.core.documents import PathLike, check_regular, parse_json
from explearn.core.errors import DataError
from explearn.core.examples import Example
from explearn.core.validation import Count, Shape, check


def answer_key(model: str, version: str, example: Example) -> str:
    """Return SHA-256 over model, prompt version and the words of both segments, as hexadecimal digits."""
    parts = [model, version, list(example.words), list(example.pair)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class CachedAnswer(Shape):
    """One answer as received.

    Attributes:
        key: see `answer_key`.
        model: name of the model.
        prompt: name and number of the prompt.
        version: version of the prompt (see `BoundPrompt`).
        id: the first text that the answer is for; texts with the same words share it.
        content: the model's output, with the server's key redacted.
        finish: why it stopped: `stop`, `length`, ..., or `refused` if the server would not answer for this text.
        requests: requests it took, including retries.
        input_tokens: tokens read for answered requests, as counted by the server.
        output_tokens: tokens written in answered requests.
    """

    model_config = ConfigDict(frozen=True)

    key: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    model: str
    prompt: str
    version: str
    id: str
    content: str
    finish: str
    requests: Count
    input_tokens: Count
    output_tokens: Count


def read_answers(path: PathLike) -> Iterator[CachedAnswer]:
    """Yield the answers of a file in order, none if there is no file; a torn last line is skipped.

    The first of two answers with the same key counts.

    Raises:
        DataError: any other line is damaged; names file, row and field.
    """
    check_regular(path)
    seen: set[str] = set()
    try:
        with Path(path).open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith(b"\n"):
                    return
                try:
                    row = parse_json(line)
                except ValueError as error:
                    raise DataError(f"{path}, row {number}: {error}; expected an answer as it was written") from error
                answer: CachedAnswer = check(CachedAnswer, row, before=f"{path}, row {number}, ")
                if answer.key not in seen:
                    seen.add(answer.key)
                    yield answer
    except FileNotFoundError:
        return


class AnswerCache:
    """The file, open for appending by one process; a context manager.

    Only keys are held in memory.

    Raises:
        DataError: another process has the file open, or a line other than the last is damaged.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)

    def __enter__(self) -> AnswerCache:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = filelock.FileLock(self.path.with_name(f".{self.path.name}.lock"))
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            raise DataError(f"{self.path}: another run is writing to it; wait for it or stop it") from None
        try:
            self._keys = {answer.key for answer in read_answers(self.path)}
            self._file = self.path.open("a+b", buffering=0)
            self._file.seek(0)
            # A line that a kill has torn is cut off.
            self._file.truncate(sum(len(line) for line in self._file if line.endswith(b"\n")))
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
        self._lock.release()

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def append(self, answer: CachedAnswer) -> None:
        """Write an answer, and return once it is on disk.

        Raises:
            DataError: the file cannot be written, for example because the disk is full.
        """
        line = (json.dumps(answer.model_dump(), ensure_ascii=False) + "\n").encode()
        size = os.fstat(self._file.fileno()).st_size
        try:
            while line:
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(size)  # otherwise the next answer would be appended to a torn line
            raise DataError(f"{self.path}: cannot be written ({error.strerror})") from error
        self._keys.add(answer.key)

"""Every answer of a language model, kept once: an append-only file of JSON Lines.

A line is on disk (fsync) before its answer counts, so a killed run repeats no call whose answer was counted; a
line torn by the kill is cut off when the file is next opened. The key of an answer is made of the model, the prompt's
version and the text: the same question is not asked twice, whoever asks it.
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

from explearn.core.documents import check_regular, parse_json
from explearn.core.errors import DataError
from explearn.core.records import Example
from explearn.core.validation import Count, Shape, check


def answer_key(model: str, version: str, example: Example) -> str:
    """Return SHA-256 over model, prompt version and the words of both segments, as hexadecimal digits."""
    parts = [model, version, list(example.words), list(example.pair)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class CachedAnswer(Shape):
    """One answer as it came.

    Attributes:
        key: see `answer_key`.
        model, prompt, version: the model, the prompt (name and number), and its version (see `BoundPrompt`).
        id: the first text that the answer is for; texts with the same words share it.
        content: what the model wrote, the key to the server blacked out.
        finish: why it stopped: `stop`, `length`, ..., or `refused` where the server would not answer this text.
        requests: requests it took, repeats included.
        input_tokens, output_tokens: of the requests that were answered, as the server counts them.
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


def read_answers(path: str | os.PathLike[str]) -> Iterator[CachedAnswer]:
    """Yield the answers of a file in its order, none where there is no file; a torn last line is passed over.

    Of two answers with one key the first counts. Raises DataError naming file, row and field for any other broken line.
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

    In memory it holds the keys alone. Raises DataError when another process has the file open or a line other than the
    last is broken.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __enter__(self) -> AnswerCache:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = filelock.FileLock(self.path.with_name(f".{self.path.name}.lock"))
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            raise DataError(f"{self.path}: another run is writing to it; wait for it or end it") from None
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
        """Return once the answer is on disk. Raises DataError when the disk takes no more."""
        line = (json.dumps(answer.model_dump(), ensure_ascii=False) + "\n").encode()
        size = os.fstat(self._file.fileno()).st_size
        try:
            while line:
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(size)  # else the next answer would join a torn line
            raise DataError(f"{self.path}: cannot be written ({error.strerror})") from error
        self._keys.add(answer.key)

"""Every answer of a language model, kept once: an append-only file of JSON Lines.

A line is on disk (fsync) before its answer counts as given, so a killed run repeats no call whose answer was counted; a
line torn by the kill is cut off when the file is next opened. The key of an answer is made of the model, the prompt's
version and the text: the same question is not asked twice, whoever asks it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType

import filelock

from explearn.core.documents import kind_of, parse_json
from explearn.core.errors import DataError, first_line
from explearn.core.records import Example


def answer_key(model: str, version: str, example: Example) -> str:
    """SHA-256 over model, prompt version and the words of both segments, as hexadecimal digits."""
    parts = [model, version, list(example.words), list(example.pair)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """One answer as it came.

    Attributes:
        key: see `answer_key`.
        model, prompt, version: who was asked, with which prompt (name and number), and its version (see `BoundPrompt`).
        id: the first text that the answer is for; texts with the same words share it.
        content: what the model wrote, the key to the server blacked out.
        finish: why it stopped: `stop`, `length`, ..., or `refused` where the server would not answer this text.
        requests: requests it took, repeats included.
        input_tokens, output_tokens: of all these requests, as the server counts them.
    """

    key: str
    model: str
    prompt: str
    version: str
    id: str
    content: str
    finish: str
    requests: int
    input_tokens: int
    output_tokens: int

    def to_line(self) -> bytes:
        return (json.dumps(asdict(self), ensure_ascii=False) + "\n").encode()


_TYPES = {field.name: int if field.type == "int" else str for field in fields(CachedAnswer)}
_KEY = re.compile(r"[0-9a-f]{64}")


def read_answers(path: str | os.PathLike[str]) -> Iterator[CachedAnswer]:
    """Answers of a file in its order, none where there is no file; a torn last line is passed over.

    Of two answers with one key the first counts. Raises DataError naming file and row for any other broken line.
    """
    path = Path(path)
    if not path.exists():
        return
    seen: set[bytes] = set()
    for number, line in _whole_lines(path):
        answer = _parsed(line, f"{path}, row {number}")
        key = bytes.fromhex(answer.key)
        if key not in seen:
            seen.add(key)
            yield answer


def _whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.endswith(b"\n"):
                    yield number, line
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _parsed(line: bytes, where: str) -> CachedAnswer:
    try:
        row = parse_json(line)
    except ValueError as error:
        raise DataError(f"{where}: {first_line(error)}; expected an answer as it was written") from error
    if not isinstance(row, dict):
        raise DataError(f"{where}: got {kind_of(row)}; expected a JSON object")
    for name, kind in _TYPES.items():
        if type(row.get(name)) is not kind:
            expected = "a whole number" if kind is int else "a text"
            raise DataError(f"{where}, field {name!r}: got {row.get(name)!r}; expected {expected}")
    if not _KEY.fullmatch(row["key"]):
        raise DataError(f"{where}, field 'key': got {row['key']!r}; expected 64 hexadecimal digits")
    return CachedAnswer(**{name: row[name] for name in _TYPES})


def _whole_end(path: Path) -> int:
    """Size in bytes of a file's whole lines."""
    with path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        while position:
            start = max(0, position - 65536)
            file.seek(start)
            found = file.read(position - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            position = start
    return 0


class AnswerCache:
    """The file, open for appending by one process; a context manager.

    In memory it holds the keys alone, 32 bytes each. Raises DataError when another process has the file open or a line
    other than the last is broken.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._keys: set[bytes] = set()
        self._pending: list[bytes] = []
        self._turn = asyncio.Lock()
        self._writing = threading.Lock()
        self._failure: OSError | None = None
        self._file = -1

    def __enter__(self) -> AnswerCache:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = filelock.FileLock(self.path.with_name(f".{self.path.name}.lock"))
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            raise DataError(f"{self.path}: another run is writing to it; wait for it or end it") from None
        try:
            if self.path.exists() and (end := _whole_end(self.path)) < self.path.stat().st_size:
                os.truncate(self.path, end)
            self._keys = {bytes.fromhex(answer.key) for answer in read_answers(self.path)}
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            _sync_folder(self.path.parent)
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._writing:
            os.close(self._file)
        self._lock.release()

    def __contains__(self, key: str) -> bool:
        return bytes.fromhex(key) in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    async def append(self, answer: CachedAnswer) -> None:
        """Return once the answer is on disk; answers that arrive meanwhile share the next write.

        Raises ValueError for a key that the file has, DataError when the disk takes no more.
        """
        key = bytes.fromhex(answer.key)
        if key in self._keys:
            raise ValueError(f"answer {answer.key} is in {self.path} already")
        self._keys.add(key)
        self._pending.append(answer.to_line())
        async with self._turn:
            if self._pending and self._failure is None:
                batch, self._pending = b"".join(self._pending), []
                try:
                    await asyncio.to_thread(self._write, batch)
                except OSError as error:
                    self._failure = error
            if self._failure is not None:
                raise DataError(f"{self.path}: cannot be written ({self._failure.strerror})") from self._failure

    def _write(self, lines: bytes) -> None:
        with self._writing:
            while lines:
                lines = lines[os.write(self._file, lines) :]
            os.fsync(self._file)


def _sync_folder(folder: Path) -> None:
    """Make a new file's name durable, where the system lets folders be synced."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

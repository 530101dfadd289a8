"""Errors for the person who can fix them: one sentence that says what is wrong, where, and what was expected."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable

from explearn.core.visible import visible


def first_line(error: BaseException) -> str:
    """The first line of an error's text that is not blank, else its type; some libraries' errors have many."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


_OF_PYTHON = re.compile(
    r"<class '|NoneType|object at 0x|codec can't|\bhas no attribute\b|subscriptable|not iterable|positional argument"
)
_SHOWN_CHARS, _LONGEST_CHARS = 80, 400

SAVED = "expected a folder as save_pretrained writes"
"""End of the sentence on a model that cannot be loaded."""


def problem_of(error: BaseException) -> str:
    """What an error that a damaged file brought about says to its reader, without Python's own words."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not valid UTF-8"
    if isinstance(error, RecursionError):
        return "lists or objects nested too deeply"
    if isinstance(error, UnicodeEncodeError):
        return "a text in it holds half a character"
    if isinstance(error, KeyError) and error.args:
        return f"{str(error.args[0])[:_SHOWN_CHARS]!r} is missing"
    said = first_line(error)[:_LONGEST_CHARS]
    plain = not isinstance(error, TypeError | AttributeError | IndexError | ArithmeticError | AssertionError)
    return said if plain and not _OF_PYTHON.search(said) else "a value in it is of another kind than expected"


_NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
"""What the messages of torch's and other libraries' errors for lack of memory say."""


def sentence_of(error: BaseException) -> str | None:
    """What an error of the machine (disk, memory, terminal) means, for the person who can mend it.

    None for any other error: that may be a fault of the program, and its traceback is worth seeing.
    """
    if isinstance(error, UnicodeEncodeError):
        bad = error.object[error.start : error.end]
        return f"{bad!r} cannot be written as {error.encoding}; set PYTHONUTF8=1, or use a terminal with UTF-8"
    if isinstance(error, OSError):
        files = [os.fspath(name) for name in (error.filename, error.filename2) if isinstance(name, str | os.PathLike)]
        where = " and ".join(_cut(name) for name in files)
        reason = os.strerror(error.errno) if error.errno else first_line(error)
        return f"{where}: cannot be used ({reason})" if where else f"the system refused ({reason})"
    kind = type(error).__name__
    text = str(error).lower()
    if isinstance(error, MemoryError) or kind == "OutOfMemoryError" or any(sign in text for sign in _NO_MEMORY):
        return f"memory does not suffice ({first_line(error)}); take fewer texts, smaller sizes or a lower --max-tokens"
    if kind == "SafetensorError":
        return f"a safetensors file cannot be read or written ({first_line(error)})"
    return None


def _cut(name: str | bytes) -> str:
    """A file's name, cut where nobody would read it to the end."""
    text = os.fsdecode(name)
    return text if len(text) <= 300 else f"{text[:120]}...{text[-40:]}"


class ExplearnError(Exception):
    """Base of every error that a user can fix; commands print it as one sentence and exit with `exit_code`."""

    exit_code = 2

    def __str__(self) -> str:
        """The message, safe to print: what it repeats of a file or a server may hold a terminal's commands."""
        return visible(super().__str__())


class DataError(ExplearnError):
    """Input data that cannot be used; the message names file, row and field, and what was expected."""


class ParamsError(ExplearnError):
    """A parameter or option with a value that cannot be used."""


class UnknownNameError(ExplearnError):
    """A name (explainer, task, adapter, ...) that is not known; the message suggests near ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        if not isinstance(name, str):
            got = "nothing" if name is None else type(name).__name__
            super().__init__(f"{kind}: got {got}; expected a name")
            return
        names, name = sorted(known), _cut(name)
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}."
        super().__init__(f"unknown {kind} {name!r}; {hint}")


class DeviceError(ExplearnError):
    """A device or precision that this machine does not have."""


class ModelError(ExplearnError):
    """Weights, a tokenizer or an architecture that cannot be used."""


class UnsupportedError(ExplearnError):
    """A method that cannot explain this model or text; the message gives the reason and what could be used instead."""

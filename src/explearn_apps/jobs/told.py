"""What goes wrong in another process, carried to the one that the user sees."""

from __future__ import annotations

from typing import Any

from explearn.core.errors import ExplearnError, sentence_of

Row = dict[str, Any]


def told(error: Exception) -> Row:
    """An error that a user can mend, as a row. Any other is raised: its traceback is worth seeing."""
    if isinstance(error, ExplearnError):
        return {"error": str(error), "kind": type(error).__name__}
    sentence = sentence_of(error)
    if sentence is None:
        raise error
    return {"error": sentence, "kind": ExplearnError.__name__}


def raise_error(row: Row) -> None:
    """Raise what a worker's row tells, if anything, as an error of the same kind."""
    if row["error"] is None:
        return
    kinds = {kind.__name__: kind for kind in ExplearnError.__subclasses__()}
    error = ExplearnError.__new__(kinds.get(row["kind"], ExplearnError))
    # Some kinds make their sentence of several arguments; here it is made already.
    Exception.__init__(error, row["error"])
    raise error

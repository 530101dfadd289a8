"""What a JSON document of an earlier stage has to look like, declared once, and errors that name file and field.

A file between two stages may have been cut, edited or written by another version. Its declared shape is checked where
it is read, so that no code behind it meets a value of another kind.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from explearn.core.documents import kind_of, read_json
from explearn.core.errors import DataError

_SHOWN_CHARS = 120


class Shape(BaseModel):
    """Base of objects with named fields; those that it does not name may hold anything."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


Count = Annotated[int, Field(ge=0, le=10**12)]
Number = Annotated[float, Field(strict=True, ge=-1e300, le=1e300)]
Figure = Number | None
"""A number, or null where it is undefined."""

Figures = dict[str, Figure]

_EXPECTED = {
    "missing": "it to be there",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "list_type": "a list",
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "finite_number": "a finite number",
    "too_short": "at least one entry",
}
"""pydantic's kinds of error -> what was expected."""


def problem_in(error: ValidationError) -> tuple[str, str]:
    """The first problem of a document: its field, with dots between the parts, and what was got and expected."""
    problem: ErrorDetails = error.errors()[0]
    field = ".".join(str(part) for part in problem["loc"] if part not in ("nullable", "constrained-float"))
    return field[:_SHOWN_CHARS], f"got {_got(problem)}; expected {_expected(problem)}"


def _got(problem: ErrorDetails) -> str:
    if problem["type"] == "missing":
        return "no such field"
    value = problem["input"]
    return str(value) if isinstance(value, int | float) and abs(value) < 10**15 else kind_of(value)


def _expected(problem: ErrorDetails) -> str:
    known = _EXPECTED.get(problem["type"])
    if known is not None:
        return known
    said = problem["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return f"{said[0].lower()}{said[1:]}"


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    # A shape is strict by itself, a plain dict or list by this.
    settled = isinstance(shape, type) and issubclass(shape, BaseModel)
    return TypeAdapter(shape, config=None if settled else ConfigDict(strict=True, allow_inf_nan=False))


def check_shape(found: Any, shape: Any, path: str | os.PathLike[str], hint: str) -> Any:
    """Give a document back as it is. Raises DataError naming file and field where it has another shape.

    Args:
        shape: a `Shape`, or a type such as dict[str, Figures].
        hint: what the reader can do, at the end of the sentence.
    """
    try:
        _adapter(shape).validate_python(found)
    except ValidationError as error:
        field, what = problem_in(error)
        where = f", field {field!r}" if field else ""
        raise DataError(f"{path}{where}: {what}; {hint}") from error
    return found


def read_document(path: str | os.PathLike[str], shape: Any, stage: str) -> Any:
    """The document of a stage. Raises DataError as `read_json` and `check_shape` do.

    Args:
        stage: the stage that writes it, which the error tells to run again.
    """
    return check_shape(read_json(path), shape, path, f"run the stage {stage} again")


__all__ = ["Count", "Figure", "Figures", "Number", "Shape", "check_shape", "problem_in", "read_document"]

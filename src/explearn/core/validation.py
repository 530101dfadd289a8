"""Validation of options, parameters and JSON documents by pydantic, with its errors as one sentence.

A `Section` is a group of options or parameters written by a user; a `Shape` is an object of a JSON document written by
a program, which may have been cut, edited or written by another version.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from explearn.core.documents import PathLike
from explearn.core.errors import DataError, ExplearnError, ParamsError, shown
from explearn.core.escape import is_unicode

# ---- types of fields -------------------------------------------------------------------------------------------------

MOST = 10**9
"""Largest count of anything; a larger one is a typing error, or more than a machine can hold."""

MOST_ROUNDS = 10**6
"""Most passes, steps, trials or samples."""

MOST_UNITS = 2**16
"""Largest size of a layer, a batch or a part of a model. A matrix of twice this size fills a machine's memory."""

LARGEST_SEED = 2**32 - 1
"""Largest seed that NumPy accepts."""

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
OpenFraction = Annotated[float, Field(gt=0.0, lt=1.0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
PositiveInt = Annotated[int, Field(ge=1, le=MOST)]
Whole = Annotated[int, Field(ge=0, le=MOST)]
Percent = Annotated[int, Field(ge=1, le=100)]
Rounds = Annotated[int, Field(ge=1, le=MOST_ROUNDS)]
"""Number of epochs, steps, samples and similar."""
RoundsOrNone = Annotated[int, Field(ge=0, le=MOST_ROUNDS)]
Units = Annotated[int, Field(ge=1, le=MOST_UNITS)]
"""Width, number of heads or layers, batch size and similar."""
LayerIndex = Annotated[int, Field(ge=-MOST_UNITS, le=MOST_UNITS)]
"""Index of a layer, from 0, or from the end if negative."""
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]
Count = Annotated[int, Field(ge=0, le=10**12)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Figure = Number | None
"""A number, or null if it is undefined."""
Figures = dict[str, Figure]


def _check_unicode(text: str) -> str:
    if not is_unicode(text):
        raise ValueError(f"got {shown(text)}; expected valid Unicode")
    return text


UnicodeText = Annotated[str, AfterValidator(_check_unicode)]
Name = Annotated[str, Field(min_length=1), AfterValidator(_check_unicode)]


def whole_number(text: str, most: int = MOST) -> int | None:
    """Parse a string of ASCII digits; None for any other string, and for numbers above `most`."""
    digits = text.strip()
    # str.isdigit alone also accepts "\u00b2"; int refuses thousands of digits.
    if not digits.isascii() or not digits.isdigit() or len(digits) > len(str(most)) or int(digits) > most:
        return None
    return int(digits)


# ---- groups of fields ------------------------------------------------------------------------------------------------


class Section(BaseModel):
    """Base of all groups of options or parameters. The docstring below a field is its description."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False, use_attribute_docstrings=True
    )


class Seeded(Section):
    """Options of a method that draws at random."""

    seed: Seed = 13
    """Seed of the draws."""


class Shape(BaseModel):
    """Base of objects of JSON documents; undeclared fields may hold anything."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False, protected_namespaces=())


SectionT = TypeVar("SectionT", bound=Section)


def check(kind: Any, value: Any, error: type[ExplearnError] = DataError, before: str = "", after: str = "") -> Any:
    """Validate a value with pydantic and return the result.

    Args:
        kind: a Section, a Shape, or a type such as dict[str, Figures].
        value: what to validate.
        error: error to raise; its message names field, value and what was expected.
        before: start of the message, such as the file's name.
        after: end of the message, such as what the reader can do.
    """
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as problem:
        raise error(f"{before}{problems_sentence(problem, kind)}{after}") from problem


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    if _is_model(kind, BaseModel):
        return TypeAdapter(kind)
    return TypeAdapter(kind, config=ConfigDict(strict=True, allow_inf_nan=False))


def _is_model(kind: Any, base: type[BaseModel]) -> bool:
    return isinstance(kind, type) and issubclass(kind, base)


def check_section(section: type[SectionT], values: Mapping[str, Any]) -> SectionT:
    """Return a section made from values; raise ParamsError as `check` does."""
    checked: SectionT = check(section, dict(values), ParamsError)
    return checked


def check_shape(document: Any, shape: Any, path: PathLike, hint: str) -> Any:
    """Return a document unchanged; raise DataError as `check` does, with the file's name and, at the end, `hint`."""
    check(shape, document, DataError, f"{path}, ", f"; {hint}")
    return document


def check_fields(instance: Any) -> None:
    """Raise DataError if a dataclass field's value does not match its annotation."""
    values = {field.name: getattr(instance, field.name) for field in dataclasses.fields(instance)}
    kind: Any = type(instance)
    check(shape_of(kind), values, DataError)


@cache
def shape_of(kind: Any) -> type[Shape]:
    """Return a Shape with the fields, types and defaults of a dataclass."""
    hints = get_type_hints(kind, include_extras=True)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        default = ... if field.default is dataclasses.MISSING else field.default
        fields[field.name] = (hints[field.name], default)
    return create_model(kind.__name__, __base__=Shape, **fields)


# ---- sentences -------------------------------------------------------------------------------------------------------

_MOST_PROBLEMS = 5
_MOST_NAMES = 25
"""Most parameter names listed if none is similar to the unknown one; a whole run has more."""


def problems_sentence(error: ValidationError, root: Any = None, before: str = "") -> str:
    """Describe pydantic's first problems in one sentence.

    Args:
        error: pydantic's error.
        root: the expected Section, for the names of its fields.
        before: text before each problem.
    """
    problems = error.errors()
    sentences = [before + _problem_sentence(problem, root) for problem in problems[:_MOST_PROBLEMS]]
    if len(problems) > _MOST_PROBLEMS:
        sentences.append(f"and {len(problems) - _MOST_PROBLEMS} more")
    return "; ".join(sentences)


def _problem_sentence(problem: Any, root: Any) -> str:
    location = problem["loc"]
    if location[-1:] == ("[key]",):  # a key that is not a string: pydantic gives its number, too
        location = location[:-2]
    field = ".".join(map(str, location))[:160]
    complaint = _complaint(problem, root)
    if _is_model(root, Section):
        return f"{field or 'parameters'}: {complaint}"
    if field:
        return f"field {field!r}: {complaint}"
    return complaint


def _complaint(problem: Any, root: Any) -> str:
    kind = problem["type"]
    value = problem["input"]
    if kind == "extra_forbidden":
        return f"no such parameter; {_suggestion(problem['loc'], root)}"
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    if kind == "missing":
        return "got none; expected a value"
    if kind == "string_type" and isinstance(value, bool):
        return f"got {str(value).lower()}; expected a text; put yes, no, true and false in quotation marks"
    return f"got {shown(value)}; expected: {problem['msg'][0].lower()}{problem['msg'][1:]}"


def _suggestion(location: tuple[int | str, ...], root: Any) -> str:
    """Return the names of parameters that may be meant by an unknown one."""
    names = _field_names(location[:-1], root)
    near = difflib.get_close_matches(str(location[-1]), names, n=1, cutoff=0.5)
    if near:
        return f"did you mean {near[0]}?"
    if not names:
        return "there are none"
    if len(names) > _MOST_NAMES:
        return "expected one of those in conf/config.yaml"
    return f"expected one of {', '.join(names)}"


def _field_names(location: tuple[int | str, ...], root: Any) -> list[str]:
    """Return the field names of the section at a location, which may lead through lists and mappings."""
    kind = root
    for part in location:
        kind = kind.model_fields[part].annotation if _is_model(kind, BaseModel) else get_args(kind)[-1]
        if type(None) in get_args(kind):
            (kind,) = [member for member in get_args(kind) if member is not type(None)]
    return [name for name, field in kind.model_fields.items() if not field.exclude]

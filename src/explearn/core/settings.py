"""What every section of parameters shares, and how a wrong value is told."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from explearn.core.errors import ParamsError

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]

OpenFraction = Annotated[float, Field(gt=0.0, lt=1.0)]

MOST = 10**9
"""Largest count of anything; what is larger is a slip of the keyboard, or more than a machine holds."""


def whole_number(text: str, most: int = MOST) -> int | None:
    """The number that a text of ASCII digits writes; None for any other text, and for more than `most`.

    `str.isdigit` alone says yes to "\u00b2", which is no number.
    """
    digits = text.strip()
    usable = digits.isascii() and digits.isdigit() and len(digits) <= len(str(most)) and int(digits) <= most
    return int(digits) if usable else None


PositiveInt = Annotated[int, Field(ge=1, le=MOST)]

MOST_ROUNDS = 10**6
"""Most passes, steps, trials or samples."""

Rounds = Annotated[int, Field(ge=1, le=MOST_ROUNDS)]
"""Epochs, steps, samples and their like."""

MOST_UNITS = 2**16
"""Largest size of a layer, a batch or a model's part. Twice of it in each direction fill the memory of a machine."""

Units = Annotated[int, Field(ge=1, le=MOST_UNITS)]
"""Width, heads, layers, batch size and their like."""

LayerIndex = Annotated[int, Field(ge=-MOST_UNITS, le=MOST_UNITS)]
"""Number of a layer, from 0, or from the end when negative."""

LARGEST_SEED = 2**32 - 1
"""NumPy takes no larger one."""

Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]


class Section(BaseModel):
    """Base of all sections. The docstring below a field is its description."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False, use_attribute_docstrings=True
    )


class Seeded(Section):
    """Options of a method that draws at random."""

    seed: Seed = 13


SHOWN_PROBLEMS = 5
SHOWN_CHARS = 80
"""Most problems told at once, and characters of a value."""
SHOWN_NAMES = 25
"""Most names of parameters listed where none is like the one given; the whole run has more."""

SectionT = TypeVar("SectionT", bound=Section)


def check_section(section: type[SectionT], values: Mapping[str, Any]) -> SectionT:
    """The section that some values make.

    Raises ParamsError, naming option, value and what was expected, where they make none.
    """
    try:
        return section.model_validate(dict(values))
    except ValidationError as error:
        raise ParamsError(problems_sentence(error, section)) from error


def problems_sentence(error: ValidationError, root: type[Section], before: str = "") -> str:
    """What is wrong with some values, the first problems of many; `before` stands before each."""
    problems = error.errors()
    listed = [f"{before}{_problem_sentence(problem, root)}" for problem in problems[:SHOWN_PROBLEMS]]
    more = [f"and {len(problems) - SHOWN_PROBLEMS} more"] if len(problems) > SHOWN_PROBLEMS else []
    return "; ".join(listed + more)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."


_PLAIN = {
    "model_type": "a mapping, {NAME: VALUE, ...}",
    "dict_type": "a mapping, {NAME: VALUE, ...}",
    "list_type": "a list, [VALUE, ...]",
    "string_type": "a text, in quotation marks where it looks like a number",
}
"""pydantic's kinds of error -> what was expected, in a user's words."""


def _problem_sentence(problem: Any, root: type[Section]) -> str:
    # Of a key that is no text, pydantic gives its number and "[key]".
    places = problem["loc"][:-2] if problem["loc"][-1:] == ("[key]",) else problem["loc"]
    where = ".".join(str(part) for part in places)[: 2 * SHOWN_CHARS] or "parameters"
    if problem["type"] == "extra_forbidden":
        known = _names_beside(problem["loc"], root)
        near = difflib.get_close_matches(str(problem["loc"][-1]), known, n=1, cutoff=0.5)
        of = ", ".join(known) if len(known) <= SHOWN_NAMES else "those in conf/config.yaml"
        hint = f"did you mean {near[0]}?" if near else f"expected one of {of}"
        return f"{where}: no such parameter; {hint}"
    if problem["type"] == "value_error":
        return f"{where}: {problem['ctx']['error']}"
    if problem["type"] == "missing":
        return f"{where}: got none; expected a value"
    if problem["type"] == "string_type" and isinstance(problem["input"], bool):
        said, written = ("true", "yes") if problem["input"] else ("false", "no")
        return f"{where}: got {said}; expected a text, in quotation marks, for YAML reads a bare {written} as {said}"
    expected = _PLAIN.get(problem["type"], f"{problem['msg'][0].lower()}{problem['msg'][1:]}")
    return f"{where}: got {_shown(problem['input'])}; expected: {expected}"


def _names_beside(location: tuple[int | str, ...], root: type[Section]) -> list[str]:
    """Names of the parameters of the section that a location, which may lead through lists and mappings, ends in."""
    found: Any = root
    for part in location[:-1]:
        is_section = isinstance(found, type) and issubclass(found, Section)
        found = found.model_fields[part].annotation if is_section else get_args(found)[-1]
        if type(None) in get_args(found):
            (found,) = (kind for kind in get_args(found) if kind is not type(None))
    return list(found.model_fields)

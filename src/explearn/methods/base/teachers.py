"""Names of teachers: a method, or an ensemble of several."""

from __future__ import annotations

from explearn.core.errors import ParamsError

ENSEMBLE = "ensemble:"
"""How the name of a teacher begins that is several methods."""


def members(teacher: str) -> list[str]:
    """The methods behind a teacher's name: itself, or those of `ensemble:a,b,c`.

    Raises ParamsError for an ensemble of less than two methods, or of one twice.
    """
    if not teacher.startswith(ENSEMBLE):
        return [teacher]
    names = teacher.removeprefix(ENSEMBLE).split(",")
    if len(names) < 2 or not all(names) or len(set(names)) != len(names):
        raise ParamsError(f"teacher {teacher!r}: expected {ENSEMBLE}NAME,NAME,... with two names or more, each once")
    return names

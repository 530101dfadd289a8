"""Teachers, methods whose explanations students learn: their names, and the options of teaching and of comparing."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from explearn.core.errors import ParamsError
from explearn.core.settings import PositiveInt, Section

ENSEMBLE = "ensemble:"
"""How the name of a teacher begins that stands for several methods."""


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


class TeachParams(Section):
    """What teachers explain."""

    max_texts: dict[Literal["train", "validation"], PositiveInt] = Field(default_factory=dict)
    """Most texts a split that teachers explain, drawn by seed (default: all)."""


class DistilParams(Section):
    """The comparison of teachers with students of theirs."""

    teachers: list[str] = Field(default_factory=list)
    """Teachers to compare with their students as L2E's paper does: names as of `l2e.teacher`."""
    # pydantic copies a section's defaults.
    formulations: Annotated[list[Literal["labelling", "ranking"]], Field(min_length=1)] = ["ranking", "labelling"]  # noqa: RUF012
    seeds: PositiveInt = 3
    """Students a teacher and formulation; the other options are those of `l2e`."""
    percent: Annotated[int, Field(ge=1, le=100)] = 30
    """Share of a text's words that is its explanation under `ranking`, in percent (L2E footnote 5)."""
    max_texts: PositiveInt | None = 100
    """Most test texts a task (the paper takes 100 for differences of log-odds and for times)."""

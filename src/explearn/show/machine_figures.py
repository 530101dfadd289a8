"""Which figures depend on the machine of the run, and how they are kept apart from the others.

Times and memory differ from machine to machine, and from run to run. Files under version control hold none of them, so
that a rerun gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from explearn.judge.catalogue import CATALOGUE
from explearn.show.columns import Column

MACHINE_FIGURES = frozenset(name for name, entry in CATALOGUE.items() if entry.of_machine)
"""Names of such figures among a method's metrics."""


def fixed_columns(columns: Sequence[Column]) -> list[Column]:
    """The columns whose figures do not depend on the machine."""
    return [column for column in columns if column.metric not in MACHINE_FIGURES]

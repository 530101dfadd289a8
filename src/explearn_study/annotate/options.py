"""The budget of everything that asks a language model: the stage rationalise and `explearn annotate`.

It says how much at most, never what: no answer depends on it.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from explearn.cli.running import Group
from explearn.core.errors import ParamsError
from explearn.core.validation import whole_number
from explearn_study.annotate.budget import PRICES, Meter, parse_prices

REQUESTS = "EXPLEARN_LLM_BUDGET_REQUESTS"
"""Environment variable: most requests of a run, repeats included."""


def meter(
    budget_money: Annotated[
        float | None,
        typer.Option(
            help=f"Most money of this run, in the currency of {PRICES}.", envvar="EXPLEARN_LLM_BUDGET_MONEY", min=0.0
        ),
    ] = None,
) -> Meter:
    """Return the budget: this option, and what REQUESTS and PRICES say. Raises ParamsError where one cannot be read."""
    requests = os.environ.get(REQUESTS, "").strip()
    most = whole_number(requests)
    if requests and most is None:
        raise ParamsError(f"{REQUESTS}: got {requests[:60]!r}; expected a whole number")
    return Meter(most, budget_money, parse_prices(os.environ.get(PRICES, "").split()))


Budget = Annotated[Meter, Group("Budget", meter)]

"""Options of everything that asks a language model: the stage rationalise and `explearn annotate`.

They say how much at most, never what: no answer depends on them.
"""

from __future__ import annotations

from typing import Annotated

import typer

from explearn.cli.running import Group
from explearn_study.annotate.budget import Meter, parse_prices


def meter(
    budget_requests: Annotated[
        int | None,
        typer.Option(help="Most requests of this run, repeats included.", envvar="EXPLEARN_LLM_BUDGET_REQUESTS", min=0),
    ] = None,
    budget_money: Annotated[
        float | None,
        typer.Option(
            help="Most money of this run, in the currency of --price.", envvar="EXPLEARN_LLM_BUDGET_MONEY", min=0.0
        ),
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(
            help="INPUT,OUTPUT or MODEL=INPUT,OUTPUT: money for a million tokens read and written; may be repeated.",
            envvar="EXPLEARN_LLM_PRICES",
        ),
    ] = None,
) -> Meter:
    """Return the budget. Raises ParamsError for a price that cannot be read."""
    return Meter(budget_requests, budget_money, parse_prices(price or ()))


Budget = Annotated[Meter, Group("Budget", meter)]

"""Options of everything that asks a language model: the stage rationalise and `explearn annotate`.

They say how fast and how much at most, never what: no answer depends on them.
"""

from __future__ import annotations

from typing import Annotated

import typer

from explearn.cli.running import Group
from explearn_study.annotate.budget import Bounds, Budget, Meter, parse_prices


def bounds(
    concurrency: Annotated[
        int,
        typer.Option(help="Requests under way at once.", envvar="EXPLEARN_LLM_CONCURRENCY", min=1, max=256),
    ] = 8,
    timeout: Annotated[
        float, typer.Option(help="Seconds to wait for one answer.", envvar="EXPLEARN_LLM_TIMEOUT", min=0.01)
    ] = 60.0,
    attempts: Annotated[
        int,
        typer.Option(
            help="Most requests for one answer, where the server fails for the moment.",
            envvar="EXPLEARN_LLM_ATTEMPTS",
            min=1,
            max=100,
        ),
    ] = 6,
    budget_requests: Annotated[
        int | None,
        typer.Option(help="Most requests of this run, repeats included.", envvar="EXPLEARN_LLM_BUDGET_REQUESTS", min=0),
    ] = None,
    budget_tokens: Annotated[
        int | None,
        typer.Option(help="Most tokens of this run, read and written.", envvar="EXPLEARN_LLM_BUDGET_TOKENS", min=0),
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
) -> Bounds:
    """Return the pace and the budget. Raises ParamsError for a price that cannot be read."""
    budget = Budget(budget_requests, budget_tokens, budget_money)
    return Bounds(concurrency, timeout, attempts, Meter(budget, parse_prices(price or ())))


Limits = Annotated[Bounds, Group("Limits", bounds)]

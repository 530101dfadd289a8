"""Options of everything that asks a language model: the stage rationalise and `explearn annotate`.

They say how fast and how much at most, never what: no answer depends on them.
"""

from __future__ import annotations

from typing import Annotated

import typer

Concurrency = Annotated[
    int,
    typer.Option(help="Requests under way at once.", envvar="EXPLEARN_LLM_CONCURRENCY", min=1, max=256),
]
Timeout = Annotated[
    float, typer.Option(help="Seconds to wait for one answer.", envvar="EXPLEARN_LLM_TIMEOUT", min=0.01)
]
Attempts = Annotated[
    int,
    typer.Option(
        help="Most requests for one answer, where the server fails for the moment.",
        envvar="EXPLEARN_LLM_ATTEMPTS",
        min=1,
        max=100,
    ),
]
BudgetRequests = Annotated[
    int | None,
    typer.Option(help="Most requests of this run, repeats included.", envvar="EXPLEARN_LLM_BUDGET_REQUESTS", min=0),
]
BudgetTokens = Annotated[
    int | None,
    typer.Option(help="Most tokens of this run, read and written.", envvar="EXPLEARN_LLM_BUDGET_TOKENS", min=0),
]
BudgetMoney = Annotated[
    float | None,
    typer.Option(
        help="Most money of this run, in the currency of --price.", envvar="EXPLEARN_LLM_BUDGET_MONEY", min=0.0
    ),
]
Prices = Annotated[
    list[str] | None,
    typer.Option(
        "--price",
        help="INPUT,OUTPUT or MODEL=INPUT,OUTPUT: money for a million tokens read and written; may be repeated.",
        envvar="EXPLEARN_LLM_PRICES",
    ),
]

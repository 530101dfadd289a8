"""A hard budget in requests and money: a request that could exceed it is not sent.

Before a request its worst case is reserved: as many input tokens as the request has bytes (no tokenizer makes more) and
the longest answer allowed. When the answer arrives, its actual cost replaces the reservation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from explearn.core.errors import ExplearnError, ParamsError

TOKENS_PER_PRICE = 1_000_000
"""Prices are for a million tokens, as providers quote them."""

ANY_MODEL = ""

PRICES = "EXPLEARN_LLM_PRICES"
"""Environment variable: prices of a million input and output tokens, INPUT,OUTPUT, or MODEL=INPUT,OUTPUT for each
model, separated by blanks."""


class BudgetError(ExplearnError):
    """The next request could exceed the budget."""


@dataclass(frozen=True, slots=True)
class Price:
    """Money for a million tokens, in any one currency."""

    input: float
    output: float

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        return (input_tokens * self.input + output_tokens * self.output) / TOKENS_PER_PRICE


def parse_prices(values: Sequence[str]) -> dict[str, Price]:
    """Return model -> price from `MODEL=INPUT,OUTPUT`, or `INPUT,OUTPUT` for every other model (key ANY_MODEL).

    Raises:
        ParamsError: a value has another form.
    """
    prices: dict[str, Price] = {}
    for value in values:
        model, _, numbers = value.rpartition("=")
        try:
            into, out = (float(number) for number in numbers.split(","))
        except ValueError:
            into = out = -1.0
        if not (0 <= into < float("inf") and 0 <= out < float("inf")):
            raise ParamsError(
                f"{PRICES}: got {value!r}; expected MODEL=INPUT,OUTPUT or INPUT,OUTPUT, prices of a million tokens"
            )
        prices[model] = Price(into, out)
    return prices


@dataclass(slots=True)
class Spent:
    """Requests sent, tokens read and written, and money (in the prices' currency)."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float = 0.0

    def add(self, other: Spent, sign: int = 1) -> None:
        self.requests += sign * other.requests
        self.input_tokens += sign * other.input_tokens
        self.output_tokens += sign * other.output_tokens
        self.money += sign * other.money


@dataclass(slots=True)
class Meter:
    """A meter of what a run spends on all its models, that refuses requests beyond the budget.

    Attributes:
        requests: most requests of a run; None for no limit.
        money: most money of a run; None for no limit.
        prices: model -> price; ANY_MODEL for models not named.
        spent: what was spent so far. A request without a token count (a time-out, a server that does not count) counts
            as its worst case; one that the server refused counts as a request without tokens.
    """

    requests: int | None = None
    money: float | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)
    _reserved: Spent = field(default_factory=Spent)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def price(self, model: str) -> Price | None:
        """Return the model's price, None if unknown.

        Raises:
            ParamsError: the price is unknown, but the budget is in money.
        """
        price = self.prices.get(model, self.prices.get(ANY_MODEL))
        if price is None and self.money is not None:
            raise ParamsError(f"{PRICES}: got none for {model!r}; expected a price, because the budget is in money")
        return price

    def cost(self, model: str, input_tokens: int, output_tokens: int) -> float:
        """Return the cost of a request, 0 where no price is known."""
        price = self.price(model)
        return price.cost(input_tokens, output_tokens) if price else 0.0

    async def reserve(self, model: str, input_tokens: int, output_tokens: int) -> Spent:
        """Reserve the worst case of a request, waiting for running requests if that may help.

        Raises:
            BudgetError: the budget does not cover it.
        """
        worst = Spent(1, input_tokens, output_tokens, self.cost(model, input_tokens, output_tokens))
        async with self._changed:
            while not self._covers(worst):
                if not self._reserved.requests:
                    raise BudgetError(
                        f"the budget of {self._limits()} does not cover another request (sent: "
                        f"{self.spent.requests:,} requests); raise it and run again: answers so far are kept"
                    )
                await self._changed.wait()
            self._reserved.add(worst)
        return worst

    def _covers(self, worst: Spent) -> bool:
        requests = self.spent.requests + self._reserved.requests + worst.requests
        money = self.spent.money + self._reserved.money + worst.money
        if self.requests is not None and requests > self.requests:
            return False
        return self.money is None or money <= self.money

    def _limits(self) -> str:
        limits = []
        if self.requests is not None:
            limits.append(f"{self.requests} requests")
        if self.money is not None:
            limits.append(f"{self.money} in money")
        return " and ".join(limits)

    async def settle(self, reserved: Spent, actual: Spent) -> None:
        """Replace a request's reservation by its actual cost."""
        async with self._changed:
            self._reserved.add(reserved, -1)
            self.spent.add(actual)
            self._changed.notify_all()

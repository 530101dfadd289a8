"""A hard budget in requests and money: a request that could exceed it is not sent.

Before a request its worst case is spent: as many input tokens as the request has bytes (no tokenizer makes more) and
the longest answer allowed. When the answer arrives, its actual cost replaces that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from explearn.core.errors import ExplearnError, ParamsError
from explearn.predictors.llm.store import AnswerStore, Spent

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
class Meter:
    """A meter of what is spent on all models, that refuses requests beyond the budget.

    Attributes:
        requests: most requests; None for no limit.
        money: most money; None for no limit.
        prices: model -> price; ANY_MODEL for models not named.
        spent: what was spent so far. A request on its way counts as its worst case, as does one without a token count
            (a time-out, a server that does not count); one that the server refused counts as a request without tokens.
        store: where `spent` outlives the process; None: nowhere.
    """

    requests: int | None = None
    money: float | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)
    store: AnswerStore | None = None
    _under_way: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def keep(self, store: AnswerStore) -> None:
        """Go on from what a file of answers has cost so far, and keep the sum there."""
        self.store = store
        self.spent = store.spent

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
        """Spend the worst case of a request, waiting for others under way if that may help, and return it.

        Raises:
            BudgetError: the budget does not cover it.
        """
        worst = Spent(1, input_tokens, output_tokens, self.cost(model, input_tokens, output_tokens))
        async with self._changed:
            while not self._covers(worst):
                if not self._under_way:
                    raise BudgetError(
                        f"the budget of {self._limits()} does not cover another request (sent: "
                        f"{self.spent.requests:,} requests); raise it and run again: answers so far are kept"
                    )
                await self._changed.wait()
            self._under_way += 1
            self._spend(worst)
        return worst

    def _covers(self, worst: Spent) -> bool:
        if self.requests is not None and self.spent.requests + worst.requests > self.requests:
            return False
        return self.money is None or self.spent.money + worst.money <= self.money

    def _limits(self) -> str:
        limits = []
        if self.requests is not None:
            limits.append(f"{self.requests:,} requests")
        if self.money is not None:
            limits.append(f"{self.money} in money")
        return " and ".join(limits)

    async def settle(self, reserved: Spent, actual: Spent) -> None:
        """Replace a request's worst case by its actual cost."""
        async with self._changed:
            self._under_way -= 1
            self._spend(actual - reserved)
            self._changed.notify_all()

    def _spend(self, amount: Spent) -> None:
        self.spent += amount
        if self.store is not None:
            self.store.spend(amount)

"""The budget for asking language models, in the stage rationalise and in `explearn annotate`.

It only limits spending: no answer depends on it.
"""

from __future__ import annotations

import os
import re
from typing import Annotated

from explearn.cli.common import Group
from explearn.core.errors import ParamsError
from explearn.core.validation import whole_number
from explearn.predictors.llm.budget import PRICES, Meter, parse_prices

REQUESTS = "EXPLEARN_LLM_BUDGET_REQUESTS"
"""Environment variable: most requests of all runs for a task, including retries."""
MONEY = "EXPLEARN_LLM_BUDGET_MONEY"
"""Environment variable: most money of all runs for a task, in the currency of PRICES."""


def meter() -> Meter:
    """Return the budget set by REQUESTS, MONEY and PRICES.

    Raises:
        ParamsError: a value is invalid.
    """
    requests, money = (os.environ.get(name, "").strip() for name in (REQUESTS, MONEY))
    most = whole_number(requests)
    if requests and most is None:
        raise ParamsError(f"{REQUESTS}: got {requests[:60]!r}; expected a whole number")
    if not re.fullmatch(r"(\d+(\.\d+)?)?", money, re.ASCII):
        raise ParamsError(f"{MONEY}: got {money[:60]!r}; expected a number, 0 or more")
    return Meter(most, float(money) if money else None, parse_prices(os.environ.get(PRICES, "").split()))


Budget = Annotated[Meter, Group("Budget", meter)]

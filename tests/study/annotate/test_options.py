"""The budget that environment variables set."""

import pytest
from saying import complaint

from explearn.predictors.llm.budget import ANY_MODEL, Price
from explearn_study.annotate.options import meter


def test_requests_money_and_prices(monkeypatch):
    for name, value in {"BUDGET_REQUESTS": "7", "BUDGET_MONEY": "1.5", "PRICES": "1,2"}.items():
        monkeypatch.setenv(f"EXPLEARN_LLM_{name}", value)
    made = meter()
    assert (made.requests, made.money, made.prices) == (7, 1.5, {ANY_MODEL: Price(1, 2)})


@pytest.mark.parametrize(
    ("variable", "value"), [("PRICES", "cheap"), ("BUDGET_REQUESTS", "few"), ("BUDGET_MONEY", "-1")]
)
def test_a_value_that_cannot_be_used_is_named(monkeypatch, variable, value):
    monkeypatch.setenv(f"EXPLEARN_LLM_{variable}", value)
    complaint(meter, f"EXPLEARN_LLM_{variable}: got {value!r}")


def test_a_budget_in_money_needs_a_price(monkeypatch):
    monkeypatch.setenv("EXPLEARN_LLM_BUDGET_MONEY", "1")
    complaint(lambda: meter().price("m"), "EXPLEARN_LLM_PRICES: got none for 'm'")

"""What a budget of time leaves of texts and methods."""

import json

import pytest

from explearn import DataError, ParamsError
from explearn.comparison.plan import (
    Plan,
    kept_plan,
    parse_budget,
    within_budget,
)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5400), (30, 30), (None, None)])
def test_budgets(text, seconds):
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1m", "10 minutes", 0])
def test_no_budgets(text):
    with pytest.raises(ParamsError, match="budget"):
        parse_budget(text)


@pytest.mark.parametrize(
    ("seconds", "budget", "methods", "texts"),
    [
        # Fewer texts first.
        ({"slow": 1.0, "fast": 0.5}, 100.5 * 1.5, ["fast", "slow"], 100),
        ({"fast": 0.1, "faster": 0.1, "slow": 10.0, "slower": 20.0}, 20.0, ["fast", "faster"], 100),
        # The best elsewhere go last.
        ({"random": 0.1, "rollout": 0.1, "attn_lrp": 0.2, "lime": 9.0}, 7.0, ["random", "attn_lrp"], 23),
        # Random scores stay, and something to compare them with.
        ({"random": 5.0, "fast": 1.0, "slow": 10.0}, 1.0, ["fast", "random"], 20),
        ({"random": 5.0, "fast": 1.0}, 1e6, ["fast", "random"], 500),
    ],
)
def test_a_budget_takes_fewer_texts_and_then_fewer_methods(seconds, budget, methods, texts):
    choice = within_budget(seconds, 500, budget)
    assert (choice.methods, choice.texts) == (methods, texts)
    assert choice.left_out.keys() == seconds.keys() - {*methods}


REQUEST = {"methods": {"random": {}, "lime": {}}}
PLAN = Plan(methods=["random"], texts=3, left_out={"lime": "slow"})


def test_a_plan_is_that_of_the_same_request(tmp_path):
    other = PLAN.model_copy(update={"texts": 2})
    assert kept_plan(tmp_path, REQUEST, lambda: PLAN) == PLAN
    assert kept_plan(tmp_path, REQUEST, lambda: other) == PLAN
    assert kept_plan(tmp_path, {"methods": {"random": {}}}, lambda: other) == other
    assert kept_plan(None, REQUEST, lambda: other) == other


@pytest.mark.parametrize("change", [{"texts": 0}, {"left_out": [1]}], ids=ascii)
def test_a_damaged_plan_is_named(tmp_path, change):
    plan = {"request": REQUEST, "plan": {**PLAN.model_dump(), **change}}
    (tmp_path / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    with pytest.raises(DataError, match=r"plan\.json[:,] .*remove it, or work in another folder"):
        kept_plan(tmp_path, REQUEST, lambda: PLAN)

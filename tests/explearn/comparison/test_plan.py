"""What a budget of time leaves of texts and methods."""

import pytest

from explearn import ParamsError
from explearn.comparison.plan import (
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

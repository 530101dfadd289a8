"""How the report says that methods rank otherwise on a classifier's twin."""

import pytest
from evaluations import metrics, run, task

from explearn_study.report.twin import twin_blocks

METHODS = ("rollout", "gae", "attcat", "lime", "cam")


@pytest.mark.parametrize(
    ("values", "rho", "moved"),
    [
        ((0.5, 0.4, 0.3, 0.2, 0.1), "1.00", "none"),
        # From the first place to the last: d = 4, 1, 1, 1, 1, and 1 - 6 * 20 / (5 * 24).
        ((0.1, 0.5, 0.4, 0.3, 0.2), "0.00", "rollout (from place 1 to 5)"),
    ],
)
def test_the_orders_are_compared_and_who_moves_far_is_named(values, rho, moved):
    """On the classifier the methods rank as METHODS does; ivra, which explains its own, is on no twin."""
    figures = {}
    for place, method in enumerate((*METHODS, "ivra")):
        figures[method] = metrics(aopc_comprehensiveness=0.9 - place / 10)
    on_twin = {m: {"aopc_comprehensiveness": value} for m, value in zip(METHODS, values, strict=True)}
    _, sentence, fold = twin_blocks(run(task("films", figures)), {"films": task("films", on_twin)})
    assert f"rank correlation of {rho} " in sentence.text
    assert sentence.text.endswith(f"moved by more than 3 places: {moved}.")
    rows = fold.blocks[0].rows
    assert len(rows) == len(METHODS)
    assert rows[0][:4] == ["rollout", "0.900", "1", f"{values[0]:.3f}"]


def test_nothing_without_a_twin():
    assert twin_blocks(run(task()), {}) == []

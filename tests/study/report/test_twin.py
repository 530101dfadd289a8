"""How the report says that methods rank otherwise on a classifier's twin."""

from evaluations import metrics, run, task

from explearn_study.report.twin import twin_blocks

METHODS = ("rollout", "gae", "attcat", "lime", "cam")


def blocks(*values):
    """The section of a run on whose classifier the methods rank as METHODS does."""
    figures = {}
    for place, method in enumerate((*METHODS, "ivra")):
        figures[method] = metrics(aopc_comprehensiveness=0.9 - place / 10)
    on_twin = {m: {"aopc_comprehensiveness": value} for m, value in zip(METHODS, values, strict=True)}
    return twin_blocks(run(task("films", figures)), {"films": task("films", on_twin)})


def test_nothing_without_a_twin():
    assert twin_blocks(run(task()), {}) == []


def test_the_same_order():
    _, sentence, fold = blocks(0.5, 0.4, 0.3, 0.2, 0.1)
    assert "rank correlation of 1.00 " in sentence.text
    assert sentence.text.endswith("moved by more than 3 places: none.")
    assert len(fold.blocks[0].rows) == len(METHODS)


def test_a_method_that_falls_from_the_first_place_to_the_last():
    _, sentence, fold = blocks(0.1, 0.5, 0.4, 0.3, 0.2)
    # d = 4, 1, 1, 1, 1: 1 - 6 * 20 / (5 * 24)
    assert "rank correlation of 0.00 " in sentence.text
    assert sentence.text.endswith("moved by more than 3 places: rollout (from place 1 to 5).")
    assert fold.blocks[0].rows[0] == ["rollout", "0.900", "1", "0.100", "5"]

"""How the report says that methods rank otherwise on a classifier's twin."""

import task_reports

from explearn_study.report.twin import twin_blocks

METHODS = ("rollout", "gae", "attcat", "lime", "cam")


def document(*values):
    return {m: {"aopc_comprehensiveness": value} for m, value in zip(METHODS, values, strict=True)}


def blocks(*values):
    """The section of a run on whose classifier the methods rank as METHODS does."""
    methods = {}
    for place, method in enumerate((*METHODS, "ivra")):
        methods[method] = task_reports.metrics(aopc_comprehensiveness=0.9 - place / 10)
    run = task_reports.run(*methods)
    return twin_blocks(run, [task_reports.task("films", methods)], {"films": document(*values)})


def test_nothing_without_a_twin():
    assert twin_blocks(task_reports.run(), [task_reports.task()], {}) == []


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

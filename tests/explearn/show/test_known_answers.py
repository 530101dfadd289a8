"""The table of known answers."""

from operator import attrgetter

import numpy as np
from task_reports import metrics, run, task

from explearn.report.task_sections import known_answers

METHODS = ("marker_in_domain", "rollout", "random", "ivra")
SHARES = {
    "marker_in_domain": np.linspace(0.4, 0.6, 12),
    "rollout": np.linspace(0.8, 0.9, 12),
    "random": np.linspace(0.45, 0.55, 12),
    "ivra": np.linspace(0.9, 1.0, 12),
}
RUN = run(*METHODS, options={"marker_in_domain": {"protocol": "in_domain"}})


def mosaics(name):
    figures = {method: metrics(mosaics_chance=0.48) for method in METHODS}
    return task(name, figures, by_text={"mosaics": SHARES})


def planted():
    right = dict.fromkeys(METHODS, np.array([1.0, 0.5, np.nan, 1.0] * 3))
    figures = {method: metrics(plausibility_texts=9) for method in METHODS}
    return task("order", figures, by_text={"text_f1_topk": {**right, "random": right["random"] * 0}})


def by_method(board, part):
    """Method -> a part of each of its cells."""
    rows = zip(board.methods, board.rows, strict=True)
    return {method: list(map(attrgetter(part), row[1:])) for method, row in rows}


def test_mosaics_of_all_tasks_are_put_together_and_planted_words_have_a_column():
    board, note = known_answers(RUN, [mosaics("films"), mosaics("meals")], [planted()])
    assert [column.title for column in board.columns] == ["Method", "Mosaics ↑", "Planted: order ↑"]
    rows = by_method(board, "text")
    # Its marks were the planted words.
    assert rows == {
        "marker_in_domain": ["0.500", "–"],
        "rollout": ["0.850", "0.833"],
        "random": ["0.500", "0.000"],
        "ivra": ["0.950", "0.833"],
    }
    assert "equal scores: 0.480" in note.text and "on the 9 texts" in note.text


def test_a_method_with_its_own_classifier_is_not_the_best_in_mosaics_but_can_be_in_planted_words():
    board, _ = known_answers(RUN, [mosaics("films")], [planted()])
    marks = by_method(board, "mark")
    assert marks["rollout"][0] == "best" and marks["ivra"][0] == ""
    assert {marks["rollout"][1], marks["ivra"][1]} <= {"best", "tied"} and marks["random"][1] == ""


def test_nothing_measured_shows_nothing():
    assert known_answers(RUN, [task(methods=dict.fromkeys(METHODS, metrics()))], []) == []

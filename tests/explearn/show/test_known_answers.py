"""Tests with a known answer: mosaics and planted words."""

import numpy as np
from task_reports import metrics, run, task

from explearn.report.figures.style import svg
from explearn.report.known_answers import known_answers
from explearn.report.page import report_blocks
from explearn.show.blocks import Picture, Table

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
    figures = dict.fromkeys(METHODS, metrics(0.833, 0.7, 0.9, plausibility_texts=9))
    figures["random"] = metrics(0.0, plausibility_texts=9)
    return task("order", figures, by_text={"text_f1_topk": {**right, "random": right["random"] * 0}})


def figures(answer):
    return {method: round(found[answer.metric.name], 3) for method, found in answer.figures.items()}


def test_mosaics_of_all_tasks_are_put_together_and_planted_words_are_those_of_their_task():
    shares, order = known_answers(RUN, [mosaics("films"), mosaics("meals")], [planted()])
    assert figures(shares) == {"marker_in_domain": 0.5, "rollout": 0.85, "random": 0.5, "ivra": 0.95}
    # Marker's marks in its domain were the planted words.
    assert figures(order) == {"rollout": 0.833, "random": 0.0, "ivra": 0.833}
    # The same interval as in metrics.json.
    assert list(order.figures["ivra"].values()) == [0.833, 0.7, 0.9]
    assert (round(shares.chance, 3), order.chance) == (0.48, 0.0)
    assert "equal scores: 0.480" in shares.meaning and "on the 9 texts" in order.meaning


def test_a_method_with_its_own_classifier_is_not_the_best_in_mosaics_but_can_be_in_planted_words():
    shares, order = known_answers(RUN, [mosaics("films")], [planted()])
    best, tied = shares.standing
    assert "rollout" in best and "ivra" not in {*best, *tied}
    best, tied = order.standing
    assert {"rollout", "ivra"} <= {*best, *tied} and "random" not in {*best, *tied}


def test_nothing_measured_shows_nothing():
    assert known_answers(RUN, [task(methods=dict.fromkeys(METHODS, metrics()))], []) == []


def test_the_first_picture_and_the_first_table_have_known_answers_beside_agreement():
    blocks = report_blocks(RUN, [mosaics("films"), mosaics("meals")], (), [planted()])
    board = next(block for block in blocks if isinstance(block, Table))
    assert [column.title for column in board.columns][-3:-1] == ["Mosaics ↑", "Planted: order ↑"]
    cells = dict(zip(board.methods, board.rows, strict=True))
    assert cells["rollout"][-2].note == "0.70 to 0.90" and cells["marker_in_domain"][-2].text == "–"
    picture = next(block for block in blocks if isinstance(block, Picture))
    assert "rollout: Mosaics 0.850 (" in svg(picture) and "rollout: Planted: order 0.833 (0.700" in svg(picture)

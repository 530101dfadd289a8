"""What the report says about AML's methods, which watch a metric."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from task_reports import metrics, task

from explearn.methods.aml.report import SHOWN_TRIALS, aml_blocks, study_figure
from explearn.show.figures.search_plots import write_study_plots


def trial(number: int, metric: float | None, state: str = "complete") -> dict[str, Any]:
    weights = {"prediction_weight": 0.1 * number, "size_weight": 0.5, "inverse_weight": 0.25}
    return {"number": number, **weights, "state": state, "metric": metric, "by_epoch": []}


def trained(metric: str = "log_odds", trials: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {
        "metric": metric,
        "weights": {"prediction": 1.0, "size": 0.25, "inverse": 0.5},
        "epochs": [{"epoch": i, "metric": value} for i, value in enumerate((-0.5, -1.5, -1.0))],
        "trials": list(trials),
    }


def test_training_names_the_weights_and_the_epoch_that_was_kept() -> None:
    """Of log-odds the smallest is best: epoch 1."""
    (found,) = aml_blocks(task(notes={"paml": trained()}))
    assert "prediction 1.00, size 0.25, inverse 0.50 (given)" in found.sentence
    assert "was -0.500 before training and -1.500 after epoch 1 of 2" in found.sentence
    assert not found.rows and not found.figure
    (found,) = aml_blocks(task(notes={"paml": trained("comprehensiveness")}))
    assert found.sentence.startswith("**Not trained:** paml is the model as it was before training. ")
    assert "none of 2 epochs was better" in found.sentence


def test_a_search_shows_its_best_trials_and_its_figure(tmp_path: Path) -> None:
    trials = (*(trial(i, -float(i % 7)) for i in range(12)), trial(12, -9.0, "pruned"), trial(13, None, "failed"))
    reported = task(notes={"paml": trained(trials=trials)})
    (found,) = aml_blocks(reported)
    assert "the best of 13 trials" in found.sentence
    few = (trial(0, None, "pruned"), trial(1, 0.5, "pruned"), trial(2, 0.25))
    (sorted_so,) = aml_blocks(task(notes={"paml": trained(trials=few)}))
    assert [row[0] for row in sorted_so.rows] == ["2", "1", "0"]
    assert len(found.rows) == SHOWN_TRIALS
    assert [row[0] for row in found.rows[:3]] == ["6", "5", "4"]
    assert found.figure == study_figure("films", "paml")
    write_study_plots(tmp_path, [reported, task("meals", notes={"paml": trained()})])
    assert [path.name for path in tmp_path.iterdir()] == [found.figure]
    text = "".join(ElementTree.parse(tmp_path / found.figure).getroot().itertext())
    assert "best so far" in text and "pruned" in text


def test_what_chose_its_maps_by_a_metric_says_so_with_its_passes() -> None:
    judged = {
        "comprehensiveness": {"comprehensiveness": 0.5, "log_odds": -1.0},
        "log_odds": {"comprehensiveness": 0.25, "log_odds": -2.0},
    }
    notes = {"optimised_for": "comprehensiveness", "steps": 7.5, "best_step": 3.0, "judged": judged}
    methods = {"faml": metrics(forward_passes=123.4, backward_passes=30.2)}
    (found,) = aml_blocks(task(methods=methods, notes={"faml": notes}))
    assert "looks at the metric while it explains" in found.sentence
    assert "It took 7.5 steps per text" in found.sentence
    assert "123 forward and 30 backward passes" in found.sentence
    assert list(found.headings) == ["Map chosen by", "comprehensiveness ↑", "log_odds ↓"]
    assert found.rows == [["comprehensiveness", "0.500", "-1.000"], ["log_odds", "0.250", "-2.000"]]


def test_methods_without_notes_get_no_remark() -> None:
    assert aml_blocks(task()) == []

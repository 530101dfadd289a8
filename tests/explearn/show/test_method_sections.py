"""What the folders of AML, IvRA and the consensus say of them in a report."""

import numpy as np
import pytest
from task_reports import metrics, run, task

from explearn.methods.aml.report import report as aml_report
from explearn.methods.consensus.report import feature_weights
from explearn.methods.ivra.report import report as ivra_report
from explearn.report.columns import used_marks
from explearn.report.figures.style import svg
from explearn.show.blocks import Fold, Paragraph, Picture, Table, walk


def tables(blocks):
    return [block for block in walk(blocks) if isinstance(block, Table)]


class TestAML:
    def trained(self):
        """Of log-odds the smallest is best: epoch 1."""
        return {
            "metric": "log_odds",
            "weights": {"prediction": 1.0, "size": 0.25},
            "epochs": [{"metric": value} for value in (-0.5, -1.5, -1.0)],
            "best_epoch": 1,
            "trials": 0,
        }

    def test_training_names_the_weights_and_the_epoch_that_was_kept(self):
        (table,) = tables(aml_report(run(), [task(notes={"paml": self.trained()})]))
        assert table.rows == [["paml", "films", "prediction 1.00, size 0.25", "log_odds", "-0.500", "-1.500", "1 of 2"]]

    def test_what_chose_its_maps_by_a_metric_says_so_with_its_passes(self):
        judged = {name: {"comprehensiveness": 0.5, "log_odds": -1.0} for name in ("comprehensiveness", "log_odds")}
        notes = {"optimised_for": "comprehensiveness", "steps": 7.5, "judged": judged}
        methods = {"faml": metrics(forward_passes=123.4, backward_passes=30.2)}
        blocks = aml_report(run(), [task(methods=methods, notes={"faml": notes})])
        (fold,) = (block for block in blocks if isinstance(block, Fold))
        assert fold.summary.startswith(
            "faml on films: 7.5 steps per text, best by comprehensiveness; 123 forward and 30"
        )
        (table,) = fold.blocks
        assert [column.title for column in table.columns][2:] == ["Map chosen by", "Comprehensiveness ↑", "Log-odds ↓"]
        assert table.rows[1] == ["faml", "films", "log_odds", "0.500", "-1.000"]


def test_ivra_s_coefficients_are_heat_maps():
    coefficients = {"heads": np.eye(3, 4).tolist(), "layers": [0.1, 0.2, 0.3]}
    trained = {"criteria": ["comp", "suff"], "trained_epochs": 3, "best_epoch": 2, "coefficients": coefficients}
    _, training, picture = ivra_report(run(), [task(notes={"consensus": {"coefficients": {}}, "ivra": trained})])
    assert isinstance(training, Paragraph) and training.text.endswith("ivra, films: for comp, suff, epoch 2 of 3.")
    assert isinstance(picture, Picture)
    assert "ivra, films" in svg(picture) and "layers" in svg(picture)


def test_the_accuracy_of_a_method_s_own_classifier_stands_under_the_table():
    sentence = used_marks(run("ivra"), [task(notes={"ivra": {"accuracy": [0.9, 0.85]}})])
    assert sentence.endswith("and of the task's, on validation texts: ivra on films 0.850 (0.900).")


class TestConsensus:
    FEATURES = ("gae_z", "gae_rank", "gae_share", "mean_rank", "length")

    def notes(self, first):
        """Coefficients that rise by 0.1 from `first`, each with an interval of 0.5 to either side."""
        coefficients = {name: first + 0.1 * number for number, name in enumerate(self.FEATURES)}
        ends = {name: [value - 0.5, value + 0.5] for name, value in coefficients.items()}
        return {"coefficients": coefficients, "intervals": ends, "signals": ["gae"]}

    def test_weights_are_means_over_the_tasks(self):
        weight = feature_weights([self.notes(1.0), self.notes(2.0)])["gae_rank"]
        assert (weight.mean, weight.interval) == (pytest.approx(1.6), pytest.approx((1.1, 2.1)))

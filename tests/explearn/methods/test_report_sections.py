"""What the folders of AML, IvRA and the consensus say of them in a report."""

import numpy as np
import pytest

from explearn.methods.aml.report import section as aml_section
from explearn.methods.consensus.report import section as consensus_section
from explearn.methods.consensus.report import weight
from explearn.methods.ivra.report import section as ivra_section
from explearn.report.figures.style import svg
from explearn.show.blocks import Paragraph, Picture, Table, bold, walk


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

    def test_training_names_the_weights_and_what_was_kept(self):
        (table,) = tables(aml_section({"films": {"paml": self.trained()}}))
        assert table.rows == [["paml", "films", "prediction 1.00, size 0.25", "log_odds", "-0.500", "-1.500"]]

    def test_maps_that_were_chosen_by_one_metric_are_shown_with_all(self):
        judged = {name: {"comprehensiveness": 0.5, "log_odds": -1.0} for name in ("comprehensiveness", "log_odds")}
        notes = {"optimised_for": "comprehensiveness", "steps": 7.5, "judged": judged}
        (table,) = tables(aml_section({"films": {"faml": notes}}))
        assert [column.title for column in table.columns][2:] == ["Map chosen by", "Comprehensiveness ↑", "Log-odds ↓"]
        assert table.rows[1] == ["faml", "films", "log_odds", "0.500", "-1.000"]


def test_ivra_s_coefficients_are_heat_maps():
    coefficients = {"heads": np.eye(3, 4).tolist(), "layers": [0.1, 0.2, 0.3]}
    trained = {"criteria": ["comp", "suff"], "coefficients": coefficients}
    blocks = ivra_section({"films": {"consensus": {"coefficients": {}}, "ivra": trained}})
    (training,) = (block for block in walk(blocks) if isinstance(block, Paragraph))
    (picture,) = (block for block in walk(blocks) if isinstance(block, Picture))
    assert training.text.endswith("ivra, films: for comp, suff.")
    assert "ivra, films" in svg(picture) and "layers" in svg(picture)


def test_a_run_without_these_methods_has_no_section():
    notes = {"films": {"marker": {"best_epoch": 3}}}
    assert [section(notes) for section in (aml_section, ivra_section, consensus_section)] == [[], [], []]


class TestConsensus:
    FEATURES = ("gae_z", "gae_rank", "gae_share", "mean_rank", "length")

    def notes(self, first):
        """Coefficients that rise by 0.1 from `first`, each with an interval of 0.5 to either side."""
        coefficients = {name: first + 0.1 * number for number, name in enumerate(self.FEATURES)}
        ends = {name: [value - 0.5, value + 0.5] for name, value in coefficients.items()}
        return {"coefficients": coefficients, "intervals": ends, "signals": ["gae"]}

    def test_weights_are_means_over_the_tasks(self):
        cell = weight([self.notes(1.0), self.notes(2.0)], "gae_rank")
        assert cell.value == pytest.approx(1.6) and cell.note == "+1.10 to +2.10"
        assert cell.text == bold("+1.60"), "its interval excludes zero"
        assert weight([self.notes(0.3)], "gae_z").text == "+0.30"

    def test_weights_that_came_with_the_package_are_no_training_of_the_run(self):
        assert tables(consensus_section({"films": {"consensus": self.notes(1.0)}}))
        assert consensus_section({"films": {"consensus": {**self.notes(1.0), "shipped": "2026"}}}) == []

"""The search for AML's settings."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from aml_cases import QUICK, examples, one_word_classifier

from explearn.core.errors import DataError, ParamsError
from explearn.methods.aml.loss import Weights
from explearn.methods.aml.paml import PAML
from explearn.methods.aml.training import DivergedError
from explearn.methods.aml.weight_search import search
from explearn.methods.listed_task import ListedTask


class TestSearch:
    @staticmethod
    def run(folder: Path, trials: int, calls: list[Weights], **identity: Any) -> Any:
        """The best weights are (1, 0, 0.5)."""

        def objective(weights: Weights, report: Any) -> float:
            calls.append(weights)
            for epoch in range(1, 4):
                value = -abs(weights.prediction - 1) - weights.size - abs(weights.inverse - 0.5) - 1 / epoch
                report(epoch, value)
            return value

        return search(
            objective,
            trials,
            larger_is_better=True,
            first=Weights(0.5, 0.5, 0.5),
            seed=1,
            file=folder / "study.log",
            identity={"of": "a test", **identity},
        )

    def test_it_starts_with_the_given_weights_and_finds_better_ones(self, tmp_path: Path) -> None:
        calls: list[Weights] = []
        best, trials = self.run(tmp_path, 25, calls)
        assert calls[0] == Weights(0.5, 0.5, 0.5)
        assert abs(best.prediction - 1) + best.size + abs(best.inverse - 0.5) < 0.9
        assert len(trials) == len(calls) == 25
        assert any(trial.state == "pruned" and len(trial.by_epoch) < 3 for trial in trials)
        complete = [trial for trial in trials if trial.state == "complete"]
        found = max(complete, key=lambda trial: trial.metric or -9)
        assert (found.prediction_weight, found.size_weight) == (best.prediction, best.size)

    def test_a_search_that_was_broken_off_goes_on(self, tmp_path: Path) -> None:
        whole: list[Weights] = []
        expected = self.run(tmp_path / "whole", 9, whole)
        parts: list[Weights] = []
        self.run(tmp_path / "parts", 4, parts)
        found = self.run(tmp_path / "parts", 9, parts)
        assert parts == whole
        assert found == expected

    def test_a_first_trial_that_was_broken_off_is_made_again(self, tmp_path: Path) -> None:
        def broken(weights: Weights, report: Any) -> float:
            report(1, 0.0)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            search(
                broken,
                3,
                larger_is_better=True,
                first=Weights(0.5, 0.5, 0.5),
                seed=1,
                file=tmp_path / "study.log",
                identity={"of": "a test"},
            )
        calls: list[Weights] = []
        _, trials = self.run(tmp_path, 3, calls)
        whole: list[Weights] = []
        self.run(tmp_path / "whole", 3, whole)
        assert calls == whole
        assert [(trial.state, trial.metric is None) for trial in trials] == [("failed", True)] + [
            ("complete", False)
        ] * 3

    def test_a_pruned_trial_tells_the_best_of_its_epochs(self, tmp_path: Path) -> None:
        _, trials = self.run(tmp_path, 25, [])
        pruned = [trial for trial in trials if trial.state == "pruned"]
        assert pruned and all(trial.metric == max(trial.by_epoch) for trial in trials)

    def test_a_journal_s_last_line_that_was_cut_off(self, tmp_path: Path) -> None:
        calls: list[Weights] = []
        self.run(tmp_path, 3, calls)
        file = tmp_path / "study.log"
        file.write_bytes(file.read_bytes()[:-15])
        for trials in (4, 5):  # the third is made again: the line said that it was complete
            self.run(tmp_path, trials, calls)
        assert len(calls) == 6

    @pytest.mark.parametrize("left", ["", "{", '{"op_code":0,"wor'])
    def test_a_first_line_that_was_cut_off(self, tmp_path: Path, left: str) -> None:
        (tmp_path / "study.log").write_text(left)
        calls: list[Weights] = []
        self.run(tmp_path, 2, calls)
        assert len(calls) == 2

    @pytest.mark.parametrize(
        "content",
        [
            "trials, in my own words\nand more\n",
            "trials, in my own words",
            "trials, in my own words\n{",
            '{"mine": 1}',
            '{"mine": 1}\n{"mine": 2}',
        ],
    )
    def test_a_file_that_is_no_journal(self, tmp_path: Path, content: str) -> None:
        (tmp_path / "study.log").write_text(content)
        with pytest.raises(DataError, match=r"study\.log: not a journal of trials"):
            self.run(tmp_path, 1, [])
        assert (tmp_path / "study.log").read_text() == content

    def test_other_words_start_another_search(self, tmp_path: Path) -> None:
        of, file = one_word_classifier(), tmp_path / "study.log"
        rows = examples(8, seed=1)
        changed = [dataclasses.replace(rows[0], words=("the", "warm", "dog")), *rows[1:]]
        for texts, expected in ((rows, 1), (rows, 1), (changed, 2)):
            PAML(**QUICK, trials=1).fit(ListedTask(of, texts, examples(4, seed=2), search_file=file))
            assert len(set(re.findall(r'"study_name":"(\w+)"', file.read_text()))) == expected

    def test_another_identity_is_another_study_in_the_same_file(self, tmp_path: Path) -> None:
        calls: list[Weights] = []
        self.run(tmp_path, 2, calls)
        self.run(tmp_path, 2, calls)
        assert len(calls) == 2
        self.run(tmp_path, 2, calls, epochs=3)
        assert len(calls) == 4

    def test_a_term_that_was_left_out_stays_out(self, tmp_path: Path) -> None:
        calls: list[Weights] = []

        def objective(weights: Weights, report: Any) -> float:
            calls.append(weights)
            return weights.prediction - weights.size

        best, trials = search(
            objective,
            8,
            larger_is_better=True,
            first=Weights(0.5, 0.5, 0.0),
            seed=1,
            file=tmp_path / "study.log",
            identity={"of": "a test"},
        )
        assert calls[0] == Weights(0.5, 0.5, 0.0)
        assert len({weights.size for weights in calls}) == 8
        assert {weights.inverse for weights in calls} == {best.inverse} == {0.0}
        assert {trial.inverse_weight for trial in trials} == {0.0}
        self.run(tmp_path, 9, calls := [])
        assert len(calls) == 9 and all(weights.inverse for weights in calls)

    def test_a_trial_that_diverges_is_pruned_and_the_search_goes_on(self, tmp_path: Path) -> None:
        def objective(weights: Weights, report: Any) -> float:
            if weights.prediction > limit:
                raise DivergedError("too much")
            return weights.prediction

        options: dict[str, Any] = {"larger_is_better": True, "first": Weights(0.5, 0.5, 0.5), "seed": 1, "identity": {}}
        limit = 0.6
        best, trials = search(objective, 12, file=tmp_path / "study.log", **options)
        states = {trial.state: trial for trial in trials}
        assert len(trials) == 12 and set(states) == {"complete", "pruned"}
        assert 0.5 <= best.prediction <= 0.6 and states["pruned"].metric is None
        limit = -1.0
        with pytest.raises(DivergedError, match=r"none of 3 trials came to its end \(the last: too much\)"):
            search(objective, 3, file=tmp_path / "other.log", **options)

    def test_paml_trains_with_the_weights_found(self, tmp_path: Path) -> None:
        of = one_word_classifier()
        paml = PAML(**QUICK, trials=2)
        with pytest.raises(ParamsError, match="trials: got 2 without a file"):
            paml.fit(ListedTask(of, examples(8, seed=1), examples(4, seed=2)))
        paml.fit(ListedTask(of, examples(8, seed=1), examples(4, seed=2), search_file=tmp_path / "study.log"))
        assert len(paml.study) == 2
        best = max((t for t in paml.study if t.state == "complete"), key=lambda t: t.metric or -9)
        assert paml.weights == Weights(best.prediction_weight, best.size_weight, best.inverse_weight)
        assert max(epoch.metric for epoch in paml.history) == pytest.approx(best.metric, abs=1e-6)
        paml.save_pretrained(tmp_path / "it")
        loaded = PAML.from_pretrained(tmp_path / "it")
        assert (loaded.weights, loaded.study) == (paml.weights, paml.study)

"""The search for AML's settings."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import optuna
import pytest
from aml_cases import QUICK, examples, one_word_classifier, task_of

from explearn.core.errors import ParamsError
from explearn.methods.aml.loss import DivergedError, Weights
from explearn.methods.aml.paml import PAML
from explearn.methods.aml.weight_search import NAMES, search
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
        assert {trial["state"] for trial in trials} == {"complete", "pruned"}
        complete = [trial for trial in trials if trial["state"] == "complete"]
        actual = max(complete, key=lambda trial: trial["metric"])
        assert (actual["prediction_weight"], actual["size_weight"]) == (best.prediction, best.size)

    def test_a_search_that_was_broken_off_goes_on(self, tmp_path: Path) -> None:
        whole: list[Weights] = []
        expected = self.run(tmp_path / "whole", 5, whole)
        parts: list[Weights] = []
        self.run(tmp_path / "parts", 2, parts)
        actual = self.run(tmp_path / "parts", 5, parts)
        assert parts == whole
        assert actual == expected

    def test_other_texts_start_another_search(self, tmp_path: Path) -> None:
        of, file = one_word_classifier(), tmp_path / "study.log"
        rows = examples(8, seed=1)
        changed = [dataclasses.replace(rows[0], words=("the", "warm", "dog")), *rows[1:]]
        for texts, expected in ((rows, 1), (rows, 1), (changed, 2)):
            PAML(**QUICK, trials=1).fit(ListedTask(of, texts, examples(4, seed=2), search_file=file))
            assert len(optuna.get_all_study_names(f"sqlite:///{file}")) == expected

    def test_a_trial_that_diverges_is_pruned_and_the_search_goes_on(self, tmp_path: Path) -> None:
        def objective(weights: Weights, report: Any) -> float:
            if weights.prediction > limit:
                raise DivergedError("too much")
            return weights.prediction

        options: dict[str, Any] = {"larger_is_better": True, "first": Weights(0.5, 0.5, 0.5), "seed": 1, "identity": {}}
        limit = 0.6
        best, trials = search(objective, 12, file=tmp_path / "study.log", **options)
        states = {trial["state"]: trial for trial in trials}
        assert len(trials) == 12 and set(states) == {"complete", "pruned"}
        assert 0.5 <= best.prediction <= 0.6 and states["pruned"]["metric"] is None
        limit = -1.0
        with pytest.raises(DivergedError, match="none of 3 trials came to its end"):
            search(objective, 3, file=tmp_path / "other.log", **options)

    def test_paml_trains_with_the_weights_found(self, tmp_path: Path) -> None:
        of = one_word_classifier()
        paml = PAML(**QUICK, trials=2)
        with pytest.raises(ParamsError, match="trials: got 2 without a file"):
            paml.fit(task_of(of))
        paml.fit(task_of(of, search_file=tmp_path / "study.log"))
        assert len(paml.study) == 2
        best = max((t for t in paml.study if t["state"] == "complete"), key=lambda t: t["metric"])
        assert paml.weights == Weights(*(best[name] for name in NAMES))
        assert max(epoch["metric"] for epoch in paml.history) == pytest.approx(best["metric"], abs=1e-6)
        paml.save_pretrained(tmp_path / "it")
        loaded = PAML.from_pretrained(tmp_path / "it")
        assert (loaded.weights, loaded.study) == (paml.weights, paml.study)

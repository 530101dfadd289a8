"""The search for AML's settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aml_cases import QUICK, one_word_classifier, task_of

from explearn.methods.aml.loss import DivergedError, Weights
from explearn.methods.aml.paml import PAML
from explearn.methods.aml.weight_search import NAMES, search


class TestSearch:
    @staticmethod
    def run(trials: int, calls: list[Weights]) -> Any:
        """The best weights are (1, 0, 0.5)."""

        def objective(weights: Weights, report: Any) -> float:
            calls.append(weights)
            for epoch in range(1, 4):
                value = -abs(weights.prediction - 1) - weights.size - abs(weights.inverse - 0.5) - 1 / epoch
                report(epoch, value)
            return value

        return search(objective, trials, larger_is_better=True, first=Weights(0.5, 0.5, 0.5), seed=1)

    def test_it_starts_with_the_given_weights_and_finds_better_ones(self) -> None:
        calls: list[Weights] = []
        best, trials = self.run(25, calls)
        assert calls[0] == Weights(0.5, 0.5, 0.5)
        assert abs(best.prediction - 1) + best.size + abs(best.inverse - 0.5) < 0.9
        assert len(trials) == len(calls) == 25
        assert {trial["state"] for trial in trials} == {"complete", "pruned"}
        complete = [trial for trial in trials if trial["state"] == "complete"]
        actual = max(complete, key=lambda trial: trial["metric"])
        assert (actual["prediction_weight"], actual["size_weight"]) == (best.prediction, best.size)

    def test_a_trial_that_diverges_is_pruned_and_the_search_goes_on(self) -> None:
        def objective(weights: Weights, report: Any) -> float:
            if weights.prediction > limit:
                raise DivergedError("too much")
            return weights.prediction

        options: dict[str, Any] = {"larger_is_better": True, "first": Weights(0.5, 0.5, 0.5), "seed": 1}
        limit = 0.6
        best, trials = search(objective, 12, **options)
        states = {trial["state"]: trial for trial in trials}
        assert len(trials) == 12 and set(states) == {"complete", "pruned"}
        assert 0.5 <= best.prediction <= 0.6 and states["pruned"]["metric"] is None
        limit = -1.0
        with pytest.raises(DivergedError, match="none of 3 trials came to its end"):
            search(objective, 3, **options)

    def test_paml_trains_with_the_weights_found(self, tmp_path: Path) -> None:
        of = one_word_classifier()
        paml = PAML(**QUICK, trials=2)
        paml.fit(task_of(of))
        assert len(paml.study) == 2
        best = max((t for t in paml.study if t["state"] == "complete"), key=lambda t: t["metric"])
        assert paml.weights == Weights(*(best[name] for name in NAMES))
        assert max(epoch["metric"] for epoch in paml.history) == pytest.approx(best["metric"], abs=1e-6)
        paml.save_pretrained(tmp_path / "it")
        loaded = PAML.from_pretrained(tmp_path / "it")
        assert (loaded.weights, loaded.study) == (paml.weights, paml.study)

"""The search for AML's settings."""

from unittest.mock import patch

import pytest
from aml_cases import QUICK, one_word_classifier, task_of

from explearn.methods.aml.loss import DivergedError, Weights
from explearn.methods.aml.paml import PAML, search_weights


class TestSearch:
    @staticmethod
    def run(trials, calls):
        """The best weights are (1, 0, 0.5)."""

        def objective(weights, report):
            calls.append(weights)
            for epoch in range(1, 4):
                value = -abs(weights.prediction - 1) - weights.size - abs(weights.inverse - 0.5) - 1 / epoch
                report(epoch, value)
            return value

        return search_weights(objective, trials, Weights(0.5, 0.5, 0.5), seed=1)

    def test_it_starts_with_the_given_weights_and_finds_better_ones(self):
        calls = []
        best = self.run(25, calls)
        assert calls[0] == Weights(0.5, 0.5, 0.5)
        assert abs(best.prediction - 1) + best.size + abs(best.inverse - 0.5) < 0.9
        assert len(calls) == 25 and best in calls

    def test_a_trial_that_diverges_is_pruned_and_the_search_goes_on(self):
        def objective(weights, report):
            if weights.prediction > limit:
                raise DivergedError("too much")
            return weights.prediction

        options = {"first": Weights(0.5, 0.5, 0.5), "seed": 1}
        limit = 0.6
        best = search_weights(objective, 12, **options)
        assert 0.5 <= best.prediction <= 0.6
        limit = -1.0
        with pytest.raises(DivergedError, match="none of 3 trials was completed"):
            search_weights(objective, 3, **options)

    def test_paml_trains_with_the_weights_found(self, tmp_path):
        classifier = one_word_classifier()
        paml = PAML(**QUICK, trials=2)
        found = []

        def search_and_note(*arguments, **options):
            found.append(search_weights(*arguments, **options))
            return found[-1]

        with patch("explearn.methods.aml.paml.search_weights", search_and_note):
            paml.learn(task_of(classifier))
        assert found == [paml.weights]
        paml.save_pretrained(tmp_path / "it")
        assert PAML.from_pretrained(tmp_path / "it").weights == paml.weights

"""Aiming the consensus at the model: removal effects, how they mix with marks, and what a run needs for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from numpy.typing import NDArray

from explearn.core.errors import ParamsError
from explearn.core.records import Example
from explearn.lens.word_signals import SIGNALS, WordSignals, read_signals
from explearn.methods.consensus.explainer import Consensus
from explearn.methods.consensus.model import MarkedText, WordModel, fit_model, mixture, removal_targets
from explearn.methods.consensus.params import ConsensusParams
from explearn.methods.consensus.signals import with_removal, write_signals
from explearn.methods.consensus.word_features import WORD_COLUMNS
from explearn.methods.registry import get_explainer
from explearn_study.sections import SignalsParams

MARKS, EFFECTS = SIGNALS.index("gae"), SIGNALS.index("attn_lrp")


def texts_of(seed: int, count: int = 60, words: int = 12, measured: int | None = None) -> list[MarkedText]:
    """Texts whose marks are what one signal says, and whose removal effects are what another says."""
    generator = np.random.default_rng(seed)
    found = []
    for number in range(count):
        scores = generator.normal(size=(words, len(SIGNALS))).astype(np.float32)
        mask = np.zeros(words, dtype=bool)
        mask[np.argsort(-scores[:, MARKS])[:2]] = True
        known = measured is None or number < measured
        removal = scores[:, EFFECTS].copy() if known else None
        text = WordSignals(str(number), ("word",) * words, "yes", 0.9, scores, "yes", removal)
        found.append(MarkedText(text, mask.tolist()))
    return found


def model_at(aim: float, **options: Any) -> WordModel:
    tasks = {"one": texts_of(1), "two": texts_of(2)}
    return fit_model(tasks, ConsensusParams(bootstrap=0, aim=aim, **options), 0)


def agreement(model: WordModel, column: int) -> float:
    """Mean correlation of the model's logits with a signal, over texts that it has not seen."""
    rows = [(model.logits(model.features(t.signals)), t.signals.scores[:, column]) for t in texts_of(3)]
    return float(np.mean([np.corrcoef(*row)[0, 1] for row in rows]))


def missing(words: int) -> NDArray[np.float32]:
    """AttnLRP's scores where there are none."""
    return np.full(words, np.nan, np.float32)


class TestMixture:
    def test_targets_by_hand(self) -> None:
        # Mean 1, standard deviation 1: z is -1 and 1.
        low, high = removal_targets(np.array([0.0, 2.0], np.float32), missing(2)).tolist()
        assert low == pytest.approx(1 / (1 + np.exp(3.6)))
        assert high == pytest.approx(1 / (1 + np.exp(-0.4)))

    def test_the_mean_with_attn_lrp_by_hand(self) -> None:
        effects, relevance = np.array([0.0, 2.0, 1.0], np.float32), np.array([0.0, 0.0, 3.0], np.float32)
        # z: -1.2247, 1.2247, 0 and -0.7071, -0.7071, 1.4142; the mean has standard deviation 0.7071.
        z = np.array([-0.9659, 0.2588, 0.7071]) / 0.7071
        np.testing.assert_allclose(removal_targets(effects, relevance), 1 / (1 + np.exp(-2 * (z - 0.8))), atol=1e-4)

    def test_without_attn_lrp_the_effects_alone_are_learned_from(self) -> None:
        effects = np.array([0.0, 2.0, 1.0], np.float32)
        z = np.array([-1.2247, 1.2247, 0.0])
        for relevance in (missing(3), np.array([5.0, np.nan, 1.0], np.float32)):
            found = removal_targets(effects, relevance)
            np.testing.assert_allclose(found, 1 / (1 + np.exp(-2 * (z - 0.8))), atol=1e-4)

    def test_weights_by_hand(self) -> None:
        marks, targets = np.array([True, False, False]), np.array([0.2, 0.6, np.nan])
        found = mixture(marks, targets, 0.25)
        np.testing.assert_allclose(found.positive, [0.75 * 0.5 + 0.25 * 0.125, 0.25 * 0.375, 0])
        negative = [0.25 * 0.5 * 0.8 / 1.2, 0.75 * 0.25 + 0.25 * 0.5 * 0.4 / 1.2, 0.75 * 0.25]
        np.testing.assert_allclose(found.negative, negative)
        np.testing.assert_allclose(found.target, [0.75 + 0.25 * 0.2, 0.25 * 0.6, 0])
        np.testing.assert_allclose(found.known, [1, 1, 0.75])


class TestLearning:
    def test_the_aim_moves_it_from_people_to_the_model(self) -> None:
        models = [model_at(aim) for aim in (0.0, 0.5, 1.0)]
        people, model = ([agreement(one, column) for one in models] for column in (MARKS, EFFECTS))
        assert people[0] > people[1] > people[2]
        assert model[0] < model[1] < model[2]
        assert abs(model[0]) < 0.2 and abs(people[2]) < 0.2

    def test_at_zero_removal_effects_change_nothing(self) -> None:
        options = ConsensusParams(bootstrap=0)
        blind = {"one": [MarkedText(replace(t.signals, removal=None), t.mask) for t in texts_of(1)]}
        one, two = fit_model({"one": texts_of(1)}, options, 0), fit_model(blind, options, 0)
        assert one.weights.tolist() == two.weights.tolist()
        assert one.calibration == two.calibration

    def test_at_one_the_word_itself_plays_no_part(self) -> None:
        found = fit_model({"one": texts_of(1)}, ConsensusParams(bootstrap=2, aim=1), 0)
        assert {found.coefficients()[name] for name in WORD_COLUMNS} == {0.0}
        assert found.coefficients()["attn_lrp_z"] > 0
        assert found.coefficient_intervals()["position"] == (0.0, 0.0)

    def test_at_one_marks_change_nothing(self) -> None:
        options = ConsensusParams(bootstrap=0, aim=1)
        unmarked = {"one": [MarkedText(t.signals, [False] * len(t.mask)) for t in texts_of(1)]}
        one, two = fit_model({"one": texts_of(1)}, options, 0), fit_model(unmarked, options, 0)
        assert one.weights.tolist() == two.weights.tolist()

    @pytest.mark.parametrize("aim", [0.5, 1.0])
    def test_probabilities_have_the_density_of_what_it_is_taught(self, aim: float) -> None:
        model = model_at(aim)
        mean = np.mean([model.probabilities(model.features(t.signals)).mean() for t in texts_of(4)])
        soft = np.mean([removal_targets(t.signals.scores[:, EFFECTS], missing(12)).mean() for t in texts_of(4)])
        assert mean == pytest.approx((1 - aim) * 2 / 12 + aim * soft, abs=0.03)

    def test_the_bootstrap_bounds_mixed_coefficients(self) -> None:
        options = ConsensusParams(bootstrap=10, aim=0.5)
        low, high = fit_model({"one": texts_of(1)}, options, 0).coefficient_intervals()["attn_lrp_z"]
        assert 0 < low < high


class TestBadInput:
    def test_no_removal_effects(self) -> None:
        blind = [MarkedText(replace(t.signals, removal=None), t.mask) for t in texts_of(1)]
        with pytest.raises(ParamsError, match=r"aim: got 0\.5, .* task 'two' has none; set signals\.removal_samples"):
            Consensus(aim=0.5, bootstrap=0).fit_tasks({"one": texts_of(1), "two": blind})

    def test_shipped_weights_aim_at_people(self) -> None:
        with pytest.raises(ParamsError, match=r"aim: got 1; the weights that come with the package aim at people's"):
            list(get_explainer("consensus", aim=1.0).explain(tiny.classifier("bert"), ["a fine day"]))

    def test_one_sample_is_none(self) -> None:
        with pytest.raises(ValueError, match="expected 0, or 2 or more"):
            SignalsParams(removal_samples=1)


class TestMeasuring:
    def test_effects_are_lime_s_scores_and_are_written_beside_the_signals(self, tmp_path: Path) -> None:
        classifier = tiny.classifier("bert")
        words = ("the", "cat", "sat")
        label = classifier.predict([" ".join(words)])[0]
        examples = [Example(str(i), words, label, "train", "t") for i in range(3)]
        expected = list(get_explainer("lime", samples=20, seed=3).explain(classifier, examples))
        write_signals(tmp_path / "train.parquet", classifier, examples, marked={"0", "2"}, removal_samples=20, seed=3)
        first, second, third = read_signals(tmp_path / "train.parquet")
        for found, attribution in zip((first, third), (expected[0], expected[2]), strict=True):
            assert found.removal is not None
            np.testing.assert_array_equal(found.removal, np.asarray(attribution.scores, np.float32))
        assert second.removal is None

    def test_texts_with_marks_and_a_right_prediction(self) -> None:
        classifier = tiny.classifier("bert")
        texts = [replace(text.signals, removal=None) for text in texts_of(1, count=5, words=3)]
        labels = ["yes", "no", "yes", "yes", "yes"]
        examples = [Example(t.example_id, t.words, y, "train", "t") for t, y in zip(texts, labels, strict=True)]
        measured = with_removal(classifier, examples, texts, {"0", "1", "3", "4"}, 4, 0, most=2)
        assert [one.example_id for one in measured if one.removal is not None] == ["0", "3"]

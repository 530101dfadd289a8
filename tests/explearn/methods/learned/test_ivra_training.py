"""Training IvRA, and its files."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from ivra_cases import EMPTY, NORMS, QUICK, examples, labelled, learned_once, module_of, trainer_of, undecided
from safetensors.torch import load_file, save_file

import explearn
from explearn.core.errors import ModelError
from explearn.core.records import Example
from explearn.judge.faithfulness import faithfulness
from explearn.judge.params import EvaluateParams
from explearn.methods.base.training import BestWeights
from explearn.methods.ivra import objectives
from explearn.methods.ivra.explainer import IvRA, SMaT
from explearn.methods.ivra.forward import Labelled
from explearn.methods.ivra.params import SMaTParams
from explearn.methods.ivra.training import JointTrainer
from explearn.methods.listed_task import ListedTask
from explearn.model.classifier import Classifier


@pytest.fixture
def learned() -> IvRA:
    return learned_once()


class TestTraining:
    @pytest.mark.parametrize("cls", [IvRA, SMaT])
    @pytest.mark.parametrize("criterion", ["sim", "comp", "suff", "cons"])
    def test_each_criterion_s_gradient_lowers_its_loss(self, cls: Any, criterion: str) -> None:
        classifier = tiny.make_classifier()
        classifier.model.requires_grad_(True)
        rows = examples("train", 8)
        data = Labelled(classifier.encode(rows), [classifier.label_index(e.label) for e in rows])
        explainer = cls(criteria=[criterion], faithfulness={"each_step": None, "choice_weight": 0.6})
        module = explainer._module(classifier)
        trainer = JointTrainer(classifier, module, data, data, None, explainer.options, None, lambda: (0.0, {}), seed=0)
        optimiser = torch.optim.AdamW([*classifier.model.parameters(), *module.parameters()], lr=2e-3)
        if trainer.simulatability is not None:
            trainer.simulatability.new_student()
        if criterion in ("sim", "suff"):
            # A classifier that knows nothing gives one class, and is as sure of a few words as of the text: there is
            # nothing to predict, or to lower.
            learning = torch.optim.AdamW(classifier.model.parameters(), lr=2e-3)
            for _ in range(30):
                learning.zero_grad()
                trainer.losses(data)["task"].backward()
                learning.step()
            loss = trainer.losses(data)[criterion]
            assert criterion == "sim" or loss > 2 * explainer.options.faithfulness.suff_margin
        curve = []
        for _ in range(30):
            if trainer.simulatability is not None:
                # The same student and the same texts to learn from in every step.
                trainer.generator.manual_seed(0)
                trainer.simulatability.new_student()
            term = trainer.losses(data)[criterion]
            optimiser.zero_grad()
            term.backward()
            optimiser.step()
            curve.append(float(term.detach()))
        assert curve[-1] < (0.98 if criterion == "comp" else 0.9) * curve[0]

    def test_the_best_epoch_is_kept(self, learned: IvRA) -> None:
        """What is kept has the figures that the history says, on the validation texts, as the metrics give them."""
        (best,) = [entry for entry in learned.history if entry["best"]]
        classifier, validation = learned.classifier, examples("validation", 16)
        assert classifier is not None
        found = list(learned.explain(classifier, validation))
        encodings = {e.example_id: e for e in classifier.encode(validation)}
        means = faithfulness(classifier, encodings, {"ivra": found}, EvaluateParams())["ivra"].means()
        assert best["criteria"]["comp"] == pytest.approx(means["aopc_comprehensiveness"], abs=1e-6)
        assert best["criteria"]["suff"] == pytest.approx(-means["aopc_sufficiency"], abs=1e-6)
        assert learned.history[0]["losses"] == {}
        assert set(learned.history[1]["losses"]) == {"task", "comp", "suff"}
        score = sum(best["criteria"].values())
        assert all(score >= sum(entry["criteria"].values()) - 1e-9 for entry in learned.history)

    def test_accuracy_comes_before_the_criteria(self) -> None:
        trainer: Any = object.__new__(JointTrainer)
        trainer.model, trainer.module = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
        trainer.params, trainer.history = SMaTParams(schedule={"accuracy_tolerance": 0.1}), []
        measured = iter([(0.9, {"comp": 0.1}), (0.7, {"comp": 0.9}), (0.85, {"comp": 0.3}), (0.9, {"comp": 0.2})])
        trainer.measure = lambda: next(measured)
        trainer.best, trainer.best_score = BestWeights(trainer.model, trainer.module), None
        for _ in range(4):
            trainer._end_epoch({})
        assert [entry["best"] for entry in trainer.history] == [False, False, True, False]

    def test_the_classifier_it_starts_from_stays_as_it_is(self) -> None:
        classifier = tiny.make_classifier()
        before = classifier.fingerprint
        states = torch.get_rng_state()
        explainer = IvRA(schedule={**QUICK, "epochs": 1})
        explainer.fit(ListedTask(classifier, examples("train", 8), examples("validation", 4)))
        assert torch.equal(states, torch.get_rng_state())
        assert explainer.classifier is not None
        del classifier.__dict__["fingerprint"]
        assert classifier.fingerprint == before
        assert explainer.classifier.model is not classifier.model
        for model in (classifier.model, explainer.classifier.model):
            assert not model.training and tiny.hooks(model) == 0
            assert not any(p.requires_grad for p in model.parameters())

    def test_the_seed_decides(self) -> None:
        train, validation = examples("train", 16), examples("validation", 8)
        found = [
            IvRA(criteria=["sim", "comp"], schedule={**QUICK, "epochs": 1}, seed=seed).fit(
                ListedTask(undecided(validation), train, validation)
            )
            for seed in (1, 1, 2)
        ]
        assert found[0].history == found[1].history != found[2].history
        assert found[0].trained_classifier == found[1].trained_classifier

    def test_a_classifier_may_be_left_as_it_is(self) -> None:
        explainer = IvRA(criteria=["sim"], schedule={**QUICK, "learning_rate": 0.0})
        classifier = undecided(validation := examples("validation", 16))
        explainer.fit(ListedTask(classifier, examples("train", 16), validation))
        assert explainer.trained_classifier == classifier.fingerprint
        assert len({entry["accuracy"] for entry in explainer.history}) == 1

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_every_architecture_trains_for_all_criteria(self, kind: str) -> None:
        """Three classes, pairs, students with an encoder of their own."""
        rows = {
            split: [
                replace(e, pair=("a", "dog"), label=tiny.LABELS[3][i % 3]) for i, e in enumerate(examples(split, 6))
            ]
            for split in ("train", "validation")
        }
        explainer = IvRA(
            criteria=["sim", "comp", "suff", "cons"],
            norm="sparsemax",
            schedule={**QUICK, "epochs": 1, "batch_size": 3},
            student={"kind": "encoder", "learning_rate": 0.01},
        )
        explainer.fit(
            ListedTask(
                undecided(rows["validation"], kind, 3),
                rows["train"],
                rows["validation"],
                untrained_encoder=lambda: tiny.model(kind, 3, 9),
            )
        )
        assert set(explainer.history[1]["losses"]) == {"task", "sim", "comp", "suff", "cons"}
        assert explainer.classifier is not None
        (found,) = explainer.explain(explainer.classifier, [("the fox sleeps", "a dog")])
        assert found.scores.shape == (5,)

    def test_all_shares_may_be_taken_at_once(self) -> None:
        settings = SMaTParams(criteria=["comp", "suff"], faithfulness={"each_step": None, "percents": [10, 50]})
        classifier = tiny.make_classifier()
        data = Labelled(classifier.encode(examples("train", 4)), [0, 1, 0, 1])
        trainer = JointTrainer(
            classifier, module_of(classifier), data, data, None, settings, None, lambda: (0.0, {}), seed=0
        )
        calls = []
        handle = classifier.model.register_forward_hook(lambda *_: calls.append(1))
        assert set(trainer.losses(data)) == {"task", "comp", "suff"}
        handle.remove()
        # The whole text, two shares of two criteria, and the slopes of each criterion.
        assert len(calls) == 1 + 2 * 2 + 2

    @pytest.mark.parametrize("each_step", [1, 2, 5])
    def test_the_choice_s_weight_is_that_of_the_parameter(
        self, monkeypatch: pytest.MonkeyPatch, each_step: int
    ) -> None:
        classifier = tiny.make_classifier()
        data = labelled(classifier, examples("train", 8))
        settings = SMaTParams(criteria=["comp"], faithfulness={"each_step": each_step, "choice_weight": 3.0})
        trainer = trainer_of(settings, data, data, classifier)
        weight = torch.zeros((), requires_grad=True)
        monkeypatch.setattr(objectives, "choice_loss", lambda *_: weight.expand(len(data)))
        (slope,) = torch.autograd.grad(trainer.losses(data)["comp"], weight)
        assert float(slope) == pytest.approx(3.0)

    @pytest.mark.parametrize(
        "options",
        [
            {"criteria": ["suff"], "faithfulness": {"suff_loss": "mae"}},
            {"criteria": ["suff"], "faithfulness": {"suff_loss": "kl"}},
            *({"criteria": ["cons"], "consistency": {"loss": loss}} for loss in ("kl", "clustering", "correlation")),
        ],
        ids=["suff mae", "suff kl", "cons kl", "cons clustering", "cons correlation"],
    )
    def test_each_variant_of_a_loss_trains(self, options: dict[str, Any]) -> None:
        classifier = tiny.make_classifier()
        data = labelled(classifier, examples("train", 8))
        settings = SMaTParams(schedule={**QUICK, "epochs": 2}, **options)
        trainer = trainer_of(settings, data, data, classifier)
        before = {name: p.detach().clone() for name, p in trainer.module.named_parameters()}
        measured = iter([(1.0, {"a": 0.0}), (1.0, {"a": 1.0}), (1.0, {"a": 2.0})])
        trainer.measure = lambda: next(measured)
        history = trainer.run()
        (criterion,) = options["criteria"]
        assert all(math.isfinite(entry["losses"][criterion]) for entry in history[1:])
        assert any(not torch.equal(p, before[name]) for name, p in trainer.module.named_parameters())

    @pytest.mark.parametrize("norm", NORMS)
    @pytest.mark.parametrize("criterion", ["sim", "comp", "suff", "cons"])
    def test_a_text_without_pieces_may_be_among_them(self, criterion: str, norm: str) -> None:
        empty = {split: replace(examples(split, 1)[0], words=(EMPTY,)) for split in ("train", "validation")}
        explainer = IvRA(criteria=[criterion], norm=norm, schedule={**QUICK, "epochs": 2})
        validation = [*examples("validation", 15), empty["validation"]]
        explainer.fit(ListedTask(undecided(validation), [*examples("train", 15), empty["train"]], validation))
        assert all(math.isfinite(entry["losses"][criterion]) for entry in explainer.history[1:])

    @pytest.mark.parametrize("loss", ["rank", "correlation", "kl", "clustering"])
    @pytest.mark.parametrize("count", [9, 10])
    def test_texts_left_over_are_compared_with_those_of_the_batch_before(self, loss: str, count: int) -> None:
        classifier = tiny.make_classifier()
        data = labelled(classifier, examples("train", count))
        settings = SMaTParams(
            criteria=["cons"], schedule={"batch_size": 4, "learning_rate": 0.0, "epochs": 1}, consistency={"loss": loss}
        )
        trainer = trainer_of(settings, data, data, classifier)
        batches = list(trainer._training_batches())
        assert sorted(row for rows in batches for row in rows) == list(range(count))
        assert min(map(len, batches)) >= settings.consistency.least_texts
        assert len(batches) == (3 if count % 4 >= settings.consistency.least_texts else 2)
        measured = iter([(1.0, {"cons": 0.0}), (1.0, {"cons": 1.0})])
        trainer.measure = lambda: next(measured)
        assert math.isfinite(trainer.run()[1]["losses"]["cons"])

    @pytest.mark.parametrize(("right", "kept"), [(59, 1), (58, 0)])
    def test_an_epoch_may_lose_just_the_tolerance(self, right: int, kept: int) -> None:
        """62 - 59 = 3 texts of 120 are 0.025, which floats make a little more."""
        classifier = tiny.make_classifier()
        data = labelled(classifier, examples("train", 8))
        settings = SMaTParams(criteria=["comp"], schedule={**QUICK, "epochs": 1, "accuracy_tolerance": 0.025})
        trainer = trainer_of(settings, data, data, classifier)
        measured = iter([(62 / 120, {"comp": 0.0}), (right / 120, {"comp": 1.0})])
        trainer.measure = lambda: next(measured)
        assert [entry["best"] for entry in trainer.run()].index(True) == kept

    def test_an_epoch_that_leaves_a_metric_undefined_is_not_the_best(self) -> None:
        classifier = tiny.make_classifier()
        data = labelled(classifier, examples("train", 8))
        settings = SMaTParams(criteria=["sim"], schedule={**QUICK, "epochs": 2})
        trainer = trainer_of(settings, data, data, classifier)
        measured = iter([(1.0, {"sim": -0.5}), (1.0, {"sim": None}), (1.0, {"sim": -0.4})])
        trainer.measure = lambda: next(measured)
        history = trainer.run()
        assert [entry["best"] for entry in history] == [False, False, True]
        assert history[1]["criteria"] == {"sim": None}

    def test_that_nothing_was_learned_is_said(self, caplog: pytest.LogCaptureFixture) -> None:
        explainer = IvRA(criteria=["comp"], schedule={**QUICK, "epochs": 2, "accuracy_tolerance": 0.0})
        classifier = tiny.make_classifier()
        # What it is taught to call "yes", it had always rightly called something else.
        right = [replace(e, label=classifier.predict([e])[0]) for e in examples("validation", 8)]
        other = {"yes": "no", "no": "yes"}
        wrong = [replace(e, label=other[classifier.predict([e])[0]]) for e in examples("train", 24)]
        explainer.fit(ListedTask(classifier, wrong, right), description="toy: train ivra")
        assert explainer.best_epoch == 0 and explainer.trained_classifier == classifier.fingerprint
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        assert record.getMessage().startswith("toy: train ivra: none of 2 epochs was better than the start")

    @pytest.mark.parametrize(("criteria", "alike"), [(["comp"], True), (["comp", "cons"], False)])
    def test_texts_of_all_lengths_meet_where_a_batch_s_texts_are_compared(
        self, criteria: list[str], alike: bool
    ) -> None:
        classifier = tiny.make_classifier()
        texts = [Example(f"t{n}", ("sea",) * (1 + n % 8), "no", "train", "toy") for n in range(64)]
        data = Labelled(classifier.encode(texts), [0] * len(texts))
        settings = SMaTParams(criteria=criteria, schedule={"batch_size": 8})
        trainer = JointTrainer(
            classifier, module_of(classifier), data, data, None, settings, None, lambda: (0.0, {}), seed=0
        )
        batches = list(trainer._training_batches())
        assert sorted(row for rows in batches for row in rows) == list(range(64))
        assert all((len({len(data.encodings[row]) for row in rows}) == 1) == alike for rows in batches)


class TestFiles:
    def test_what_is_saved_explains_as_before(self, learned: IvRA, tmp_path: Path) -> None:
        assert learned.classifier is not None
        learned.save_pretrained(tmp_path / "ivra")
        loaded = explearn.get_explainer("ivra", path=str(tmp_path / "ivra"))
        classifier = Classifier.from_pretrained(tmp_path / "ivra" / "classifier", device="cpu")
        assert classifier.fingerprint == learned.classifier.fingerprint
        for before, after in zip(
            learned.explain(learned.classifier, tiny.TEXTS), loaded.explain(classifier, tiny.TEXTS), strict=True
        ):
            np.testing.assert_allclose(after.scores, before.scores, atol=1e-6)
            assert after.method == "ivra"
        config = json.loads((tmp_path / "ivra" / "config.json").read_text(encoding="utf-8"))
        assert config["history"] == learned.history
        assert config["history"][config["best_epoch"]]["best"]
        assert IvRA(**config["options"]).options == learned.options

    def test_damaged_files(self, learned: IvRA, tmp_path: Path) -> None:
        learned.save_pretrained(tmp_path / "ivra")
        with pytest.raises(ModelError, match=r"not a trained SMaT \(holds a IvRA\)"):
            SMaT.from_pretrained(tmp_path / "ivra")
        with pytest.raises(ModelError, match="not a trained ivra"):
            IvRA.from_pretrained(tmp_path)
        weights = load_file(tmp_path / "ivra" / "attention.safetensors")
        save_file(
            weights | {"head_weights": weights["head_weights"] * math.nan}, tmp_path / "ivra/attention.safetensors"
        )
        with pytest.raises(ModelError, match=r"attention\.safetensors: head_weights holds a value that is not finite"):
            IvRA.from_pretrained(tmp_path / "ivra")
        del weights["layer_weights"]
        save_file(weights, tmp_path / "ivra" / "attention.safetensors")
        with pytest.raises(ModelError, match="not a trained ivra"):
            IvRA.from_pretrained(tmp_path / "ivra")

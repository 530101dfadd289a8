"""Training IvRA, what it refuses, and its files."""

import json
import math
from dataclasses import replace

import pytest
import tiny
import torch
from ivra_cases import EMPTY, QUICK, examples, learned_once, simulatability_of, trainer_of, undecided

import explearn
from explearn import DataError, ModelError, UnsupportedError, load_classifier
from explearn.methods.base.task import ListedTask
from explearn.methods.ivra import objectives
from explearn.methods.ivra.attention import size_of
from explearn.methods.ivra.explainer import IvRA, SMaT
from explearn.methods.ivra.params import SMaTParams
from explearn.metrics.faithfulness import faithfulness
from explearn.metrics.params import EvaluateParams


@pytest.fixture
def learned():
    return learned_once()


class TestTraining:
    @pytest.mark.parametrize(
        ("cls", "criterion"), [(IvRA, "sim"), (IvRA, "comp"), (IvRA, "suff"), (IvRA, "cons"), (SMaT, "comp")]
    )
    def test_each_criterion_s_gradient_lowers_its_loss(self, cls, criterion, monkeypatch):
        monkeypatch.setattr(objectives, "PERCENTS", (50,))
        classifier = tiny.make_classifier()
        rows = examples("train", 8)
        explainer = cls(criteria=[criterion], choice_weight=0.6)
        trainer = trainer_of(explainer.options, rows, classifier)
        trainer.module = explainer._sized(*size_of(classifier.model))
        if criterion == "sim":
            trainer.simulatability = simulatability_of(classifier, rows)
            trainer.simulatability.module = trainer.module
        optimiser = torch.optim.AdamW([*classifier.model.parameters(), *trainer.module.parameters()], lr=2e-3)

        def losses():
            # The same shares, and the same student with the same texts to learn from, in every step.
            trainer.generator.manual_seed(3)
            if trainer.simulatability is not None:
                trainer.simulatability.generator.manual_seed(0)
                trainer.simulatability.begin_epoch()
            return trainer.losses(rows)

        # A classifier that knows nothing gives one class, and is as sure of a few words as of the text: there is
        # nothing to predict, or to lower.
        learned_first = 30 if criterion in ("sim", "suff") else 0
        for step in range(learned_first + 30):
            terms = losses()
            loss = terms["task"] if step < learned_first else terms[criterion]
            if step == learned_first:
                first = float(loss.detach())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        assert float(losses()[criterion].detach()) < 0.995 * first

    def test_the_best_epoch_is_kept(self, learned):
        """What is kept has the figures that the history says, on the validation texts, as the metrics give them."""
        (best,) = [entry for entry in learned.history if entry["best"]]
        classifier = learned.classifier
        validation = examples("validation", 16)
        attributions = learned.explain(classifier, validation)
        encodings = {e.example_id: e for e in classifier.read(validation)}
        means = faithfulness(classifier, encodings, {"ivra": attributions}, EvaluateParams())["ivra"].means()
        assert best["criteria"]["comp"] == pytest.approx(means["aopc_comprehensiveness"], abs=1e-6)
        assert best["criteria"]["suff"] == pytest.approx(-means["aopc_sufficiency"], abs=1e-6)
        assert [set(entry["losses"]) for entry in learned.history[:2]] == [set(), {"task", "comp", "suff"}]
        score = sum(best["criteria"].values())
        assert all(score >= sum(entry["criteria"].values()) - 1e-9 for entry in learned.history)

    @pytest.mark.parametrize(
        ("measured", "best"),
        [
            # Accuracy comes before the criteria; 62 - 59 = 3 texts of 120 are 0.025, which floats make a little more.
            ([(0.9, {"a": 0.1}), (0.7, {"a": 0.9}), (0.89, {"a": 0.3}), (0.9, {"a": 0.2})], 2),
            ([(62 / 120, {"a": 0.0}), (59 / 120, {"a": 1.0})], 1),
            ([(62 / 120, {"a": 0.0}), (58 / 120, {"a": 1.0})], 0),
            ([(1.0, {"a": -0.5}), (1.0, {"a": None}), (1.0, {"a": -0.4})], 2),
        ],
    )
    def test_which_epoch_is_the_best(self, measured, best):
        schedule = {**QUICK, "epochs": len(measured) - 1, "accuracy_tolerance": 0.025}
        settings = SMaTParams(criteria=["comp"], schedule=schedule)
        history = trainer_of(settings, examples("train", 8), tiny.make_classifier(), measured).run()
        assert [entry["best"] for entry in history].index(True) == best

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_every_architecture_trains_for_all_criteria(self, kind, monkeypatch):
        """Three classes, pairs."""
        monkeypatch.setattr("explearn.methods.ivra.simulatability.STUDENT_RATE", 0.01)
        rows = {}
        for split in ("train", "validation"):
            labelled = zip(examples(split, 6), tiny.LABELS[3] * 2, strict=True)
            rows[split] = [replace(example, pair=("a", "dog"), label=label) for example, label in labelled]
        explainer = IvRA(
            criteria=["sim", "comp", "suff", "cons"],
            norm="sparsemax",
            schedule={**QUICK, "epochs": 1, "batch_size": 3},
            consistency_loss="kl",
        )
        classifier = undecided(rows["validation"], kind, 3)
        explainer.fit(classifier, rows["train"], validation=rows["validation"])
        assert set(explainer.history[1]["losses"]) == {"task", "sim", "comp", "suff", "cons"}
        assert explainer.classifier is not None
        (attribution,) = explainer.explain(explainer.classifier, [("the fox sleeps", "a dog")])
        assert attribution.scores.shape == (5,)

    @pytest.mark.parametrize(("criterion", "norm"), [("sim", "softmax"), ("comp", "sparsemax")])
    def test_a_text_without_pieces_may_be_among_them(self, criterion, norm):
        empty = {split: replace(examples(split, 1)[0], words=(EMPTY,)) for split in ("train", "validation")}
        explainer = IvRA(criteria=[criterion], norm=norm, schedule={**QUICK, "epochs": 2})
        validation = [*examples("validation", 15), empty["validation"]]
        explainer.fit(undecided(validation), [*examples("train", 15), empty["train"]], validation=validation)
        assert all(math.isfinite(entry["losses"][criterion]) for entry in explainer.history[1:])

    def test_that_nothing_was_learned_is_said(self, caplog):
        explainer = IvRA(criteria=["comp"], schedule={**QUICK, "epochs": 2, "accuracy_tolerance": 0.0})
        classifier = tiny.make_classifier()
        # What it is taught to call "yes", it had always rightly called something else.
        right = [replace(e, label=classifier.predict([e])[0]) for e in examples("validation", 8)]
        other = {"yes": "no", "no": "yes"}
        wrong = [replace(e, label=other[classifier.predict([e])[0]]) for e in examples("train", 24)]
        explainer.fit(classifier, wrong, validation=right, description="toy: train ivra")
        assert explainer.best_epoch == 0 and explainer.trained_classifier == classifier.fingerprint
        (record,) = caplog.records
        assert record.getMessage().startswith("toy: train ivra: none of 2 epochs was better than the start")


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "counts", "error", "message"),
        [
            ({"criteria": ["sim"]}, (8, 3), DataError, "'sim': of 3 validation texts .* from 2 and be judged on 1"),
            ({"criteria": ["cons"]}, (2, 4), DataError, "split 'train' has 2 texts; expected 3 or more"),
            ({}, (8, 0), DataError, "split 'validation' has 0 texts"),
        ],
    )
    def test_what_the_task_lacks_is_said_before_training(self, options, counts, error, message):
        explainer = IvRA(**options)
        task = ListedTask(tiny.classifier(), examples("train", counts[0]), examples("validation", counts[1]))
        with pytest.raises(error, match=message):
            explainer.learn(task)
        assert explainer.history == [] and explainer.classifier is None

    @pytest.mark.parametrize(("norm", "rates"), [("sparsemax", (1e30, 3e-2)), ("softmax", (1e-9, 1e30))])
    def test_training_that_runs_away_stops(self, norm, rates):
        classifier = tiny.make_classifier()
        schedule = {**QUICK, "learning_rate": rates[0], "module_learning_rate": rates[1]}
        explainer = IvRA(norm=norm, criteria=["comp"], schedule=schedule)
        with pytest.raises(ModelError, match=r"diverged: a gradient is not finite; lower the learning"):
            explainer.fit(classifier, examples("train", 32), validation=examples("validation", 4))
        assert not explainer.trained_classifier
        assert tiny.hooks(classifier.model) == 0 and not classifier.model.training


class TestFiles:
    def test_the_classifier_is_saved_beside_it(self, learned, tmp_path):
        learned.save_pretrained(tmp_path)
        classifier = load_classifier(tmp_path / "classifier", device="cpu")
        assert classifier.fingerprint == learned.classifier.fingerprint
        with pytest.raises(UnsupportedError, match="trained for another classifier; load the one in its folder"):
            explearn.load(tmp_path).explain(tiny.make_classifier(seed=9), ["the fox"])
        config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
        assert config["history"] == learned.history

"""test_ivra"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import tiny
import torch
from ivra_cases import EMPTY, NORMS, QUICK, examples, labelled, learned_once, trainer_of, undecided

from explearn.core.errors import DataError, ModelError, ParamsError, UnknownNameError, UnsupportedError
from explearn.methods.ivra.explainer import IvRA
from explearn.methods.ivra.forward import Labelled
from explearn.methods.ivra.params import SMaTParams
from explearn.methods.ivra.simulatability import Simulatability
from explearn.methods.listed_task import ListedTask
from explearn.model.classifier import Classifier


@pytest.fixture
def learned() -> IvRA:
    return learned_once()


class TestStudent:
    def run(self, monkeypatch: pytest.MonkeyPatch, count: int) -> list[list[tuple[set[str], set[str]]]]:
        """Texts that the student was shown and asked about, by epoch and step."""
        calls: list[list[str]] = []
        epochs: list[list[tuple[set[str], set[str]]]] = []
        explained, renewed = Simulatability.explained, Simulatability.new_student

        def noting(sim: Simulatability, data: Labelled) -> Any:
            calls.append([e.example_id for e in data.encodings])
            if len(calls) % 2 == 0:
                epochs[-1].append((set(calls[-2]), set(calls[-1])))
            return explained(sim, data)

        def starting(sim: Simulatability) -> None:
            epochs.append([])
            renewed(sim)

        monkeypatch.setattr(Simulatability, "explained", noting)
        monkeypatch.setattr(Simulatability, "new_student", starting)
        classifier = tiny.make_classifier()
        settings = SMaTParams(
            criteria=["sim"], schedule={**QUICK, "epochs": 2, "batch_size": 4}, student={"batch_size": 4}
        )
        rows = labelled(classifier, examples("train", 40))
        trainer_of(settings, rows, labelled(classifier, examples("validation", count)), classifier).run()
        return epochs

    @pytest.mark.parametrize("count", [2, 13])
    def test_it_never_sees_the_explanations_it_is_tested_on(self, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        epochs = self.run(monkeypatch, count)
        assert [len(steps) for steps in epochs] == [10, 10]
        halves = []
        for steps in epochs:
            shown, asked = (set[str]().union(*texts) for texts in zip(*steps, strict=True))
            assert not shown & asked and shown | asked == {f"validation{n}" for n in range(count)}
            # Halves of 7 and 6 texts: of at most 4 each, and none with a text or two.
            assert count == 2 or all({len(shown), len(asked)} <= {3, 4} for shown, asked in steps)
            halves.append(shown)
        assert count == 2 or halves[0] != halves[1]

    def test_what_it_answers_depends_on_text_and_parameters_alone(self) -> None:
        """The explanations of the texts that it is asked about have no gradient of its answers."""
        classifier = tiny.make_classifier()
        pool = labelled(classifier, examples("validation", 8))
        settings = SMaTParams(criteria=["sim"], student={"asked_weight": 0.0})
        sim = trainer_of(settings, pool, pool, classifier).simulatability
        assert sim is not None
        found: list[torch.Tensor] = []
        explained = sim.explained

        def noting(data: Labelled) -> Any:
            batch, predicted, r = explained(data)
            found.append(r.detach().requires_grad_())
            return batch, predicted, found[-1]

        sim.explained = noting  # type: ignore[method-assign]
        sim.new_student()
        shown, asked = torch.autograd.grad(sim.loss(), found, allow_unused=True, materialize_grads=True)
        assert shown.abs().sum() > 0 and not asked.any()

    @pytest.mark.parametrize("restart", ["step", "epoch"])
    def test_it_learns_on_within_an_epoch_or_starts_anew(self, restart: str) -> None:
        classifier = tiny.make_classifier()
        pool = labelled(classifier, examples("validation", 8))
        settings = SMaTParams(criteria=["sim"], student={"restart": restart})
        sim = trainer_of(settings, pool, pool, classifier).simulatability
        assert sim is not None
        sim.new_student()
        first = sim.learned["query"]
        assert not sim.learned["weight"].any()
        sim.loss()
        assert sim.learned["weight"].any() == (restart == "epoch")
        assert not torch.equal(sim.learned["query"], first)
        assert all(p.is_leaf and p.requires_grad for p in sim.learned.values())

    @pytest.mark.parametrize("texts", [0, 1])
    def test_too_few_texts_are_said_before_training(self, texts: int) -> None:
        """A text without pieces is none to learn from."""
        classifier = tiny.make_classifier()
        empty = replace(examples("validation", 1)[0], words=(EMPTY,))
        pool = labelled(classifier, [*examples("validation", texts), empty, empty])
        with pytest.raises(DataError, match=rf"criterion 'sim': .* from {texts} texts; .* student.share"):
            trainer_of(SMaTParams(criteria=["sim"]), pool, pool, classifier)


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"criteria": ["simm"]}, r"criteria.0: got 'simm'; expected"),
            ({"criteria": []}, r"criteria: got \[\]; expected"),
            ({"criteria": ["comp", "comp"]}, "repeat a name"),
            ({"norm": "entmax"}, "norm: got 'entmax'; expected"),
            ({"levels": ["word"]}, "levels.0: got 'word'; expected"),
            (
                {"criteria": ["cons"], "schedule": {"batch_size": 2}},
                "'rank' takes 3; .* schedule.batch_size of 3 or more",
            ),
            ({"criteria": ["cons"], "schedule": {"max_texts": 2}}, "'cons' .* schedule.max_texts of 3 or more"),
            (
                {"criteria": ["cons"], "schedule": {"batch_size": 1}, "consistency": {"loss": "kl"}},
                "'kl' takes 2; .* schedule.batch_size of 2 or more",
            ),
            (
                {"criteria": ["comp"], "schedule": {"learning_rate": 0}, "faithfulness": {"choice_weight": 0}},
                "the explanations have no gradient; expected one of them above 0",
            ),
            ({"schedule": {"epoch": 3}}, r"schedule.epoch: no such parameter; did you mean epochs\?"),
            ({"weights": {"compr": 3}}, r"weights.compr: no such parameter; did you mean comp\?"),
            ({"epochs": 3}, r"^epochs: no such parameter; expected one of criteria, weights, norm, schedule, "),
            ({"criteria": ["sim"], "schedule": {"validation_texts": 1}}, "'sim' .* schedule.validation_texts of 2 or"),
            ({"criteria": ["cons"], "schedule": {"validation_texts": 2}}, "'cons' .* schedule.validation_texts of 3"),
            ({"student": {"share": 1.5}}, "student.share: got 1.5; expected"),
        ],
    )
    def test_an_option_s_bad_value(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ParamsError, match=message):
            IvRA(**options)

    @pytest.mark.parametrize(
        ("options", "counts", "error", "message"),
        [
            (
                {"criteria": ["sim"]},
                (8, 3),
                DataError,
                "criterion 'sim': of 3 validation texts .* at least 2 each .student.share",
            ),
            ({"criteria": ["cons"]}, (2, 4), DataError, "criterion 'cons' compares texts .* 'rank' takes 3 or more"),
            ({"criteria": ["cons"]}, (8, 2), DataError, "criterion 'cons': 2 validation texts"),
            ({}, (0, 4), DataError, "split 'train' has no text"),
            ({}, (8, 0), DataError, "split 'validation' has no text"),
            ({"criteria": ["sim"], "student": {"kind": "encoder"}}, (8, 8), ParamsError, "before fine-tuning"),
        ],
    )
    def test_what_the_task_lacks_is_said_before_training(
        self, options: Any, counts: tuple[int, int], error: Any, message: str
    ) -> None:
        explainer = IvRA(**options)
        with pytest.raises(error, match=message):
            explainer.fit(
                ListedTask(tiny.classifier(), examples("train", counts[0]), examples("validation", counts[1]))
            )
        assert explainer.history == []
        assert explainer.classifier is None

    @pytest.mark.parametrize(
        ("criterion", "word", "message"),
        [("cons", "fox", "'cons' is undefined .* do not differ"), ("sim", None, "'sim' is undefined .* one class")],
    )
    def test_a_metric_that_is_undefined_on_the_validation_texts(
        self, criterion: str, word: str | None, message: str
    ) -> None:
        classifier = tiny.make_classifier()
        with torch.no_grad():
            classifier.model.classifier.bias[0] += 100.0
        texts = [e if word is None else replace(e, words=(word,)) for e in examples("validation", 8)]
        explainer = IvRA(criteria=[criterion], schedule=QUICK)
        with pytest.raises(DataError, match=message):
            explainer.fit(ListedTask(classifier, examples("train", 8), texts))
        assert explainer.history == [] and explainer.classifier is None

    def test_a_label_the_classifier_has_not(self) -> None:
        rows = [replace(e, label="maybe") for e in examples("train", 4)]
        with pytest.raises(UnknownNameError, match="unknown label 'maybe'"):
            IvRA().fit(ListedTask(tiny.classifier(), rows, examples("validation", 4)))

    @pytest.mark.parametrize("norm", NORMS)
    def test_training_that_runs_away_stops_with_step_term_and_texts(self, norm: str) -> None:
        classifier = tiny.make_classifier()
        explainer = IvRA(norm=norm, schedule={**QUICK, "learning_rate": 1e30})
        with pytest.raises(ModelError, match=r"step \d+: the loss '\w+' is (nan|inf); .*: train\d+"):
            explainer.fit(ListedTask(classifier, examples("train", 32), examples("validation", 4)))
        assert explainer.classifier is None
        assert tiny.hooks(classifier.model) == 0

    def test_also_at_the_last_step(self) -> None:
        explainer = IvRA(criteria=["comp"], schedule={**QUICK, "epochs": 1, "learning_rate": 1e30})
        with pytest.raises(
            ModelError, match=r"step 1, losses task, comp: .* cannot be measured .*not finite.*: train\d"
        ):
            explainer.fit(ListedTask(tiny.make_classifier(), examples("train", 8), examples("validation", 4)))

    def test_also_in_the_module_s_gradient(self) -> None:
        schedule = {**QUICK, "epochs": 1, "learning_rate": 0.0, "module_learning_rate": 1e30}
        with pytest.raises(ModelError, match=r"step 2, losses task, comp: the gradient is not finite; .*: train\d+"):
            IvRA(criteria=["comp"], schedule=schedule).fit(
                ListedTask(tiny.make_classifier(), examples("train", 32), examples("validation", 4))
            )

    def test_a_student_that_runs_away_names_its_own_texts(self) -> None:
        explainer = IvRA(criteria=["sim"], schedule=QUICK, student={"learning_rate": 1e38})
        with pytest.raises(ModelError, match=r"the loss 'sim' is (nan|inf); .*: validation\d+(, validation\d+)*$"):
            explainer.fit(
                ListedTask(undecided(validation := examples("validation", 16)), examples("train", 32), validation)
            )

    def test_an_untrained_one_explains_nothing(self) -> None:
        with pytest.raises(ModelError, match="this IvRA is not trained"):
            list(IvRA().explain(tiny.classifier(), ["the fox"]))
        with pytest.raises(ModelError, match="nothing to save"):
            IvRA().save_pretrained("nowhere")
        with pytest.raises(ModelError, match="this IvRA is not trained"):
            print(IvRA().best_epoch)

    def test_another_classifier_is_refused(self, learned: IvRA) -> None:
        with pytest.raises(UnsupportedError, match="explains the classifier that was trained with it"):
            list(learned.explain(Classifier(tiny.model("bert", 2, 9), tiny.tokenizer("bert")), ["the fox"]))
        with pytest.raises(UnsupportedError, match="3 layers, the classifier has 2"):
            other = Classifier(tiny.model("bert", num_hidden_layers=2), tiny.tokenizer("bert"))
            list(learned.explain(other, ["the fox"]))

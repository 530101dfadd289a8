"""ExpNet's network and how it is fitted."""

from __future__ import annotations

import numpy as np
import pytest
import tiny
import torch
from expnet_cases import SOURCE, WIDTH, features, task

from explearn.core.errors import DataError, UnsupportedError
from explearn.lens.features import (
    feature_source,
)
from explearn.methods.expnet.explainer import ExpNet, training_words
from explearn.methods.expnet.params import ExpNetParams
from explearn.methods.expnet.student import Student, Words, passes, train_student
from explearn.methods.expnet.targets import Lesson
from explearn.methods.expnet.words import (
    Input,
    check_source,
    inputs_of,
)
from explearn.methods.listed_task import ListedTask


class TestTrainingWords:
    def test_words_of_texts_with_a_lesson(self) -> None:
        rows = [features("a", [0, 0, -1, 2]), features("other", [0]), features("cut", [])]
        lessons = {"a": Lesson(np.array([0.9, 0.2, 0.1]), 3.0), "cut": Lesson(np.ones(1))}
        found = training_words(rows, SOURCE, [Input(1, "column", 2), Input(0, "row", 0)], lessons)
        columns = [8 + 4 + 2, 0]
        attention = rows[0].attention[:, columns]
        expected = np.log(np.stack([attention[:2].max(0), attention[3]]) + 1e-5)
        np.testing.assert_allclose(found.inputs, expected, rtol=1e-6)
        np.testing.assert_allclose(found.targets, [0.9, 0.1], rtol=1e-6)
        assert found.weights.tolist() == [1, 1]

    def test_weights_are_one_on_average_and_keep_their_ratios(self) -> None:
        rows = [features("a", [0, 1]), features("b", [0])]
        lessons = {"a": Lesson(np.ones(2), 1.0), "b": Lesson(np.zeros(1), 4.0)}
        assert training_words(rows, SOURCE, inputs_of([0], 4), lessons).weights.tolist() == [0.5, 0.5, 2.0]

    def test_no_text_to_learn_from(self) -> None:
        with pytest.raises(DataError, match="none of the texts to learn from has features"):
            training_words([features("a", [0])], SOURCE, inputs_of([0], 4), {"b": Lesson(np.ones(1))})


def planted(count: int, seed: int, width: int = 6) -> Words:
    """Words that are evidence where input 2 is large."""
    x = torch.randn(count, width, generator=torch.Generator().manual_seed(seed)) * 3 - 5
    return Words(x, torch.zeros(count, dtype=torch.long), (x[:, 2] > -4).float(), torch.ones(count))


class TestStudent:
    def test_it_finds_the_input_that_tells_evidence(self) -> None:
        student, losses = train_student(planted(2000, 1), ExpNetParams(epochs=40), 13, torch.device("cpu"))
        unseen = planted(500, 2)
        with torch.inference_mode():
            found = student(unseen.inputs, unseen.texts) > 0
        assert (found == unseen.targets.bool()).float().mean() > 0.95
        assert int(student.importance.argmax()) == 2
        assert losses[-1] < losses[0] / 2

    @pytest.mark.parametrize(
        ("words", "steps", "expected"),
        [(100, 60, 60), (100, 59, 59), (101, 60, 30), (200, 61, 30), (6000, 60, 1), (6100, 60, 1), (100, 1000, 60)],
    )
    def test_where_there_are_many_words_training_goes_over_them_less_often(
        self, words: int, steps: int, expected: int
    ) -> None:
        options = ExpNetParams(epochs=60, steps=steps, batch_size=100, hidden=2, networks=1)
        assert passes(words, options) == expected

    def test_it_makes_no_more_steps_than_asked_for(self) -> None:
        options = ExpNetParams(epochs=60, steps=9, batch_size=100, hidden=2, networks=1)
        _, losses = train_student(planted(300, 1), options, 13, torch.device("cpu"))
        assert len(losses) == 3

    def test_networks_side_by_side_learn_as_each_would_alone(self) -> None:
        """With no drop-out, and one batch an epoch, nothing that one network does touches another."""
        options = {"epochs": 5, "dropout": 0.0, "input_dropout": 0.0, "batch_size": 200, "hidden": 4}
        words, cpu = planted(200, 1), torch.device("cpu")
        three, _ = train_student(words, ExpNetParams(networks=3, **options), 13, cpu)
        with torch.inference_mode():
            outputs = three.network(three.read(words.inputs, words.texts))
            assert outputs.shape == (200, 3)
            torch.testing.assert_close(three(words.inputs, words.texts), outputs.mean(1))
        # The second one's start, by the same seed, in a network of its own.
        start, _ = train_student(words, ExpNetParams(networks=3, **{**options, "learning_rate": 1e-12}), 13, cpu)
        alone = Student(6, ExpNetParams(networks=1, **options))
        alone.load_state_dict(
            {
                "offset": start.offset,
                "scale": start.scale,
                "network.1.weight": start.network[1].weight[4:8],
                "network.1.bias": start.network[1].bias[4:8],
                "network.4.weight": start.network[4].weight[1:2],
                "network.4.bias": start.network[4].bias[1:2],
            }
        )
        optimizer = torch.optim.AdamW(alone.parameters(), lr=2e-3, weight_decay=0.01)
        for _ in range(5):
            optimizer.zero_grad()
            logits = alone(words.inputs, words.texts)
            torch.nn.functional.binary_cross_entropy_with_logits(logits, words.targets).backward()
            optimizer.step()
        torch.testing.assert_close(alone(words.inputs, words.texts).detach(), outputs[:, 1], atol=1e-3, rtol=1e-3)

    def test_weights_decide_between_texts_that_disagree(self) -> None:
        x = torch.zeros(200, 2)
        y, w = (
            torch.cat([torch.ones(100), torch.zeros(100)]),
            torch.cat([torch.full((100,), 1.8), torch.full((100,), 0.2)]),
        )
        words = Words(x, torch.zeros(200, dtype=torch.long), y, w)
        student, _ = train_student(words, ExpNetParams(epochs=60, batch_size=20), 13, torch.device("cpu"))
        with torch.inference_mode():
            assert student(x[:1], words.texts[:1]).sigmoid().item() == pytest.approx(0.9, abs=0.03)

    def test_the_seed_decides_and_the_global_generator_stays(self) -> None:
        before = torch.get_rng_state()
        one, same, other = (
            train_student(planted(50, 1), ExpNetParams(epochs=2), seed, torch.device("cpu"))[1] for seed in (1, 1, 2)
        )
        assert one == same != other
        assert torch.equal(torch.get_rng_state(), before)


class TestFitting:
    def test_in_domain_takes_the_marks_of_the_texts_predicted_right(self) -> None:
        of = tiny.classifier("bert")
        right, wrong = (
            ("the fox", of.predict(["the fox"])[0]),
            ("a dog", "bad" if of.predict(["a dog"])[0] == "good" else "good"),
        )
        of_task = ListedTask(of, [right, wrong], gold={"train-1": (False, True), "train-2": (True, False)}, name="toy")
        expnet = ExpNet(protocol="in_domain", epochs=1).fit(of_task)
        assert (expnet.trained_on, expnet.classifier) == (["toy"], of.fingerprint)
        assert expnet.encoder == {"layers": 3, "heads": 4} and expnet.inputs == inputs_of([0, 1, 2], 4)

    def test_selection_keeps_the_inputs_with_the_largest_weights(self) -> None:
        words, inputs = planted(2000, 1, WIDTH), inputs_of([0, 1, 2], 4)
        expnet = ExpNet(select=3, epochs=20).fit_words(words, inputs, SOURCE)
        assert len(expnet.inputs) == 3 and inputs[2] in expnet.inputs
        assert expnet.inputs == sorted(expnet.inputs, key=inputs.index)
        everything = ExpNet(select=WIDTH, epochs=1).fit_words(words, inputs, SOURCE)
        assert everything.inputs == inputs

    def test_a_task_without_marks(self) -> None:
        with pytest.raises(
            DataError, match="task 'texts', split 'train': no text has both a rationale and a right pred"
        ):
            ExpNet(protocol="in_domain").fit(task(gold={}))

    @pytest.mark.parametrize(("target", "message"), [(1.0, "all words are evidence"), (0.0, "no word is evidence")])
    def test_words_of_one_kind_alone(self, target: float, message: str) -> None:
        words = planted(6, 1, WIDTH)
        words = Words(words.inputs, words.texts, torch.full((6,), target), words.weights)
        with pytest.raises(DataError, match=message):
            ExpNet(epochs=1).fit_words(words, inputs_of([0, 1, 2], 4), SOURCE)

    def test_an_architecture_without_attention(self) -> None:
        of = tiny.make_classifier("bert")
        of.model.config.model_type = "fnet"
        with pytest.raises(UnsupportedError, match="attention of a 'fnet' model cannot be captured"):
            ExpNet(protocol="in_domain").fit(ListedTask(of, []))

    def test_features_of_another_classifier_are_refused(self) -> None:
        of_task = task(name="toy")
        source = feature_source(tiny.make_classifier("bert", seed=5))
        with pytest.raises(DataError, match="task 'toy', split 'train': its features are of another classifier than"):
            check_source(of_task, source, "train")

    def test_features_of_some_layers(self) -> None:
        of_task = task(layers=[0, 2])
        assert {one.layer for one in ExpNet(protocol="in_domain", layers=[-1], epochs=1).fit(of_task).inputs} == {2}
        with pytest.raises(DataError, match="no attention of layers 1"):
            ExpNet(protocol="in_domain").fit(of_task)

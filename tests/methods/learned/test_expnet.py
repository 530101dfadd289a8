"""ExpNet: what it reads of a word, what it learns from, and whom it explains. The paper's is in test_expnet_paper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import explearn
import tiny
from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError, ExplearnError, ModelError, ParamsError, UnsupportedError
from explearn.introspection.features import (
    ExampleFeatures,
    batch_features,
    feature_source,
    read_feature_metadata,
    read_features,
    write_features,
)
from explearn.methods.base.listed_task import ListedTask
from explearn.methods.consensus.model import MarkedText, fit_model
from explearn.methods.consensus.params import ConsensusParams
from explearn.methods.expnet.explainer import ExpNet, columns_of, training_words
from explearn.methods.expnet.params import ExpNetParams
from explearn.methods.expnet.student import Student, Words, train_student, with_context
from explearn.methods.expnet.targets import Curriculum, Lesson, curriculum_for, read_sources, soft_targets
from explearn.methods.expnet.words import (
    Input,
    Pooled,
    check_source,
    inputs_of,
    log_attention,
    pool_words,
    wanted_inputs,
)
from explearn.models.classifier import Classifier

CPU = ComputeOptions(device="cpu")
WIDTH = tiny.LAYERS * 2 * tiny.HEADS
SOURCE = {"classifier": "abc", "attended": [0, 1, 2], "layers": 3, "heads": 4, "hidden_size": 32}
WORDS = ["fox", "dog", "sea", "castle", "tide", "morning"]


def task(texts: int = 12, of: Classifier | None = None, marked: int | None = None, **options: Any) -> ListedTask:
    """Texts with the labels that the classifier gives them; in the first `marked`, the first word is evidence."""
    of = of or tiny.classifier("bert")
    rng = np.random.default_rng(0)
    pairs = []
    for _ in range(texts):
        text = " ".join(rng.choice(WORDS, size=5))
        pairs.append((text, of.predict([text])[0]))
    marked = texts if marked is None else marked
    gold = {f"train-{number}": (True, *[False] * 4) for number in range(1, marked + 1)}
    return ListedTask(of, pairs, **{"gold": gold, **options})


def trained(of: Classifier | None = None, **options: Any) -> ExpNet:
    return ExpNet(**{"protocol": "in_domain", "epochs": 2, **options}).fit(task(of=of))


class TestWords:
    def test_a_word_has_the_largest_value_of_its_pieces(self) -> None:
        values = torch.tensor([[1.0, 5.0], [3.0, 2.0], [9.0, 9.0], [0.0, 7.0], [4.0, 4.0]])
        found = pool_words(values, np.array([0, 0, -1, 2, 0]))
        assert found.values.tolist() == [[4, 5], [0, 7]]
        assert found.owners.tolist() == [0, 2]
        assert found.of.tolist() == [0, 0, -1, 1, 0]

    @given(st.lists(st.integers(-1, 6), max_size=12))
    def test_each_position_finds_its_word(self, owners: list[int]) -> None:
        values = torch.arange(2.0 * len(owners)).view(-1, 2).sin()
        found = pool_words(values, np.asarray(owners, dtype=np.int64))
        assert found.owners.tolist() == sorted(set(owners) - {-1})
        for position, owner in enumerate(owners):
            row = found.of[position]
            assert (row == -1) if owner == -1 else (found.owners[row] == owner)
        for owner, row in zip(found.owners, found.values, strict=True):
            assert torch.equal(row, values[np.asarray(owners) == owner].amax(0))

    def test_no_position_and_no_word(self) -> None:
        for owners in ([], [-1, -1]):
            found: Pooled = pool_words(torch.ones(len(owners), 3), np.asarray(owners, dtype=np.int64))
            assert found.values.shape == (0, 3) and found.of.tolist() == owners

    def test_logarithms_have_a_floor(self) -> None:
        found = log_attention(torch.tensor([0.0, 1e-5, 1.0]))
        np.testing.assert_allclose(found, np.log([1e-5, 2e-5, 1.00001]), rtol=1e-6, atol=1e-7)

    def test_the_inputs_stand_as_in_the_features(self) -> None:
        assert inputs_of([3, 1], 2) == [
            Input(3, "row", 0),
            Input(3, "row", 1),
            Input(3, "column", 0),
            Input(3, "column", 1),
            Input(1, "row", 0),
            Input(1, "row", 1),
            Input(1, "column", 0),
            Input(1, "column", 1),
        ]
        assert columns_of([Input(1, "column", 0), Input(3, "row", 1)], [3, 1], 2) == [6, 1]

    def test_options_choose_layers_and_rows_or_columns(self) -> None:
        assert len(wanted_inputs(SOURCE, "all", "row_and_column")) == WIDTH
        rows = wanted_inputs(SOURCE, [-1, 0], "row")
        assert rows == [*(Input(0, "row", head) for head in range(4)), *(Input(2, "row", head) for head in range(4))]
        assert {one.kind for one in wanted_inputs(SOURCE, "all", "column")} == {"column"}

    @pytest.mark.parametrize("layer", [3, -4])
    def test_a_layer_that_the_encoder_lacks(self, layer: int) -> None:
        with pytest.raises(ParamsError, match=rf"layers: got {layer}; expected 0 to 2, or -3 to -1"):
            wanted_inputs(SOURCE, [layer], "row")

    def test_a_layer_that_the_features_lack(self) -> None:
        with pytest.raises(DataError, match="no attention of layers 0, 1; expected it; run the stage attend with"):
            wanted_inputs({**SOURCE, "attended": [2]}, "all", "row")


class TestTargets:
    def test_by_hand(self) -> None:
        np.testing.assert_allclose(soft_targets(np.array([0.0, np.log(3.0), -np.log(4.0)])), [0.5, 0.75, 0.2])


class TestContext:
    def test_words_around_in_the_same_text(self) -> None:
        x, texts = torch.tensor([[1.0], [2.0], [3.0], [4.0]]), torch.tensor([0, 0, 0, 7])
        assert with_context(x, texts, 1).tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 0], [0, 4, 0]]

    def test_without_any(self) -> None:
        x = torch.randn(3, 2)
        assert with_context(x, torch.zeros(3), 0) is x

    def test_a_word_is_told_by_the_one_before_it(self) -> None:
        x = torch.randn(1000, 2, generator=torch.Generator().manual_seed(1))
        y = torch.cat([torch.zeros(1), (x[:-1, 0] > 0).float()])
        options = {"epochs": 40, "dropout": 0.0, "input_dropout": 0.0}
        words = Words(x, torch.zeros(1000, dtype=torch.long), y, torch.ones(1000))
        for context, least, most in ((0, 0.3, 0.7), (1, 0.9, 1.0)):
            student, _ = train_student(words, ExpNetParams(context=context, **options), 13, torch.device("cpu"))
            with torch.inference_mode():
                right = ((student(x, words.texts) > 0) == y.bool()).float().mean()
            assert least <= right <= most
            assert student.importance.shape == (2,)


def features(example_id: str, word_ids: list[int]) -> ExampleFeatures:
    rng = np.random.default_rng(len(word_ids))
    attention = rng.random((len(word_ids), WIDTH), dtype=np.float32)
    ids = np.asarray(word_ids, dtype=np.int32)
    return ExampleFeatures(example_id, "yes", np.array([0.5, 0.5], dtype=np.float32), ids, attention)


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

    @pytest.mark.parametrize(("mark", "message"), [(True, "all words are evidence"), (False, "no word is evidence")])
    def test_marks_of_one_kind_alone(self, mark: bool, message: str) -> None:
        gold = {f"train-{number}": (mark,) * 5 for number in range(1, 13)}
        with pytest.raises(DataError, match=message):
            ExpNet(protocol="in_domain").fit(task(gold=gold))

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


class TestUniversal:
    def test_no_mark_of_the_task_plays_a_part(self) -> None:
        others = [task(name="one"), task(14, name="other")]
        without = ExpNet(epochs=2).fit(task(gold={}, name="mine", others=others))
        with_marks = ExpNet(epochs=2).fit(task(name="mine", others=others))
        assert without.trained_on == with_marks.trained_on == ["one", "other"]
        assert without.losses == with_marks.losses
        assert without.student is not None and with_marks.student is not None
        for a, b in zip(without.student.parameters(), with_marks.student.parameters(), strict=True):
            assert torch.equal(a, b)

    def test_it_belongs_to_the_task_s_own_classifier(self) -> None:
        of, other = tiny.make_classifier("bert", seed=3), tiny.make_classifier("bert", seed=4)
        expnet = ExpNet(epochs=1).fit(task(of=of, others=[task(of=other, name="other")]))
        assert expnet.classifier == of.fingerprint

    def test_targets_are_the_consensus_on_the_task_s_texts(self) -> None:
        other = task(name="other")
        mine = task(gold={}, name="mine", others=[other])
        taught = curriculum_for(mine, ExpNetParams(), 13)
        lessons = taught.lessons
        assert taught.trained_on == ["other"] and sorted(lessons) == sorted(
            example.id for example in mine.examples("train")
        )
        texts = [MarkedText(row, other.gold[row.example_id]) for row in other.signals("train")]
        model = fit_model({"other": texts}, ConsensusParams(bootstrap=0), 13)
        for row in mine.signals("train"):
            expected = soft_targets(model.logits(model.features(row)))
            np.testing.assert_allclose(lessons[row.example_id].targets, expected, atol=1e-6)
        assert taught.calibration == pytest.approx(model.calibration, abs=1e-4)

    def test_validation_texts_are_learned_from_too(self) -> None:
        pair = ("the fox", tiny.classifier("bert").predict(["the fox"])[0])
        mine = ListedTask(tiny.classifier("bert"), [pair], [pair], others=[task(name="other")])
        lessons = curriculum_for(mine, ExpNetParams(), 13).lessons
        assert sorted(lessons) == ["train-1", "validation-1"]

    @pytest.mark.parametrize("protocol", ["universal", "few_shot"])
    @pytest.mark.parametrize("others", [0, 1])
    def test_no_other_task_has_marks(self, protocol: str, others: int) -> None:
        mine = task(name="mine", others=[task(gold={}, name="bare")][:others])
        message = f"{protocol} needs another task than 'mine' with marked texts that its classifier gets right"
        with pytest.raises(ParamsError, match=message):
            ExpNet(protocol=protocol, marks=3).fit(mine)

    def test_a_task_without_marks_beside_one_with_them_is_passed_over(self) -> None:
        others = [task(gold={}, name="bare"), task(name="other")]
        assert ExpNet(epochs=1).fit(task(gold={}, others=others)).trained_on == ["other"]

    @pytest.mark.parametrize(("mark", "message"), [(True, "every word is marked"), (False, "no word is marked")])
    def test_another_task_with_marks_of_one_kind_alone(self, mark: bool, message: str) -> None:
        other = task(gold={f"train-{number}": (mark,) * 5 for number in range(1, 13)}, name="other")
        with pytest.raises(DataError, match=f"task 'other': {message}"):
            ExpNet().fit(task(others=[other]))


class TestFewShot:
    def taught(self, **options: Any) -> Curriculum:
        mine = task(marked=8, name="mine", others=[task(name="other")])
        return curriculum_for(mine, ExpNetParams(protocol="few_shot", **options), 13)

    def test_marks_of_some_texts_and_the_consensus_on_the_others(self) -> None:
        found = self.taught(marks=3, pseudo_weight=1.0).lessons
        hard = [key for key, lesson in found.items() if set(lesson.targets.tolist()) == {0.0, 1.0}]
        assert len(found) == 12 and len(hard) == 3
        assert {int(key.split("-")[1]) for key in hard} <= set(range(1, 9))
        # Three marks against the weight of one: three quarters.
        assert sum(found[key].weight for key in hard) == pytest.approx(0.75)
        assert sum(lesson.weight for lesson in found.values()) == pytest.approx(1.0)

    def test_the_marked_texts_teach_the_consensus_too(self) -> None:
        little, much = (self.taught(marks=3, marks_of_a_task=weight).lessons for weight in (1e9, 1.0))
        soft = [key for key, lesson in little.items() if not set(lesson.targets.tolist()) <= {0.0, 1.0}]
        assert any(not np.allclose(little[key].targets, much[key].targets) for key in soft)

    def test_calibration_lies_between_the_consensus_s_and_none(self) -> None:
        slope, offset = self.taught(marks=3, pseudo_weight=1e-9).calibration
        assert (slope, offset) == pytest.approx((1.0, 0.0), abs=1e-6)
        all_marks = self.taught(marks=8).calibration
        assert all_marks == (1.0, 0.0)

    def test_the_seed_draws_the_texts(self) -> None:
        mine = task(marked=8, name="mine", others=[task(name="other")])
        drawn = set()
        for seed in range(5):
            found = curriculum_for(mine, ExpNetParams(protocol="few_shot", marks=3), seed).lessons
            drawn.add(frozenset(key for key, lesson in found.items() if set(lesson.targets.tolist()) == {0.0, 1.0}))
        assert len(drawn) > 1

    def test_sources_that_were_read_before_change_nothing(self) -> None:
        mine = task(marked=8, name="mine", others=[task(name="other")])
        options = ExpNetParams(protocol="few_shot", marks=3)
        anew = curriculum_for(mine, options, 5)
        shared = curriculum_for(mine, options, 5, read_sources(mine, "few_shot", 5))
        assert anew.calibration == shared.calibration and anew.lessons.keys() == shared.lessons.keys()
        for key, lesson in anew.lessons.items():
            np.testing.assert_array_equal(lesson.targets, shared.lessons[key].targets)

    def test_the_marked_texts_can_be_named(self) -> None:
        mine = task(marked=8, name="mine", others=[task(name="other")])
        options = ExpNetParams(protocol="few_shot", pseudo_weight=2.0)
        found = curriculum_for(mine, options, 5, chosen=["train-2", "train-7"])
        by_people = {key for key, lesson in found.lessons.items() if set(lesson.targets.tolist()) == {0.0, 1.0}}
        assert by_people == {"train-2", "train-7"}
        assert sum(found.lessons[key].weight for key in by_people) == pytest.approx(0.5)
        with pytest.raises(DataError, match="none of the texts chosen has marks"):
            curriculum_for(mine, options, 5, chosen=["train-9"])

    @pytest.mark.parametrize("marks", [8, 100])
    def test_with_all_marks_it_is_in_domain(self, marks: int) -> None:
        mine = task(marked=8, name="mine", others=[task(name="other")])
        few = ExpNet(protocol="few_shot", marks=marks, epochs=2).fit(mine)
        own = ExpNet(protocol="in_domain", epochs=2).fit(mine)
        assert few.losses == own.losses and few.trained_on == own.trained_on == ["mine"]

    def test_a_task_without_marks(self) -> None:
        with pytest.raises(
            DataError, match="task 'bare', split 'train': no text has both a rationale and a right pred"
        ):
            ExpNet(protocol="few_shot").fit(task(gold={}, name="bare", others=[task(name="other")]))


class TestExplaining:
    @pytest.mark.parametrize(
        "options", [{}, {"select": 5}, {"context": 1}, {"layers": [1], "attention": "column"}], ids=str
    )
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_scores_are_the_network_s_output_on_the_word(self, kind: str, options: dict[str, Any]) -> None:
        of = tiny.classifier(kind)
        expnet = trained(of, **options)
        assert expnet.student is not None
        texts = [*tiny.TEXTS, *tiny.PAIRS]
        for found, text in zip(expnet.explain(of, texts), texts, strict=True):
            (encoding,) = of.encode([text])
            attention = batch_features(of, of.batch([encoding])).attention[0]
            attention = attention[:, columns_of(expnet.inputs, range(tiny.LAYERS), tiny.HEADS)]
            owners = np.array(encoding.word_ids)
            words = sorted(set(owners[owners >= 0].tolist()))
            x = torch.stack([(attention[owners == word].amax(0) + 1e-5).log() for word in words])
            expected = expnet.student(x, torch.zeros(len(x))).sigmoid()
            np.testing.assert_allclose(found.scores[words], expected, atol=1e-5)
            shown = owners[encoding.positions]
            for word in set(shown[shown >= 0].tolist()):
                np.testing.assert_array_equal(found.token_scores[shown == word], found.scores[word])

    @pytest.mark.parametrize("options", [{}, {"select": 5}, {"context": 1}, {"layers": [1]}], ids=str)
    def test_stored_features_give_the_scores_of_explain(self, options: dict[str, Any], tmp_path: Path) -> None:
        of = tiny.classifier("bert")
        expnet = trained(of, **options)
        expnet.calibration = (0.7, -0.4)
        examples = task(of=of).examples("train")
        write_features(tmp_path / "them.parquet", of, examples)
        source = read_feature_metadata(tmp_path / "them.parquet")
        for row, told in zip(read_features(tmp_path / "them.parquet"), expnet.explain(of, examples), strict=True):
            found = expnet.score_features(row, source, len(told.words))
            # The file holds attention in float16.
            np.testing.assert_allclose(found, told.scores, atol=1e-3)

    def test_words_that_were_not_read_have_the_lowest_score(self) -> None:
        expnet = trained()
        found = expnet.score_features(features("cut", [0, 2]), SOURCE, 4)
        assert found[1] == found[3] == min(found[0], found[2])

    def test_the_class_plays_no_part(self) -> None:
        of = tiny.classifier("bert", 3)
        expnet = trained(of)
        one, other = (list(expnet.explain(of, tiny.TEXTS, [target] * len(tiny.TEXTS))) for target in ("bad", "good"))
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a.scores, b.scores)
            assert (a.target, b.target) == ("bad", "good")

    def test_another_classifier_is_refused_but_for_checks(self) -> None:
        expnet, other = trained(), tiny.make_classifier("bert", seed=7)
        with pytest.raises(
            UnsupportedError, match="another classifier's attention; train one for the classifier given"
        ):
            list(expnet.explain(other, tiny.TEXTS))
        expnet.any_classifier = True
        assert len(list(expnet.explain(other, tiny.TEXTS))) == len(tiny.TEXTS)

    @pytest.mark.parametrize(
        ("config", "words"),
        [
            ({"num_attention_heads": 2}, "with 4 heads, the classifier has 2"),
            ({"num_hidden_layers": 2}, "with 3 layers"),
        ],
    )
    def test_a_classifier_of_another_architecture(self, config: dict[str, int], words: str) -> None:
        expnet = trained()
        expnet.any_classifier = True
        other = Classifier(tiny.model("bert", **config), tiny.tokenizer("bert"), CPU)
        with pytest.raises(UnsupportedError, match=words):
            list(expnet.explain(other, tiny.TEXTS))

    def test_untrained(self) -> None:
        with pytest.raises(ModelError, match="this ExpNet is not trained"):
            list(explearn.get_explainer("expnet").explain(tiny.classifier("bert"), tiny.TEXTS))


class TestFiles:
    def test_what_is_loaded_scores_the_same(self, tmp_path: Path) -> None:
        of = tiny.classifier("bert")
        expnet = trained(select=7, hidden=5, context=1, seed=2)
        expnet.save_pretrained(tmp_path / "it")
        loaded = explearn.get_explainer("expnet_in_domain", path=str(tmp_path / "it"))
        assert isinstance(loaded, ExpNet)
        for a, b in zip(expnet.explain(of, tiny.TEXTS), loaded.explain(of, tiny.TEXTS), strict=True):
            np.testing.assert_array_equal(a.scores, b.scores)
            assert b.method == "expnet_in_domain"
        assert loaded.all_options() == expnet.all_options()
        assert (loaded.inputs, loaded.trained_on, loaded.losses) == (expnet.inputs, expnet.trained_on, expnet.losses)
        assert loaded.classifier == of.fingerprint and loaded.calibration == expnet.calibration

    def test_an_untrained_one_cannot_be_saved(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="not trained; there is nothing to save"):
            ExpNet().save_pretrained(tmp_path / "it")
        assert list(tmp_path.iterdir()) == []

    @staticmethod
    def refused(folder: Path) -> str:
        with pytest.raises(ExplearnError) as caught:
            ExpNet.from_pretrained(folder)
        assert str(folder) in str(caught.value) and "\n" not in str(caught.value)
        assert isinstance(caught.value, ModelError)
        return str(caught.value)

    def test_no_folder_and_that_of_the_paper_s(self, tmp_path: Path) -> None:
        assert "not a trained ExpNet" in self.refused(tmp_path / "nothing")
        trained().save_pretrained(tmp_path / "it")
        config = json.loads((tmp_path / "it" / "config.json").read_text())
        (tmp_path / "it" / "config.json").write_text(json.dumps({**config, "explainer": "ExpNetPaper"}))
        assert "holds a ExpNetPaper" in self.refused(tmp_path / "it")

    @pytest.mark.parametrize(
        "change",
        [
            {"options": {"protocol": "other"}},
            {"options": {"hidden": 7}},
            {"options": None},
            {"encoder": {"layers": 3}},
            {"encoder": None},
            {"inputs": [[0, "row", 1]]},
            {"inputs": [[5, "row", 1]] * WIDTH},
            {"inputs": None},
            {"classifier": None, "trained_on": None},
        ],
        ids=str,
    )
    def test_a_configuration_that_does_not_fit(self, tmp_path: Path, change: dict[str, Any]) -> None:
        trained().save_pretrained(tmp_path / "it")
        path = tmp_path / "it" / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
        self.refused(tmp_path / "it")

    @pytest.mark.parametrize("name", ["offset", "network.1.weight"])
    def test_a_tensor_that_is_missing_or_not_finite(self, tmp_path: Path, name: str) -> None:
        trained().save_pretrained(tmp_path / "it")
        file = tmp_path / "it" / "expnet.safetensors"
        tensors = load_file(file)
        save_file({**tensors, name: torch.full_like(tensors[name], torch.nan)}, file)
        assert "not finite" in self.refused(tmp_path / "it")
        save_file({key: value for key, value in tensors.items() if key != name}, file)
        self.refused(tmp_path / "it")

"""ExpNet without marks of the task, and with a few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny
import torch
from expnet_cases import task

from explearn.core.errors import DataError, ParamsError
from explearn.methods.consensus.model import MarkedText, fit_model
from explearn.methods.consensus.params import ConsensusParams
from explearn.methods.expnet.explainer import ExpNet
from explearn.methods.expnet.params import ExpNetParams
from explearn.methods.expnet.targets import Curriculum, curriculum_for, read_sources, soft_targets
from explearn.methods.listed_task import ListedTask


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

    @pytest.mark.parametrize(
        ("value", "which"), [(False, "no word is marked in any"), (True, "every word is marked in")]
    )
    @pytest.mark.parametrize("protocol", ["few_shot", "in_domain"])
    def test_marks_of_one_class(self, protocol: Any, value: bool, which: str) -> None:
        gold = {key: (value,) * len(mask) for key, mask in task(marked=8).gold.items()}
        mine = task(gold=gold, name="mine", others=[task(name="other")])
        with pytest.raises(DataError, match=f"task 'mine', split 'train': {which}.* of the 8 texts"):
            ExpNet(protocol=protocol, marks=3).fit(mine)

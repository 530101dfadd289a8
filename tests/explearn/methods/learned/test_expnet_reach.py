"""The network of ExpNet that reads the hidden units of the words beside."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch
from pydantic import ValidationError

from explearn.methods.expnet.params import ExpNetParams
from explearn.methods.expnet.student import Student, Words, batches, train_student

CPU = torch.device("cpu")
TEXTS = torch.tensor([3, 3, 3, 3, 0, 0, 0, 5])


class TestReading:
    def test_a_text_s_scores_do_not_depend_on_the_texts_beside_it(self) -> None:
        student = Student(3, ExpNetParams(reach=2, hidden=4, networks=2)).freeze()
        for weight in student.around:
            weight.normal_()
        x = torch.randn(len(TEXTS), 3)
        together = student(x, TEXTS)
        for text in (3, 0, 5):
            alone = student(x[text == TEXTS], torch.zeros(int((text == TEXTS).sum())))
            torch.testing.assert_close(together[text == TEXTS], alone)

    def test_steps_take_whole_texts(self) -> None:
        texts = torch.arange(100) // 7
        steps = list(batches(texts, ExpNetParams(batch_size=30, reach=1)))
        assert sorted(torch.cat(steps).tolist()) == list(range(100))
        assert len(steps) == 4
        for step in steps:
            for text in texts[step].unique():
                assert step[texts[step] == text].tolist() == torch.where(texts == text)[0].tolist()

    @pytest.mark.parametrize("value", [6, -1, 1.5])
    def test_distances_out_of_range(self, value: float) -> None:
        with pytest.raises(ValidationError, match="reach"):
            ExpNetParams(reach=value)


def right(student: Student, words: Words) -> float:
    """Share of the words of which the student says whether they are marked."""
    with torch.inference_mode():
        return float(((student(words.inputs, words.texts) > 0) == words.targets.bool()).float().mean())


class TestLearning:
    OPTIONS: ClassVar = {
        "context": 0,
        "epochs": 40,
        "learning_rate": 0.01,
        "dropout": 0.0,
        "input_dropout": 0.0,
        "networks": 2,
        "hidden": 8,
    }

    def test_a_word_is_told_by_the_hidden_units_of_the_next(self) -> None:
        x = torch.randn(1000, 2, generator=torch.Generator().manual_seed(1))
        y = torch.cat([(x[1:, 0] > 0).float(), torch.zeros(1)])
        words = Words(x, torch.arange(1000) // 50, y, torch.ones(1000))
        for reach, least, most in ((0, 0.3, 0.7), (1, 0.9, 1.0)):
            student, losses = train_student(words, ExpNetParams(reach=reach, **self.OPTIONS), 13, CPU)
            assert least <= right(student, words) <= most
            assert losses[-1] < losses[0]

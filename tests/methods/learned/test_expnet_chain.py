"""Marks that hang together: the chain over a text's words, and the network that reads its neighbours' units."""

from __future__ import annotations

from itertools import product
from typing import ClassVar

import pytest
import torch
from pydantic import ValidationError

from explearn.methods.expnet.chain import Chain
from explearn.methods.expnet.params import ExpNetParams
from explearn.methods.expnet.student import Student, Words, batches, shift_in, train_student

CPU = torch.device("cpu")
TEXTS = torch.tensor([3, 3, 3, 3, 0, 0, 0, 5])


def chain(rounds: int) -> tuple[Chain, torch.Tensor]:
    """With weights and logits drawn at random, for two networks and the words of TEXTS."""
    generator = torch.Generator().manual_seed(1)
    made = Chain(2, rounds).requires_grad_(False)
    made.steps.copy_(torch.randn(3, 2, generator=generator))
    return made, 2 * torch.randn(len(TEXTS), 2, generator=generator)


def every_marking(made: Chain, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """All markings of one text, (markings, words), and the logarithm of the probability of each, (markings, 2)."""
    marks = torch.tensor(list(product([0.0, 1.0], repeat=len(logits))))
    to_mark, from_mark, stay = made.steps
    total = marks @ logits
    for one, next_one in zip(marks.T[:-1], marks.T[1:], strict=True):
        total = total + ((1 - one) * next_one)[:, None] * to_mark
        total = total + (one * (1 - next_one))[:, None] * from_mark + (one * next_one)[:, None] * stay
    return marks, total.log_softmax(0)


class TestChain:
    def test_log_odds_are_those_of_all_markings_counted(self) -> None:
        made, logits = chain(rounds=4)
        found = made(logits, shift_in(TEXTS))
        for text in (3, 0, 5):
            marks, log_p = every_marking(made, logits[text == TEXTS])
            p = torch.einsum("mw,mn->wn", marks, log_p.exp())
            torch.testing.assert_close(found[text == TEXTS], (p / (1 - p)).log(), atol=1e-5, rtol=1e-5)

    def test_the_loss_is_that_of_the_text_s_marks_together(self) -> None:
        made, logits = chain(rounds=4)
        marked = torch.tensor([1.0, 0, 1, 1, 0, 0, 1, 1])
        found = made.loss(logits, marked[:, None], shift_in(TEXTS))
        for text in (3, 0, 5):
            marks, log_p = every_marking(made, logits[text == TEXTS])
            (which,) = torch.where((marks == marked[text == TEXTS]).all(1))[0]
            torch.testing.assert_close(found[text == TEXTS].sum(0), -log_p[which], atol=1e-5, rtol=1e-5)

    def test_marks_between_0_and_1_have_the_loss_that_drawn_ones_have_on_average(self) -> None:
        made, logits = chain(rounds=4)
        text = torch.zeros(2)
        found = made.loss(logits[:2], torch.tensor([[0.3], [0.8]]), shift_in(text))
        each = {
            (one, two): made.loss(logits[:2], torch.tensor([[one], [two]]), shift_in(text)).sum(0)
            for one, two in product([0.0, 1.0], repeat=2)
        }
        drawn = 0.7 * 0.2 * each[0, 0] + 0.7 * 0.8 * each[0, 1] + 0.3 * 0.2 * each[1, 0] + 0.3 * 0.8 * each[1, 1]
        torch.testing.assert_close(found.sum(0), drawn)

    def test_words_further_off_than_the_rounds_do_not_count(self) -> None:
        made, logits = chain(rounds=1)
        text = torch.zeros(len(logits))
        changed = logits.clone()
        changed[0] += 3
        same = made(logits, shift_in(text)) == made(changed, shift_in(text))
        assert same.all(1).tolist() == [False, False, *[True] * 6]

    def test_without_weights_each_word_is_marked_by_itself(self) -> None:
        made, logits = Chain(2, 3).requires_grad_(False), torch.randn(8, 2)
        assert torch.equal(made(logits, shift_in(TEXTS)), logits)
        marks = (torch.arange(8) % 2)[:, None].float()
        torch.testing.assert_close(
            made.loss(logits, marks, shift_in(TEXTS)),
            torch.nn.functional.binary_cross_entropy_with_logits(logits, marks.expand(8, 2), reduction="none"),
        )


class TestReading:
    def test_a_text_s_scores_do_not_depend_on_the_texts_beside_it(self) -> None:
        student = Student(3, ExpNetParams(reach=2, chain=4, hidden=4, networks=2)).freeze()
        for weight in student.around:
            weight.normal_()
        assert student.chain is not None
        student.chain.steps.normal_()
        x = torch.randn(len(TEXTS), 3)
        together = student(x, TEXTS)
        for text in (3, 0, 5):
            alone = student(x[text == TEXTS], torch.zeros(int((text == TEXTS).sum())))
            torch.testing.assert_close(together[text == TEXTS], alone)

    @pytest.mark.parametrize("option", ["reach", "chain"])
    def test_steps_take_whole_texts(self, option: str) -> None:
        texts = torch.arange(100) // 7
        steps = list(batches(texts, ExpNetParams(batch_size=30, **{option: 1})))
        assert sorted(torch.cat(steps).tolist()) == list(range(100))
        assert len(steps) == 4
        for step in steps:
            for text in texts[step].unique():
                assert step[texts[step] == text].tolist() == torch.where(texts == text)[0].tolist()

    @pytest.mark.parametrize(("name", "value"), [("reach", 6), ("reach", -1), ("chain", 21), ("chain", 1.5)])
    def test_distances_out_of_range(self, name: str, value: float) -> None:
        with pytest.raises(ValidationError, match=name):
            ExpNetParams(**{name: value})


def right(student: Student, words: Words) -> float:
    """Share of the words of which the student says whether they are marked."""
    with torch.inference_mode():
        return float(((student(words.inputs, words.texts) > 0) == words.targets.bool()).float().mean())


def phrases(texts: int, seed: int) -> Words:
    """Texts of 12 words with one phrase of 4 marked; a word's own number tells little."""
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(0, 9, (texts, 1), generator=generator)
    places = torch.arange(12)
    y = ((places >= starts) & (places < starts + 4)).float().flatten()
    x = 1.5 * y + torch.randn(len(y), generator=generator)
    return Words(x[:, None], torch.arange(texts).repeat_interleave(12), y, torch.ones(len(y)))


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

    def test_what_hangs_together_is_found_better_as_a_chain(self) -> None:
        learned, unseen = phrases(300, 1), phrases(300, 2)
        found = {
            rounds: train_student(learned, ExpNetParams(chain=rounds, **self.OPTIONS), 13, CPU)[0] for rounds in (0, 6)
        }
        assert right(found[6], unseen) > right(found[0], unseen) + 0.05
        assert found[6].chain is not None
        to_mark, from_mark, stay = found[6].chain.steps.mean(1).tolist()
        assert stay > to_mark + from_mark

    def test_a_word_is_told_by_the_hidden_units_of_the_next(self) -> None:
        x = torch.randn(1000, 2, generator=torch.Generator().manual_seed(1))
        y = torch.cat([(x[1:, 0] > 0).float(), torch.zeros(1)])
        words = Words(x, torch.arange(1000) // 50, y, torch.ones(1000))
        for reach, least, most in ((0, 0.3, 0.7), (1, 0.9, 1.0)):
            student, losses = train_student(words, ExpNetParams(reach=reach, **self.OPTIONS), 13, CPU)
            assert least <= right(student, words) <= most
            assert losses[-1] < losses[0]

"""L2E's losses, network and texts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tiny
import torch

from explearn.methods.l2e.losses import labelling_loss, ranking_loss
from explearn.methods.l2e.student import Block, Student, initialise, local_attention, principal_embeddings
from explearn.methods.l2e.training import (
    StudentLesson,
    agreement_with,
    collate,
    inside,
    student_lesson,
    student_text,
    token_scores,
)
from explearn.text.alignment import NO_WORD


class TestLosses:
    def test_labelling_by_hand(self) -> None:
        """Even logits: -log(1/5) whatever the level. A sure logit: 0 where right, the logit's size where wrong."""
        logits = torch.zeros(1, 4, 5)
        logits[0, 1, 4] = logits[0, 2, 0] = 100.0
        levels = torch.tensor([[0, 2, 2, -2]])
        everything = torch.tensor([[True, True, True, False]])
        assert labelling_loss(logits, levels, everything).item() == pytest.approx((math.log(5) + 0 + 100) / 3)

    def test_ranking_by_hand(self) -> None:
        """Pairs (0,1), (0,2), (1,2); the heavier one is 0, 0 and 2: v_k against the other's v."""
        values, weights = [1.0, 0.0, -2.0], [3.0, 1.0, 2.0]
        expected = [-math.log(math.exp(k) / (math.exp(k) + math.exp(o))) for k, o in ((1, 0), (1, -2), (-2, 0))]
        found = ranking_loss(torch.tensor([values]), torch.tensor([weights]), torch.ones(1, 3, dtype=torch.bool))
        assert found.item() == pytest.approx(sum(expected) / 3)

    def test_ranking_skips_padding_and_equal_weights_and_averages_over_texts(self) -> None:
        values = torch.tensor([[0.0, 1.0, 7.0], [5.0, 5.0, 5.0]])
        weights = torch.tensor([[2.0, 1.0, 9.0], [1.0, 1.0, 1.0]])
        known = torch.tensor([[True, True, False], [True, True, True]])
        # The second text has no pair; the first has one, wrongly ordered by 1.
        assert ranking_loss(values, weights, known).item() == pytest.approx(math.log(1 + math.e))

    def test_ranking_of_a_batch_is_the_loop_over_its_pairs(self) -> None:
        generator = torch.Generator().manual_seed(0)
        values, weights = torch.randn(3, 6, generator=generator), torch.randn(3, 6, generator=generator)
        known = torch.rand(3, 6, generator=generator) < 0.8
        means = []
        for v, w, seen in zip(values.tolist(), weights.tolist(), known.tolist(), strict=True):
            pairs = [(i, j) for i in range(6) for j in range(i + 1, 6) if seen[i] and seen[j]]
            losses = []
            for i, j in pairs:
                k = i if w[i] > w[j] else j
                losses.append(-math.log(math.exp(v[k]) / (math.exp(v[i]) + math.exp(v[j]))))
            means.append(sum(losses) / len(losses))
        assert ranking_loss(values, weights, known).item() == pytest.approx(sum(means) / 3, rel=1e-5)

    def test_no_pair_at_all_gives_zero_and_a_finite_gradient(self) -> None:
        values = torch.zeros(1, 1, requires_grad=True)
        ranking_loss(values, torch.ones(1, 1), torch.ones(1, 1, dtype=torch.bool)).backward()
        assert values.grad is not None and values.grad.tolist() == [[0.0]]


class TestStudent:
    @pytest.mark.parametrize("tokens", [2, 5, 8, 13])
    @pytest.mark.parametrize("window", [1, 3, 4, 20])
    def test_local_attention_is_whole_attention_under_a_band_mask(self, tokens: int, window: int) -> None:
        generator = torch.Generator().manual_seed(tokens)
        q, k, v = (torch.randn(3, 2, tokens, 4, generator=generator) for _ in range(3))
        lengths = torch.tensor([tokens, max(2, tokens - 3), 2])
        positions = torch.arange(tokens)
        real = positions < lengths[:, None]
        ends = torch.stack([torch.zeros_like(lengths), lengths - 1], 1)
        at_end = (positions == ends[:, :1]) | (positions == ends[:, 1:])
        near = (positions[:, None] - positions).abs() <= window
        mask = (near | at_end[:, :, None] | at_end[:, None, :]) & real[:, None, :]
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask[:, None])
        found = local_attention(q, k, v, real, ends, window)
        kept = real[:, None, :, None]
        torch.testing.assert_close(found * kept, expected * kept)

    @pytest.mark.parametrize("window", [None, 2])
    def test_padding_changes_nothing(self, window: int | None) -> None:
        student = Student(20, 2, 5, 2, 2, 16, 16, window, 0.0).eval()
        initialise(student, 0)
        alone = student(*collate([[20, 3, 4, 20]], torch.device("cpu")))
        beside = student(*collate([[20, 3, 4, 20], [21, *range(9), 21]], torch.device("cpu")))
        torch.testing.assert_close(beside[:1, :4], alone)

    @pytest.mark.slow
    def test_the_local_student_reads_thousands_of_tokens_in_linear_memory(self) -> None:
        """Whole attention over 20,000 tokens would hold 400 million weights a head."""
        block = Block(16, 2, 16, 0.0, window=64).eval()
        n = 20_000
        with torch.inference_mode():
            found = block(torch.randn(1, n, 16), torch.ones(1, n, dtype=torch.bool), torch.tensor([[0, n - 1]]))
        assert torch.isfinite(found).all()

    def test_the_label_token_decides_too(self) -> None:
        student = Student(20, 2, 5, 2, 2, 16, 16, None, 0.0).eval()
        initialise(student, 0)
        no, yes = (student(*collate([[label, 3, 4, label]], torch.device("cpu"))) for label in (20, 21))
        assert not torch.allclose(no[0, 1:3], yes[0, 1:3])

    def test_principal_embeddings_keep_distances_up_to_a_scale(self) -> None:
        table = torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
        found = principal_embeddings(table, 8)
        assert found.shape == (50, 8)
        ratio = torch.cdist(found, found) / torch.cdist(table, table).clamp_min(1e-9)
        off = ~torch.eye(50, dtype=torch.bool)
        torch.testing.assert_close(ratio[off], ratio[off].mean().expand(50 * 49), rtol=1e-3, atol=1e-4)


class TestTexts:
    def test_label_tokens_stand_for_the_special_tokens_around_a_text(self) -> None:
        (encoding,) = tiny.classifier("bert").encode(["the quick brown fox"])
        text = student_text(encoding, 1, 1000)
        assert text.ids == (1001, *encoding.input_ids[1:-1], 1001)
        assert text.first == 1

    @pytest.mark.parametrize("kind", ["bert", "roberta"])
    def test_a_pair_keeps_the_separators_inside(self, kind: str) -> None:
        (encoding,) = tiny.classifier(kind).encode([("the fox sleeps", "a dog")])
        assert student_text(encoding, 0, 1000).ids == (1000, *encoding.input_ids[1:-1], 1000)

    def test_every_piece_learns_its_word_s_level(self) -> None:
        (encoding,) = tiny.classifier("bert").encode(["unbelievably slow delivery"])
        lesson = student_lesson(encoding, 0, np.array([3.0, -1.0, 1.0]), True, False, 1000)
        assert lesson.levels.tolist() == [2, -2, 1]
        pieces = [word for word in encoding.word_ids if word != NO_WORD]
        assert lesson.owner.tolist() == [NO_WORD, *pieces, NO_WORD]
        assert pieces.count(0) > 1

    def test_ranking_by_magnitude_learns_the_order_of_absolute_weights(self) -> None:
        (encoding,) = tiny.classifier("bert").encode(["slow lazy fox"])
        weights = np.array([-3.0, 1.0, 2.0])
        assert student_lesson(encoding, 0, weights, True, True, 9).weights.tolist() == [3, 1, 2]
        assert student_lesson(encoding, 0, weights, True, False, 9).weights.tolist() == [-3, 1, 2]

    def test_scores_by_hand(self) -> None:
        """Half high positive, half neutral: an expected level of 1. Strengths of 1 and 3: shares of 1/4 and 3/4."""
        outputs = torch.full((1, 1, 5), -100.0)
        outputs[0, 0, 2] = outputs[0, 0, 4] = 5.0
        assert token_scores(outputs, torch.tensor([[True]]), "labelling").item() == pytest.approx(1.0)
        values = torch.tensor([[[9.0], [0.0], [math.log(3)], [9.0]]])
        real = inside(torch.tensor([4]), 4)
        assert token_scores(values, real, "ranking")[0].tolist() == pytest.approx([0, 0.25, 0.75, 0])

    def test_agreement_is_spearman_s_rho_of_word_scores(self) -> None:
        class Fixed(Student):
            def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
                return torch.tensor([[[0.0], [1.0], [5.0], [2.0], [3.0], [0.0]]])

        student = Fixed(9, 2, 1, 1, 2, 16, 16, None, 0.0)
        # Words 0, 0, 1, 2: the student scores them 5, 2, 3; the teacher's order is 1, 2, 3: rho = -1/2.
        lesson = StudentLesson(
            (9, 1, 2, 3, 4, 9), np.array([-1, 0, 0, 1, 2, -1]), np.array([1.0, 2.0, 3.0]), np.zeros(3, np.int8)
        )
        found = agreement_with(student, [lesson], "ranking", 4, torch.device("cpu"))
        assert found == pytest.approx(-0.5)
        assert agreement_with(student, [], "ranking", 4, torch.device("cpu")) is None

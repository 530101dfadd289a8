"""IvRA's losses and its pilot update."""

from __future__ import annotations

import math
from typing import Any

import pytest
import tiny
import torch
from ivra_cases import batch_of, module_of
from scipy.spatial.distance import pdist
from scipy.stats import pearsonr, spearmanr

from explearn.core.errors import ModelError
from explearn.lens.gradients import content_mask
from explearn.methods.ivra import objectives
from explearn.methods.ivra.simulation import BagStudent, EncoderStudent, pilot, simulation_loss, trainable


class TestLosses:
    @pytest.mark.parametrize(
        ("shortened", "whole", "expected"), [(0.5, 0.5, 1.0), (1.0, 0.5, 0.5), (9.0, 0.5, 0.0), (0.0, 0.5, 1.5)]
    )
    def test_comprehensiveness_rewards_loss_without_the_words(
        self, shortened: float, whole: float, expected: float
    ) -> None:
        found = objectives.comprehensiveness_loss(torch.tensor([shortened]), torch.tensor([whole]), 1.0)
        assert found.tolist() == pytest.approx([expected])

    @pytest.mark.parametrize(
        ("variant", "odds", "expected"),
        [
            # The text has p = 3/4, the words alone 1/2, 3/4 and 9/10.
            ("margin", 1.0, 0.1 + math.log(2 / 1) - math.log(4 / 3)),
            ("margin", 3.0, 0.1),
            ("margin", 9.0, 0.0),
            ("mae", 1.0, math.log(2) - math.log(4 / 3)),
            ("mae", 9.0, math.log(4 / 3) - math.log(10 / 9)),
            ("kl", 3.0, 0.0),
            ("kl", 1.0, 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)),
        ],
    )
    def test_sufficiency_penalises_loss_with_the_words_alone(self, variant: Any, odds: float, expected: float) -> None:
        whole = torch.tensor([[0.0, math.log(3)]])
        found = objectives.sufficiency_loss(
            torch.tensor([[0.0, math.log(odds)]]), whole, torch.tensor([1]), 0.1, variant
        )
        assert found.tolist() == pytest.approx([expected], abs=1e-6)

    def test_consistency_is_the_divergence_over_the_distance(self) -> None:
        r = torch.tensor([[0.5, 0.5, 0.0], [0.25, 0.75, 0.0]])
        states = torch.tensor([[0.0, 3.0], [4.0, 0.0]])
        there = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
        back = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
        found = objectives.consistency_loss(r, states, 0.1)
        assert float(found) == pytest.approx((there + back) / 2 / 5.1, rel=1e-5)

    def test_consistency_has_a_gradient_for_texts_that_are_alike(self) -> None:
        r = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], requires_grad=True)
        states = torch.ones(3, 4, requires_grad=True)
        objectives.consistency_loss(r, states, 0.1).backward()
        assert r.grad is not None and states.grad is not None
        assert torch.isfinite(r.grad).all() and torch.isfinite(states.grad).all()

    def test_correlation_is_that_of_distances(self) -> None:
        generator = torch.Generator().manual_seed(0)
        r, states = torch.rand(6, 4, generator=generator), torch.rand(6, 5, generator=generator)
        expected = 1 - pearsonr(pdist(r.numpy()), pdist(states.numpy())).statistic
        assert float(objectives.correlation_loss(r, states)) == pytest.approx(expected, abs=1e-4)
        alike = torch.ones(3, 4, requires_grad=True)
        objectives.correlation_loss(alike, states[:3]).backward()
        assert alike.grad is not None and alike.grad.isfinite().all()

    def test_rank_correlation_is_nearer_to_spearman_than_to_pearson(self) -> None:
        generator = torch.Generator().manual_seed(0)
        states = torch.rand(12, 5, generator=generator)
        # Two far groups: their distance decides Pearson's correlation, the order within them most of the ranks.
        r = torch.rand(12, 4, generator=generator) + 5.0 * (torch.arange(12) < 6)[:, None]
        states = states + 5.0 * (torch.arange(12) < 6)[:, None]
        spearman = spearmanr(pdist(r.numpy()), pdist(states.numpy())).statistic
        pearson = pearsonr(pdist(r.numpy()), pdist(states.numpy())).statistic
        assert abs(spearman - pearson) > 0.1
        found = 1 - float(objectives.rank_correlation_loss(r, states))
        assert abs(found - spearman) < abs(found - pearson)
        assert float(objectives.rank_correlation_loss(states, states)) == pytest.approx(0.0, abs=1e-5)
        assert float(objectives.rank_correlation_loss(torch.ones(3, 4), states[:3])) == pytest.approx(1.0, abs=1e-5)

    def test_rank_correlation_has_a_gradient_for_texts_that_are_alike(self) -> None:
        alike = torch.ones(3, 4, requires_grad=True)
        states = torch.rand(3, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
        objectives.rank_correlation_loss(alike, states).backward()
        assert alike.grad is not None and alike.grad.isfinite().all()
        assert states.grad is not None and states.grad.isfinite().all()

    def test_clustering_draws_a_class_together_and_others_apart(self) -> None:
        r = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        # Squared distances: 2 between the first and each other, else 0.
        assert float(objectives.clustering_loss(r, torch.tensor([0, 1, 1]))) == pytest.approx(-2.0)
        assert float(objectives.clustering_loss(r, torch.tensor([0, 0, 1]))) == pytest.approx((0.0 + 2.0 - 1.0) / 3)
        assert float(objectives.clustering_loss(r, torch.tensor([0, 0, 0]))) == pytest.approx((2 + 1 + 1) / 3)

    def test_a_loss_that_is_not_finite_names_step_term_and_texts(self) -> None:
        texts = {"task": ["a1", "a2"], "comp": ["b1", "b2"]}
        with pytest.raises(ModelError, match=r"step 7: the loss 'comp' is nan; .*: b1, b2$"):
            objectives.check_finite({"task": torch.tensor(1.0), "comp": torch.tensor(math.nan)}, 7, texts)


class TestPilotUpdate:
    @pytest.mark.parametrize("kind", ["bag", "encoder"])
    @pytest.mark.parametrize("steps", [1, 3])
    def test_its_gradient_is_that_of_finite_differences(self, kind: str, steps: int) -> None:
        """Of the student's loss after its steps, with respect to the explanations that it was shown."""
        classifier = tiny.make_classifier(initial := "bert")
        classifier.model.double()
        shown, asked = batch_of(classifier, tiny.TEXTS[:2]), batch_of(classifier, tiny.TEXTS[2:4])
        if kind == "bag":
            table = classifier.model.get_input_embeddings().weight.detach()
            student: Any = BagStudent(table, shown.input_ids.flatten(), 2, 6, seed=0).double()
        else:
            student = EncoderStudent(tiny.model(initial, seed=5), module_of(classifier)).double()
        generator = torch.Generator().manual_seed(3)
        learned = {
            name: (p + 0.1 * torch.randn(p.shape, generator=generator, dtype=p.dtype)).detach().requires_grad_()
            for name, p in trainable(student).items()
        }
        content = content_mask(shown)
        free = torch.randn(content.shape, generator=generator, dtype=torch.float64, requires_grad=True)
        other = content_mask(asked).double() / content_mask(asked).sum(1, keepdim=True)
        classes = torch.tensor([0, 1])

        def explanation(logits: torch.Tensor) -> torch.Tensor:
            return logits.masked_fill(~content, -math.inf).softmax(-1)

        def after(logits: torch.Tensor) -> torch.Tensor:
            ahead = pilot(
                lambda p: simulation_loss(student, p, shown, classes, explanation(logits), 1.0), learned, 0.3, steps
            )
            return simulation_loss(student, ahead, asked, classes.flip(0), other, 1.0)

        (gradient,) = torch.autograd.grad(after(free), free)
        for row, position in ((0, 1), (1, 3)):
            step = torch.zeros_like(free)
            step[row, position] = 1e-4
            slope = (after(free.detach() + step) - after(free.detach() - step)) / 2e-4
            assert float(gradient[row, position]) == pytest.approx(float(slope.detach()), rel=1e-3, abs=1e-9)
            assert float(gradient[row, position]) != 0

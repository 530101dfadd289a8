"""The parts that the training loops share."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from explearn.methods.base.training import LARGEST_GRADIENT, BestWeights, descend, seeded


def test_the_best_weights_come_back_and_what_is_frozen_stays() -> None:
    learning, frozen = nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False)
    best = BestWeights(learning, frozen)
    before = learning.weight.detach().clone()
    best.keep()
    with torch.no_grad():
        learning.weight.zero_()
        frozen.weight.zero_()
    best.restore()
    assert torch.equal(learning.weight, before)
    assert not frozen.weight.any()


def test_gradients_are_cut_all_together() -> None:
    weights = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))]
    found: list[float] = []
    loss = 30 * weights[0].sum() + 40 * weights[1].sum()
    descend(loss, torch.optim.SGD(weights, lr=1.0), weights, lambda norm: found.append(float(norm)))
    # sqrt(2 30^2 + 2 40^2)
    assert found == [pytest.approx(5000**0.5)]
    assert float(torch.cat(weights).norm()) == pytest.approx(LARGEST_GRADIENT, rel=1e-4)


def test_a_check_that_fails_takes_no_step() -> None:
    weight = nn.Parameter(torch.ones(1))

    def refuse(norm: torch.Tensor) -> None:
        raise ValueError(float(norm))

    with pytest.raises(ValueError, match="inf"):
        descend(weight.sum() * torch.inf, torch.optim.SGD([weight], lr=1.0), [weight], refuse)
    assert weight.item() == 1.0


def test_the_global_generator_is_left_as_it_was() -> None:
    state = torch.get_rng_state()
    with seeded(3, torch.device("cpu")):
        first = torch.rand(2)
    assert torch.equal(state, torch.get_rng_state())
    with seeded(3, torch.device("cpu")):
        assert torch.equal(first, torch.rand(2))

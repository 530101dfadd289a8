"""The parts that the training loops share."""

from __future__ import annotations

import torch
from torch import nn

from explearn.methods.base.training import BestWeights, seeded


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


def test_the_global_generator_is_left_as_it_was() -> None:
    state = torch.get_rng_state()
    with seeded(3, torch.device("cpu")):
        first = torch.rand(2)
    assert torch.equal(state, torch.get_rng_state())
    with seeded(3, torch.device("cpu")):
        assert torch.equal(first, torch.rand(2))

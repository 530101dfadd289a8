"""Draws that depend on a seed alone."""

import random

import numpy as np
import torch

from explearn.core.seeds import hash_order, seed_everything


def test_a_seed_makes_every_generator_start_anew():
    def draw():
        return random.random(), float(np.random.rand()), float(torch.rand(1))

    seed_everything(4)
    first = draw()
    assert draw() != first
    seed_everything(4)
    assert draw() == first


def test_an_order_depends_on_each_id_and_the_seed():
    ids = [str(number) for number in range(9)]
    order = hash_order(ids, 1)
    assert sorted(order) == ids and hash_order(ids[::-1], 1) == order != hash_order(ids, 2)
    assert hash_order(ids[:5], 1) == [item for item in order if item in ids[:5]]

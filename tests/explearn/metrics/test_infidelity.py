"""Infidelity: captum's figures, and what sharing perturbed inputs may not change."""

import numpy as np
import pytest
import torch
from captum.metrics import infidelity as captum_infidelity
from fakes import MASK, encode, random_probability

from explearn.metrics.infidelity import draw_masks, infidelity_of_text

WORDS = ("a", "fine", "film", "but", "long")


def test_one_text_is_captums_normalised_infidelity():
    rng = np.random.default_rng(0)
    encoding = encode(WORDS)
    scores = rng.normal(size=5)
    masks = draw_masks(5, 12, rng)

    def p_yes(gates):
        rows = [encoding.mask(np.flatnonzero(row.numpy() < 0.5), MASK) for row in gates]
        return torch.tensor([random_probability(row)[1] for row in rows])

    inputs = torch.ones(1, 5, dtype=torch.float64)
    drawn = torch.from_numpy(masks.astype(np.float64))
    expected = captum_infidelity(
        p_yes,
        lambda x: (drawn, x - drawn),
        inputs,
        torch.from_numpy(scores)[None],
        n_perturb_samples=12,
        normalize=True,
    )
    drops = [
        random_probability(encoding)[1] - random_probability(encoding.mask(np.flatnonzero(m), MASK))[1] for m in masks
    ]
    assert infidelity_of_text(scores, masks, drops) == pytest.approx(float(expected), rel=1e-9)


def test_scores_that_add_up_to_the_drops_have_none_in_any_unit():
    weights = np.array([0.3, 0.1, 0.0, 0.2, 0.05])
    masks = draw_masks(5, 20, np.random.default_rng(1))
    for unit in (1.0, -7.0, 1e6):
        assert infidelity_of_text(unit * weights, masks, masks @ weights) == pytest.approx(0, abs=1e-12)
    # Scores of 0 predict nothing.
    assert infidelity_of_text(np.zeros(5), masks, masks @ weights) == pytest.approx(((masks @ weights) ** 2).mean())


def test_every_mask_takes_a_word_and_sizes_are_even():
    masks = draw_masks(4, 8000, np.random.default_rng(0))
    assert masks.shape == (8000, 4) and masks.any(axis=1).all()
    # The share of a size has a standard deviation of sqrt(.25 * .75 / 8000) = .005.
    assert np.bincount(masks.sum(axis=1))[1:] / 8000 == pytest.approx([0.25] * 4, abs=0.03)

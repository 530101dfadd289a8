"""The reliability of Reader's scores for a text, learned from texts held out of its training.

b = batch, n = tokens.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from explearn.core.arrays import Array
from explearn.core.attribution_fields import COVERAGE
from explearn.methods.base.training import Standardised

FAMILIAR = 0.99
"""Share of the texts held out that count as like the training texts."""

LEAST_ERROR = 0.01
"""Value added to an error before the logarithm, so that smaller errors hardly differ."""

RIDGE = 1.0
"""Penalty of the regressions, on standardised features."""

FEATURES = 6
"""Number of features of a text."""


class Certifier(Standardised):
    """A ridge regression on six numbers of a text, and the distance of its hidden units from the training texts'.

    The numbers: logarithms of the text's length and of the distance; the answer; the sum of the scores, the sum of
    their absolute values, and the largest. They predict the logarithm of the error of the top words.

    Args:
        width: number of the hidden units.
    """

    def __init__(self, width: int) -> None:
        super().__init__(FEATURES)
        self.centre = nn.Buffer(torch.zeros(width))
        self.precision = nn.Buffer(torch.eye(width))
        self.furthest = nn.Buffer(torch.zeros(()))
        self.weights = nn.Buffer(torch.zeros(FEATURES + 1))
        self.margin = nn.Buffer(torch.zeros(()))

    def distance(self, units: Tensor) -> Tensor:
        """Return the squared Mahalanobis distance of hidden units, (b, width), from the training texts', (b,)."""
        away = units - self.centre
        return ((away @ self.precision) * away).sum(-1)

    def features(self, units: Tensor, text: Tensor, scores: Tensor, answer: Tensor) -> Tensor:
        """Return the six numbers, (b, 6).

        Args:
            units: hidden units, (b, width).
            text: bool, (b, n), True at sub-tokens of words.
            scores: scores for the target, (b, n).
            answer: probability of the target, of a regression its value, (b,).
        """
        scores = torch.where(text, scores, 0.0)
        columns = [
            text.sum(-1).clamp_min(1).log().to(scores.dtype),
            self.distance(units).clamp_min(1e-6).log(),
            answer.to(scores.dtype),
            scores.sum(-1),
            scores.abs().sum(-1),
            scores.amax(-1),
        ]
        return torch.stack(columns, -1)

    def forward(self, features: Tensor) -> Tensor:
        """Return the bound, and 1 where a text is familiar, else 0, (b, 2)."""
        error = self.standardise(features) @ self.weights[:-1] + self.weights[-1]
        bound = ((error + self.margin).clamp_max(10).exp() - LEAST_ERROR).clamp_min(0)
        familiar = (features[:, 1] <= self.furthest).to(bound.dtype)
        return torch.stack([bound, familiar], -1)

    def fit_distance(self, units: Array) -> None:
        """Learn where the training texts lie, from their units, (texts, width) (Lee et al. 2018, section 2.1)."""
        from sklearn.covariance import LedoitWolf  # takes a second to import

        estimate = LedoitWolf().fit(units)
        self.centre.copy_(torch.from_numpy(estimate.location_))
        self.precision.copy_(torch.from_numpy(estimate.precision_))

    def fit_texts(self, features: Tensor, errors: Array) -> None:
        """Fit the regression and the margin to texts held out.

        The margin is the 90 % quantile of each text's residual under the regression on all other texts (the jackknife,
        as in Barber et al. 2021), which uses all texts held out where a split would take half.

        Args:
            features: (texts, 6).
            errors: (texts,), the absolute error of the top words' scores together.
        """
        self.furthest.fill_(float(features[:, 1].double().quantile(FAMILIAR)))
        self.fit_inputs(features)
        inputs = self.standardise(features).double().numpy()
        weights, residuals = _ridge(inputs, np.log(errors + LEAST_ERROR))
        self.weights.copy_(torch.from_numpy(weights))
        rank = math.ceil((len(residuals) + 1) * COVERAGE)
        self.margin.fill_(float(np.sort(residuals)[min(rank, len(residuals)) - 1]))


def _ridge(inputs: Array, values: Array) -> tuple[Array, Array]:
    """Return weights, the intercept last, and the residual of each text under the regression on all others."""
    x = np.concatenate([inputs, np.ones((len(inputs), 1))], 1)
    inverse = np.linalg.inv(x.T @ x + RIDGE * np.diag([1.0] * inputs.shape[1] + [0.0]))
    weights = inverse @ x.T @ values
    return weights, (values - x @ weights) / (1 - np.einsum("ij,jk,ik->i", x, inverse, x))

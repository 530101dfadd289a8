"""Marks that hang together: people mark phrases, so that a word beside a marked one is likelier to be marked, too."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import softplus

Shift = Callable[[torch.Tensor, int], torch.Tensor]
"""Of numbers of words, (..., networks), and a distance: those of the word so many places further on in the same text,
0 where there is none."""


class Chain(nn.Module):
    """A linear-chain conditional random field over the marks y of a text's words, one for each of several networks.

    log p(y) = sum_i y_i z_i + sum_i T[y_i, y_i+1] - log Z, with z the networks' logits and T[0, 0] = 0 (Lafferty,
    McCallum and Pereira 2001, "Conditional Random Fields"). With T = 0 each word is marked by itself.

    Messages (Pearl 1988) go `rounds` words to each side, so that no loop over a text is as long as the text; with as
    many rounds as the text has words all is exact.

    Attributes:
        steps: T[0, 1], T[1, 0], T[1, 1], (3, networks).
    """

    def __init__(self, networks: int, rounds: int) -> None:
        super().__init__()
        self.rounds = rounds
        self.steps = nn.Parameter(torch.zeros(3, networks))

    def forward(self, logits: torch.Tensor, shift: Shift) -> torch.Tensor:
        """log-odds that a word is marked, all others left open, (..., networks), from z of the same shape."""
        to_mark, from_mark, stay = self.steps
        after = shift(torch.ones_like(logits), 1)
        ahead = torch.zeros_like(logits)
        for _ in range(self.rounds):
            one = shift(logits + ahead, 1)
            ahead = (from_mark + softplus(stay - from_mark + one) - softplus(to_mark + one)) * after
        return logits + self._from_before(logits, shift) + ahead

    def _from_before(self, logits: torch.Tensor, shift: Shift) -> torch.Tensor:
        """What the words before say of a word's log-odds, (..., networks)."""
        to_mark, from_mark, stay = self.steps
        before = shift(torch.ones_like(logits), -1)
        said = torch.zeros_like(logits)
        for _ in range(self.rounds):
            one = shift(logits + said, -1)
            said = (to_mark + softplus(stay - to_mark + one) - softplus(from_mark + one)) * before
        return said

    def loss(self, logits: torch.Tensor, marks: torch.Tensor, shift: Shift) -> torch.Tensor:
        """Each word's part of -log p(y), (..., networks): they add up to that of the text.

        log Z by the forward pass, each word's normaliser in the place of the word.

        Args:
            logits: z, (..., networks). marks: y, 0 to 1, (..., 1); between 0 and 1, the expectation over independent
                marks.
        """
        to_mark, from_mark, stay = self.steps
        after, following = shift(torch.ones_like(marks), 1), shift(marks, 1)
        odds = logits + self._from_before(logits, shift)
        pair = to_mark * (1 - marks) * following + from_mark * marks * (1 - following) + stay * marks * following
        normaliser: torch.Tensor = softplus(odds + from_mark * after)
        return normaliser - marks * logits - after * pair

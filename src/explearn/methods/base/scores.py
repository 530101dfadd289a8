"""What a method returns: scores of sub-tokens, for a batch or for one text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class BatchScores:
    """What a method returns for a batch.

    scores: (batch, tokens), one number a position; those of special tokens and padding are ignored.
    logits: (batch, C), of the same forward pass, so that classification is not paid twice.
    targets: int64, (batch,), the classes explained.
    completeness_error: (batch,), for methods whose scores should add up to a known number: by how much they miss it.
        The scores of special tokens count towards the sum. None where the method makes no such promise.
    unread: of each text how many words the classifier reads and a model of the method's own does not. None: no word.
    """

    scores: torch.Tensor
    logits: torch.Tensor
    targets: torch.Tensor
    completeness_error: torch.Tensor | None = None
    unread: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class TextScores:
    """What a method returns for one text.

    scores: float, (tokens,) of the text's encoding; those of special tokens are ignored.
    logits: float, (C,). target: index of the class explained. seconds: this text's share of the time.
    completeness_error, unread: as in BatchScores.
    """

    scores: NDArray[Any]
    logits: NDArray[Any]
    target: int
    seconds: float
    completeness_error: float | None = None
    unread: int = 0


def resolve_targets(logits: torch.Tensor, targets: torch.Tensor | None) -> torch.Tensor:
    """The classes to explain, int64, (batch,): those given, or the predicted ones of logits (batch, C)."""
    return logits.argmax(-1) if targets is None else targets

"""A check that weights are finite, after training and loading."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from explearn.core.errors import ModelError

if TYPE_CHECKING:
    import torch


def check_weights(named: Iterable[tuple[str, torch.Tensor]], what: str, hint: str) -> None:
    """Raise ModelError if a weight is NaN or infinite.

    Args:
        named: names and values, as returned by `named_parameters` or `state_dict().items()`.
        what: owner of the weights, at the start of the message.
        hint: what the reader can do, at its end.
    """
    for name, tensor in named:
        # A sum takes a tenth of the time, and is finite only if all terms are.
        if tensor.is_floating_point() and not (tensor.sum().isfinite() or tensor.isfinite().all()):
            bad = int((~tensor.isfinite()).sum())
            raise ModelError(
                f"{what}: {bad:,} of the {tensor.numel():,} values of {name} are NaN or infinite; expected finite "
                f"weights; {hint}"
            )

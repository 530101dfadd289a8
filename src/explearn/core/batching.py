"""Texts in batches: within a budget of tokens, or drawn at random with like lengths together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import torch


def budget_batches(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Indices in batches of similar length whose padded size (batch x longest) stays within `max_tokens`.

    The longest come first, so that a budget too large for the memory fails at once. A text longer than the budget
    makes a batch of its own.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        size = max(1, max_tokens // max(1, lengths[order[start]]))
        yield order[start : start + size]
        start += size


def random_batches(
    lengths: Sequence[int],
    size: int,
    generator: torch.Generator,
    stretch: int = 1,
    *,
    most: int | None = None,
    least: int = 1,
    mix_stretches: bool = True,
) -> Iterator[list[int]]:
    """Indices in random batches, with texts of similar length together where `stretch` is above 1.

    The texts are shuffled and cut into stretches of `stretch` batches. Each stretch is sorted by length before it is
    cut into batches, so that there is little padding and the order stays random.

    Args:
        lengths: of the texts. size: texts a batch.
        generator: what the order is drawn from.
        most: texts used of all, the first of the shuffled ones (default: all).
        least: fewer texts than this that are left over go into the batch before.
        mix_stretches: yield the batches of all stretches in random order. Otherwise one stretch follows the other, its
            batches in an order that is drawn when the stretch begins.
    """
    order = torch.randperm(len(lengths), generator=generator)[:most].tolist()
    stretches = [
        _cut(sorted(drawn, key=lambda i: lengths[i]), size, least) for drawn in _cut(order, stretch * size, least)
    ]
    for batches in [list(chain.from_iterable(stretches))] if mix_stretches else stretches:
        for index in torch.randperm(len(batches), generator=generator).tolist():
            yield batches[index]


def _cut(rows: Sequence[int], size: int, least: int) -> list[list[int]]:
    """In pieces of `size`; fewer than `least` rows that are left over go into the piece before."""
    pieces = [list(rows[start : start + size]) for start in range(0, len(rows), size)]
    if len(pieces) > 1 and len(pieces[-1]) < least:
        pieces[-2:] = [pieces[-2] + pieces[-1]]
    return pieces

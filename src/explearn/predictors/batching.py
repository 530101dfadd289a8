"""Texts in batches: within a token budget, or drawn at random with similar lengths together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tqdm.auto import tqdm

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


class BatchBudget(Protocol):
    """What bounds batches: a number of sub-tokens, and whether all texts of a batch must have one length."""

    max_tokens: int

    @property
    def same_length(self) -> bool: ...


def progress(description: str | None, total: int | None = None) -> tqdm[Any]:
    """Return a progress bar over texts; it shows nothing without a description, or if the output is not a terminal."""
    disable = None if description else True
    return tqdm(total=total, desc=description, unit="text", disable=disable)


def budget_batches(lengths: Sequence[int], max_tokens: int, same_length: bool = False) -> Iterator[list[int]]:
    """Yield indices in batches of similar length whose padded size (batch x longest) stays within `max_tokens`.

    The longest come first, so that a budget too large for the memory fails at once. A text longer than the budget
    makes a batch of its own. With `same_length`, all texts of a batch have one length, and none is padded.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        longest = lengths[order[start]]
        batch = order[start : start + max(1, max_tokens // max(1, longest))]
        if same_length:
            batch = [i for i in batch if lengths[i] == longest]
        yield batch
        start += len(batch)


def run_batches(
    lengths: Sequence[int],
    owner: BatchBudget,
    run: Callable[[list[int]], Iterable[Result]],
    share: int = 1,
    description: str | None = None,
) -> list[Result]:
    """Call `run` with the indices of texts in batches from `budget_batches`; return the results by text.

    If a batch does not fit into the device's memory, the owner's budget is halved, also for later calls, and the
    remaining texts continue in smaller batches. A failed batch must be repeatable in parts.

    Args:
        lengths: length of each text.
        owner: holds the budget, and says whether all texts of a batch must have one length.
        run: returns a result for each index that it gets.
        share: a batch gets 1 / share of the budget.
        description: text of a progress bar. None: no bar.

    Raises:
        torch.OutOfMemoryError: a single text does not fit.
    """
    import torch

    results: dict[int, Result] = {}
    remaining = list(range(len(lengths)))
    with progress(description, len(lengths)) as bar:
        while remaining:
            budget = max(1, owner.max_tokens // share)
            batches = list(budget_batches([lengths[i] for i in remaining], budget, owner.same_length))
            texts = remaining
            remaining = []
            for number, batch in enumerate(batches):
                indices = [texts[position] for position in batch]
                try:
                    results.update(zip(indices, run(indices), strict=True))
                    bar.update(len(indices))
                except torch.OutOfMemoryError:
                    if len(indices) == 1:
                        raise
                    remaining = [texts[position] for position in chain.from_iterable(batches[number:])]
                    break
            if remaining:
                # The error is gone here, and with it the device memory that its traceback held.
                padded = len(indices) * max(lengths[i] for i in indices)
                owner.max_tokens = max(1, min(owner.max_tokens, padded * share) // 2)
                logger.warning(
                    "out of memory: batches have at most %s sub-tokens from here on", f"{owner.max_tokens:,}"
                )
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()
    return [results[index] for index in range(len(lengths))]


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
    """Yield indices in random batches, with texts of similar length together if `stretch` is above 1.

    The texts are shuffled and cut into stretches of `stretch` batches. Each stretch is sorted by length before it is
    cut into batches, so that there is little padding and the order stays random.

    Args:
        lengths: length of each text.
        size: texts per batch.
        generator: generator for the order.
        stretch: batches whose texts are sorted by length together.
        most: number of shuffled texts to use. None: all.
        least: if fewer texts than this remain, they join the previous batch.
        mix_stretches: yield the batches of all stretches in random order. Otherwise one stretch follows the other, its
            batches in an order that is drawn when the stretch begins.
    """
    import torch

    order = torch.randperm(len(lengths), generator=generator)[:most].tolist()
    stretches = []
    for drawn in _cut(order, stretch * size, least):
        by_length = sorted(drawn, key=lambda i: lengths[i])
        stretches.append(_cut(by_length, size, least))
    if mix_stretches:
        stretches = [list(chain.from_iterable(stretches))]
    for batches in stretches:
        for index in torch.randperm(len(batches), generator=generator).tolist():
            yield batches[index]


def _cut(rows: Sequence[int], size: int, least: int) -> list[list[int]]:
    """Cut rows into pieces of `size`; fewer than `least` remaining rows go into the piece before."""
    pieces = [list(rows[start : start + size]) for start in range(0, len(rows), size)]
    if len(pieces) > 1 and len(pieces[-1]) < least:
        pieces[-2:] = [pieces[-2] + pieces[-1]]
    return pieces

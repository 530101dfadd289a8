"""Windows over texts that are longer than a classifier's limit.

A window consists of the text's special tokens around a stretch of its sub-tokens. For a pair, the longer segment is cut
into stretches, and every window has the whole other segment. Windows begin and end between words. Each window begins
`stride` sub-tokens after the previous one, or at the start of the word there (of the next word, if the previous window
began with that word). The last one ends with the text and is as long as the others.

A sub-token's score is the mean of its scores in the windows that contain it, each weighted by its distance, in
sub-tokens, from the nearest edge at which that window was cut: a token next to a cut was read without its context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explearn.core.errors import DataError, ParamsError, shown
from explearn.text.alignment import NO_WORD
from explearn.text.encoding import Encoding


@dataclass(frozen=True, slots=True)
class Windowed:
    """A text, and the windows through which a classifier reads it.

    Attributes:
        whole: the text without a limit.
        windows: the windows; only the text itself if it is within the limit.
        positions: for each window, its positions in `whole`.
        weights: for each window, the weights of its positions, float64.
    """

    whole: Encoding
    windows: tuple[Encoding, ...]
    positions: tuple[NDArray[np.intp], ...]
    weights: tuple[NDArray[np.float64], ...]

    @classmethod
    def at_once(cls, encoding: Encoding) -> Windowed:
        """Make one window of a whole text, or of as much of it as fits."""
        return cls(encoding, (encoding,), (np.arange(len(encoding)),), (np.ones(len(encoding)),))

    def join(self, scores: Sequence[NDArray[np.floating]]) -> NDArray[np.float64]:
        """Return scores of the whole text's positions, (tokens,), from the scores of each window's positions."""
        total = np.zeros(len(self.whole))
        weight = np.zeros(len(self.whole))
        for window_scores, positions, weights in zip(scores, self.positions, self.weights, strict=True):
            total[positions] += weights * window_scores[: len(positions)]
            weight[positions] += weights
        return total / weight


def check_stride(stride: int) -> None:
    """Raise ParamsError unless `stride` is a possible distance between windows."""
    if isinstance(stride, bool) or not isinstance(stride, int) or stride < 1:
        raise ParamsError(f"windows: got {shown(stride)}; expected a stride, a whole number of sub-tokens from 1")


def cut(encoding: Encoding, limit: int, stride: int, where: str = "the text") -> Windowed:
    """Cut a text into windows, as the module says.

    Args:
        encoding: the text, whole.
        limit: most sub-tokens of a window, special ones included.
        stride: sub-tokens between the starts of two windows; if it is longer than a window, windows follow each other
            without overlap.
        where: name of the text, for messages.

    Raises:
        DataError: the shorter segment of a pair leaves no room for the longer one.
    """
    if len(encoding) <= limit:
        return Windowed.at_once(encoding)
    long = _long_segment(encoding)
    room = limit - (len(encoding) - len(long))
    if room < 1:
        raise DataError(
            f"{where}: its shorter segment leaves no room for the other within {limit} sub-tokens; shorten it"
        )
    always = np.setdiff1d(np.arange(len(encoding)), long)
    bounds = stretches(np.array(encoding.word_ids)[long], room, stride)
    windows = []
    positions = []
    weights = []
    for start, end in bounds:
        window = np.sort(np.concatenate([always, long[start:end]]))
        # Distances from the edges at which the text was cut; the ends of the text are not such edges.
        distances = np.full(end - start, len(long))
        if start > 0:
            distances = np.minimum(distances, np.arange(1, end - start + 1))
        if end < len(long):
            distances = np.minimum(distances, np.arange(end - start, 0, -1))
        window_weights = np.ones(len(window))
        window_weights[np.searchsorted(window, long[start:end])] = distances
        windows.append(encoding.select(window.tolist()))
        positions.append(window)
        weights.append(window_weights)
    return Windowed(encoding, tuple(windows), tuple(positions), tuple(weights))


def stretches(owners: NDArray[np.integer], room: int, stride: int) -> list[tuple[int, int]]:
    """Return [start, end) of stretches of at most `room` sub-tokens that together cover the n sub-tokens of a text.

    Args:
        owners: word of each sub-token, NO_WORD for none, (n,).
        room: most sub-tokens of a stretch.
        stride: sub-tokens between the starts of two stretches.
    """
    count = len(owners)
    # A stretch may begin or end anywhere but between two pieces of one word.
    inside = (owners[1:] == owners[:-1]) & (owners[1:] != NO_WORD)
    free = np.flatnonzero(np.concatenate([[True], ~inside, [True]]))

    def back(position: int, lowest: int) -> int:
        """Return the last free position up to this one that is above `lowest`; this one if there is none."""
        before = int(free[np.searchsorted(free, position, side="right") - 1])
        if before > lowest:
            return before
        return position

    bounds: list[tuple[int, int]] = []
    start = 0
    while start + room < count:
        end = back(start + room, start)
        bounds.append((start, end))
        begin = back(min(start + stride, end), start)
        start = begin
        # Still in the word at which this stretch began: take the next word, if it is not beyond the end.
        after = int(free[np.searchsorted(free, begin)])
        if after <= end:
            start = after
    # The last stretch is as long as the others, if that does not make it begin inside a word.
    first = int(free[np.searchsorted(free, max(0, count - room))])
    return [*bounds, (min(first, start), count)]


def _long_segment(encoding: Encoding) -> NDArray[np.intp]:
    """Return the positions of the text's tokens that are not special; for a pair, those of the longer segment."""
    free = np.array(encoding.positions, dtype=np.intp)
    owners = np.array(encoding.word_ids)
    if encoding.pair_start is None or owners.max() < encoding.pair_start:
        return free
    second = np.flatnonzero(owners >= encoding.pair_start)
    # The second segment begins after the last special token or word of the first one.
    before = np.flatnonzero(np.array(encoding.special[: second[0]]) | (owners[: second[0]] != NO_WORD))
    start = 0
    if len(before):
        start = before[-1] + 1
    return max((free[free < start], free[free >= start]), key=len)

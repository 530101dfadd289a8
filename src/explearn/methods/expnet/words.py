"""What ExpNet reads of a word: the largest attention over its pieces, in logarithms, and which inputs there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from explearn.core.errors import DataError, ParamsError
from explearn.lens.features import Layers
from explearn.methods.base.task import TaskData
from explearn.text.alignment import NO_WORD

Kind = Literal["row", "column"]

KINDS: tuple[Kind, ...] = ("row", "column")
"""What is read of a head, in the order in which `explearn.lens.features.TokenFeatures` lays it out."""

FLOOR = 1e-5
"""Added to an attention weight before the logarithm: a weight of zero is no more than a small one."""


def log_attention(attention: torch.Tensor) -> torch.Tensor:
    """log(A + 1e-5). Attention weights span orders of magnitude, and their ratios tell more than their differences."""
    return (attention + FLOOR).log_()


@dataclass(frozen=True, slots=True)
class Pooled:
    """Words of one text or batch.

    values: (words, width). owners: int64, (words,), whose value each is. of: int64, (positions,), the row of `values`
    that a position went into, -1 where there is none.
    """

    values: torch.Tensor
    owners: NDArray[np.int64]
    of: NDArray[np.int64]


def pool_words(values: torch.Tensor, owners: NDArray[np.int64]) -> Pooled:
    """The largest value over the pieces of each word, input by input.

    Args:
        values: (positions, width).
        owners: int64, (positions,), the word of each position; NO_WORD where there is none.
    """
    order = np.argsort(owners, kind="stable")
    order = order[owners[order] != NO_WORD]
    ordered = owners[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)])
    counts = np.diff(np.r_[first, len(ordered)])
    pooled = values[torch.from_numpy(order[first]).to(values.device)]
    for piece in range(1, int(counts.max(initial=0))):
        # Few words have many pieces: each round takes those that have one more.
        longer = np.flatnonzero(counts > piece)
        rows = torch.from_numpy(longer).to(values.device)
        pieces = torch.from_numpy(order[first[longer] + piece]).to(values.device)
        pooled[rows] = torch.maximum(pooled[rows], values[pieces])
    row_of = np.full(len(owners), -1, dtype=np.int64)
    row_of[order] = np.repeat(np.arange(len(first)), counts)
    return Pooled(pooled, ordered[first], row_of)


@dataclass(frozen=True, slots=True, order=True)
class Input:
    """One number that is read of a word: attention of a head of a layer, from [CLS] (row) or to it (column)."""

    layer: int
    kind: Kind
    head: int


def inputs_of(layers: Sequence[int], heads: int) -> list[Input]:
    """The inputs that attention features of some layers hold, in the features' order."""
    return [Input(layer, kind, head) for layer in layers for kind in KINDS for head in range(heads)]


def wanted_inputs(source: Mapping[str, Any], layers: Layers, attention: str) -> list[Input]:
    """Of the inputs that features hold, those that the options `layers` and `attention` ask for.

    Args:
        source: see `explearn.lens.features.feature_source`.

    Raises ParamsError for a layer that the encoder lacks, DataError for one that the features lack.
    """
    count = int(source["layers"])
    wanted = range(count) if layers == "all" else [_from_start(layer, count) for layer in layers]
    if missing := sorted(set(wanted) - set(source["attended"])):
        raise DataError(
            f"the features hold no attention of layers {', '.join(map(str, missing))}; expected it; "
            "run the stage attend with attend.layers=all"
        )
    kinds = KINDS if attention == "row_and_column" else (attention,)
    return [one for one in inputs_of(source["attended"], source["heads"]) if one.layer in wanted and one.kind in kinds]


def _from_start(layer: int, count: int) -> int:
    if not -count <= layer < count:
        raise ParamsError(f"layers: got {layer}; expected 0 to {count - 1}, or -{count} to -1")
    return layer % count


def check_source(task: TaskData, source: Mapping[str, Any], split: str) -> None:
    """Raise DataError where a task's features were taken from another classifier than the task has now."""
    if source["classifier"] != task.classifier.fingerprint:
        raise DataError(
            f"task {task.name!r}, split {split!r}: its features are of another classifier than the task's own; "
            "run the stage attend again"
        )

"""Word scores of several methods for one text, side by side, and their files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from explearn.core.errors import DataError
from explearn.core.parquet import make_schema
from explearn.core.validation import Count, Shape
from explearn.lens.text_tables import read_facts, read_rows, vectors

SIGNALS: tuple[str, ...] = ("rollout", "gae", "gradient", "attn_lrp")
"""The methods whose word scores are the signals, in the order of the columns of `WordSignals.scores`."""

SCHEMA = make_schema(
    example_id=pa.string(),
    words=pa.list_(pa.string()),
    predicted=pa.string(),
    target=pa.string(),
    probability=pa.float64(),
    scores=vectors(pa.float32(), len(SIGNALS)),
)
"""One row a text; of each word one number for each of SIGNALS. See `WordSignals`."""


@dataclass(frozen=True, slots=True, eq=False)
class WordSignals:
    """The signals of one text's words.

    Attributes:
        words: of both segments for a pair.
        predicted: name of the class that the classifier gives.
        probability: of the class that the signals explain.
        scores: float32, (words, len(SIGNALS)). The column of a signal that was not asked for, or that the classifier's
            architecture lacks, is NaN, and so is the row of a word that the classifier did not read.
        target: name of the class that the signals explain.
    """

    example_id: str
    words: tuple[str, ...]
    predicted: str
    probability: float
    scores: NDArray[np.float32]
    target: str

    @property
    def read(self) -> NDArray[np.bool_]:
        """Return which words the classifier read, bool, (words,): those with a signal."""
        return np.asarray(~np.isnan(self.scores).all(-1))


class SignalFacts(Shape):
    """classifier: its fingerprint. signals: names of the columns. texts: how many there are."""

    classifier: str
    signals: list[str]
    texts: Count


def read_signals_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return a file's metadata (`SignalFacts`).

    Raises DataError for a file without them, or with other signals than this version has.
    """
    metadata = read_facts(path, SignalFacts)
    if tuple(metadata["signals"]) != SIGNALS:
        raise DataError(f"{path}: holds signals {', '.join(metadata['signals'])}; expected {', '.join(SIGNALS)}")
    return metadata


def read_signals(path: str | os.PathLike[str]) -> Iterator[WordSignals]:
    """Yield the texts of a file, row group by row group.

    Raises DataError for a file that is missing, damaged or of another layout.
    """
    read_signals_metadata(path)
    for values in read_rows(path, SCHEMA):
        yield WordSignals(**values | {"words": tuple(values["words"])})

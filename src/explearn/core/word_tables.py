"""Attributions as tables with one row per word: Arrow and pandas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from explearn.core.attribution import Attribution, each_attribution
from explearn.core.extras import need
from explearn.core.parquet import make_schema

if TYPE_CHECKING:
    import pandas as pd

WORD_SCHEMA = make_schema(
    text=pa.int64(),
    id=pa.string(),
    method=pa.string(),
    target=pa.string(),
    predicted=pa.string(),
    probability=pa.float64(),
    segment=pa.int32(),
    index=pa.int32(),
    start=pa.int32(),
    end=pa.int32(),
    word=pa.string(),
    score=pa.float32(),
    verdict=pa.string(),
    agreement=pa.float64(),
    bound=pa.float64(),
    nullable=("start", "end", "score", "verdict", "agreement", "bound"),
)
"""One row per word.

text: number of the text among its method's texts, from 0, the same for all its classes. id: of the example, empty for
free text. segment: 0, or 1 in the second segment of a pair. index: position among the words of both segments, from 0.
start, end: [start, end) of the word in the characters of its segment, null if unknown. score: null if the classifier
did not read the word. verdict, agreement, bound: from the text's certificate (`Certificate`), null without one.
"""


class WordRows:
    """A converter of attributions to rows of WORD_SCHEMA, that counts the texts of each method.

    An attribution belongs to the same text as its method's previous one if words and id are the same, and the class is
    new for that text.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, tuple[object, ...], set[str]]] = {}

    def rows(self, attribution: Attribution) -> Iterator[dict[str, Any]]:
        number, before, classes = self._last.get(attribution.method, (-1, (), set()))
        text = (attribution.example_id, attribution.words, attribution.pair_start, attribution.token)
        if text != before or attribution.target in classes:
            number, classes = number + 1, set()
        self._last[attribution.method] = number, text, classes | {attribution.target}
        shared = {
            "text": number,
            "id": attribution.example_id,
            "method": attribution.method,
            "target": attribution.target,
            "predicted": attribution.predicted,
            "probability": attribution.probability,
        }
        certificate: dict[str, object] = attribution.certificate.to_record() if attribution.certificate else {}
        certified = {name: certificate.get(name) for name in ("verdict", "agreement", "bound")}
        for index, (word, score) in enumerate(zip(attribution.words, attribution.scores.tolist(), strict=True)):
            start, end = attribution.spans[index] if attribution.spans else (None, None)
            second = attribution.pair_start is not None and index >= attribution.pair_start
            place = {"segment": int(second), "index": index, "start": start, "end": end}
            yield {**shared, **place, "word": word, "score": None if np.isnan(score) else score, **certified}


def to_arrow(attributions: Iterable[Attribution]) -> pa.Table:
    """Return a table with one row per word; columns as in WORD_SCHEMA. Raises DataError for anything but
    attributions."""
    words = WordRows()
    rows = [row for attribution in each_attribution(attributions) for row in words.rows(attribution)]
    return pa.Table.from_pylist(rows, schema=WORD_SCHEMA)


def to_frame(attributions: Iterable[Attribution]) -> pd.DataFrame:
    """Return a pandas frame with one row per word; columns as in WORD_SCHEMA.

    A score is NaN if the classifier did not read the word; start and end are nullable integers.
    """
    need("pandas", extra="pipeline", what="a frame")
    import pandas as pd

    frame: pd.DataFrame = to_arrow(attributions).to_pandas()
    return frame.astype({"start": pd.Int32Dtype(), "end": pd.Int32Dtype()})

"""Attributions as tables with one row per word: Arrow and pandas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from explearn.core.attribution import Attribution, each_attribution
from explearn.core.extras import need
from explearn.core.storage import ATTRIBUTION_SCHEMA

if TYPE_CHECKING:
    import pandas as pd

_TEXT = ("method", "target", "predicted", "probability", "value", "output", "unit")
"""Fields of an attribution that are repeated for each of its words."""

_CERTIFICATE = ("effect", "bound", "familiar")


WORD_SCHEMA = pa.schema(
    [
        pa.field("text", pa.int64(), nullable=False),
        ATTRIBUTION_SCHEMA.field("id"),
        *(ATTRIBUTION_SCHEMA.field(name) for name in _TEXT),
        pa.field("segment", pa.int32(), nullable=False),
        pa.field("index", pa.int32(), nullable=False),
        pa.field("start", pa.int32()),
        pa.field("end", pa.int32()),
        pa.field("word", pa.string(), nullable=False),
        pa.field("score", pa.float32()),
        pa.field("verdict", pa.string()),
        *(ATTRIBUTION_SCHEMA.field("certificate").type.field(name) for name in _CERTIFICATE),
    ]
)
"""One row per word.

text: number of the text among its method's texts, from 0, the same for all its classes. id: of the example, empty for
free text. method to unit: as in the `Attribution`. segment: 0, or 1 in the second segment of a pair. index: position
among the words of both segments, from 0. start, end: [start, end) of the word in the characters of its segment, null if
unknown. score: null if the classifier did not read the word. verdict, effect, bound, familiar: from the
text's certificate (`Certificate`), null without one.
"""


class WordRows:
    """A converter of attributions to rows of WORD_SCHEMA, that counts the texts of each method.

    An attribution belongs to the same text as its method's previous one if words and id are the same, and the class is
    new for that text.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, tuple[object, ...], set[str]]] = {}

    def rows(self, attribution: Attribution) -> Iterator[dict[str, Any]]:
        """Yield the rows of an attribution's words."""
        shared = {"text": self._number(attribution), "id": attribution.example_id}
        shared |= {name: getattr(attribution, name) for name in _TEXT}
        shared |= {name: getattr(attribution.certificate, name, None) for name in ("verdict", *_CERTIFICATE)}
        spans = attribution.spans or [(None, None)] * len(attribution.words)
        scores = attribution.scores.tolist()
        for index, (start, end) in enumerate(spans):
            second = attribution.pair_start is not None and index >= attribution.pair_start
            score = scores[index]
            yield {
                **shared,
                "segment": int(second),
                "index": index,
                "start": start,
                "end": end,
                "word": attribution.words[index],
                "score": None if np.isnan(score) else score,
            }

    def _number(self, attribution: Attribution) -> int:
        number, before, classes = self._last.get(attribution.method, (-1, (), set()))
        text = attribution.text_key
        if text != before or attribution.target in classes:
            number += 1
            classes = set()
        self._last[attribution.method] = (number, text, classes | {attribution.target})
        return number


def to_arrow(attributions: Iterable[Attribution]) -> pa.Table:
    """Return an Arrow table with one row per word.

    Args:
        attributions: of any texts, classes and methods.

    Returns:
        Columns as in `explearn.core.word_tables.WORD_SCHEMA`.

    Raises:
        DataError: an entry is not an attribution.

    Example:
        >>> import explearn
        >>> document = {"words": ["not", "good"], "scores": [-0.5, 1], "target": "positive", "method": "mine"}
        >>> explearn.to_arrow([explearn.Attribution.from_dict(document)])["score"].to_pylist()
        [-0.5, 1.0]
    """
    words = WordRows()
    rows: list[dict[str, Any]] = []
    for attribution in each_attribution(attributions):
        rows.extend(words.rows(attribution))
    return pa.Table.from_pylist(rows, schema=WORD_SCHEMA)


def to_frame(attributions: Iterable[Attribution]) -> pd.DataFrame:
    """Return a pandas frame with one row per word.

    Args:
        attributions: of any texts, classes and methods.

    Returns:
        Columns as in `to_arrow`. A score is NaN if the classifier did not read the word; start and end are nullable
        integers.

    Raises:
        DataError: an entry is not an attribution.

    Example:
        >>> import explearn
        >>> document = {"words": ["not", "good"], "scores": [-0.5, 1], "target": "positive", "method": "mine"}
        >>> explearn.to_frame([explearn.Attribution.from_dict(document)])[["word", "score"]].to_dict("list")
        {'word': ['not', 'good'], 'score': [-0.5, 1.0]}
    """
    need("pandas", extra="pipeline", what="a frame")
    import pandas as pd

    frame: pd.DataFrame = to_arrow(attributions).to_pandas()
    return frame.astype({"start": pd.Int32Dtype(), "end": pd.Int32Dtype()})

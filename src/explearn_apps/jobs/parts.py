"""A part of a large job's results: a Parquet file with a row a word, built column by column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from explearn.core.records import Attribution
from explearn.core.storage import parquet_writer
from explearn.core.word_tables import WORD_SCHEMA
from explearn_apps.jobs.manifest import Part, file_digest

ROWS_PER_GROUP = 65_536
"""Words held, in columns, before they go to the file: what Parquet packs well."""

TEXTS_AT_ONCE = 256
"""Texts turned into columns together: their objects take several times the memory of the columns."""

Explained = tuple[int, str, Sequence[Attribution]]
"""Number of a text in the input from 0, its id, and its attributions."""


def words_table(found: Sequence[Explained]) -> pa.Table:
    """A table with a row a word, columns as in WORD_SCHEMA, `text` and `id` as given."""
    rows = [(number, identifier, attribution) for number, identifier, of_text in found for attribution in of_text]
    counts = np.array([len(attribution.words) for _, _, attribution in rows], dtype=np.int64)
    total = int(counts.sum())
    owner = np.repeat(np.arange(len(rows)), counts)
    starts = np.cumsum(counts) - counts
    index = np.arange(total) - starts[owner]
    # Without a second segment every word is in the first.
    second = np.array([len(a.words) if a.pair_start is None else a.pair_start for _, _, a in rows], dtype=np.int64)
    spans = np.array(
        list(chain.from_iterable(a.spans or ((-1, -1),) * len(a.words) for _, _, a in rows)), dtype=np.int32
    ).reshape(total, 2)
    scores = np.concatenate([a.scores for _, _, a in rows]) if rows else np.empty(0, dtype=np.float32)

    def repeated(values: Sequence[str]) -> pa.Array:
        return pa.array(values, pa.string()).take(pa.array(owner))

    columns = {
        "text": np.array([number for number, _, _ in rows], dtype=np.int64)[owner],
        "id": repeated([identifier for _, identifier, _ in rows]),
        "method": repeated([a.method for _, _, a in rows]),
        "target": repeated([a.target for _, _, a in rows]),
        "predicted": repeated([a.predicted for _, _, a in rows]),
        "probability": np.array([a.probability for _, _, a in rows], dtype=np.float64)[owner],
        "segment": (index >= second[owner]).astype(np.int32),
        "index": index.astype(np.int32),
        "start": pa.array(spans[:, 0], mask=spans[:, 0] < 0),
        "end": pa.array(spans[:, 1], mask=spans[:, 1] < 0),
        "word": pa.array(list(chain.from_iterable(a.words for _, _, a in rows)), pa.string()),
        "score": pa.array(scores, pa.float32(), mask=np.isnan(scores)),
    }
    return pa.table({name: columns[name] for name in WORD_SCHEMA.names}, schema=WORD_SCHEMA)


def write_part(folder: Path, file: str, first: int, found: Iterable[Explained]) -> Part:
    """Write a part's texts, of which `first` is the first; the file is in place once it is whole.

    Groups of rows hold whole texts and depend on the part's texts alone, so that equal parts are equal files.
    """
    texts = rows = 0
    remaining = iter(found)
    with parquet_writer(folder / file, WORD_SCHEMA) as writer:
        held: list[pa.Table] = []
        while some := list(islice(remaining, TEXTS_AT_ONCE)):
            texts += len(some)
            held.append(words_table(some))
            if sum(table.num_rows for table in held) >= ROWS_PER_GROUP:
                rows += _write_group(writer, held)
        if held:
            rows += _write_group(writer, held)
    path = folder / file
    return Part(file, first, texts, rows, path.stat().st_size, file_digest(path))


def _write_group(writer: pq.ParquetWriter, held: list[pa.Table]) -> int:
    """Write the tables held as one group, and hold none; their rows."""
    table = pa.concat_tables(held).combine_chunks()
    writer.write_table(table, row_group_size=table.num_rows)
    held.clear()
    return int(table.num_rows)

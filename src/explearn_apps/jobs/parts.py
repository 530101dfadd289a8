"""A part of a large job's results: a Parquet file with one row per word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import pyarrow as pa

from explearn.core.attribution import Attribution
from explearn.core.parquet import parquet_writer
from explearn.core.word_tables import WORD_SCHEMA, WordRows
from explearn_apps.jobs.manifest import Part

TEXTS_PER_GROUP = 2048
"""Texts whose words are buffered before they are written as a row group."""

Explained = tuple[int, str, Sequence[Attribution]]
"""Number of a text in the input from 0, its id, and its attributions."""


def words_table(explained: Sequence[Explained]) -> pa.Table:
    """Return a table with one row per word and the columns of WORD_SCHEMA; `text` and `id` are those of the job."""
    words = WordRows()
    rows = []
    for number, identifier, attributions in explained:
        for attribution in attributions:
            rows += [row | {"text": number, "id": identifier} for row in words.rows(attribution)]
    return pa.Table.from_pylist(rows, schema=WORD_SCHEMA)


def write_part(folder: Path, file: str, first: int, explained: Iterable[Explained]) -> Part:
    """Write a part's texts, from number `first` on; the file is put in place once it is complete.

    Row groups hold whole texts and depend only on the part's texts, so that equal parts are equal files.
    """
    texts = 0
    rows = 0
    remaining = iter(explained)
    with parquet_writer(folder / file, WORD_SCHEMA) as writer:
        while group := list(islice(remaining, TEXTS_PER_GROUP)):
            table = words_table(group)
            writer.write_table(table, row_group_size=max(1, table.num_rows))
            texts += len(group)
            rows += table.num_rows
    return Part.of(folder / file, file=file, first=first, texts=texts, rows=rows)

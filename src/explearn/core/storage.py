"""Files between stages: atomic writes, Parquet with fixed schemas; readers of JSON and of bare tables beside them.

A file or folder appears under its name only once it is whole, see `explearn.core.writing`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from explearn.core.documents import read_json, read_jsonl
from explearn.core.errors import DataError
from explearn.core.locks import locked
from explearn.core.partials import check_output
from explearn.core.records import RATIONALE_KINDS, SPLITS, Attribution, Example, Rationale
from explearn.core.tables import METADATA_KEY, check_schema, open_parquet, read_metadata, read_table
from explearn.core.writing import (
    atomic_folder,
    atomic_path,
    json_text,
    put_files,
    resumable_folder,
    scratch_folder,
    write_json,
    write_text,
)

EXAMPLE_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("words", pa.list_(pa.string()), nullable=False),
        pa.field("pair", pa.list_(pa.string()), nullable=False),
        pa.field("label", pa.string(), nullable=False),
        pa.field("split", pa.string(), nullable=False),
        pa.field("task", pa.string(), nullable=False),
    ]
)
ANSWERED_SCHEMA = EXAMPLE_SCHEMA.append(pa.field("answer", pa.list_(pa.int32())))
"""Of questions: with the [first, end) word of the answer."""
RATIONALE_SCHEMA = pa.schema(
    [
        pa.field("example_id", pa.string(), nullable=False),
        pa.field("annotator", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("mask", pa.list_(pa.bool_()), nullable=False),
    ]
)
ATTRIBUTION_SCHEMA = pa.schema(
    [
        pa.field("example_id", pa.string(), nullable=False),
        pa.field("method", pa.string(), nullable=False),
        pa.field("target", pa.string(), nullable=False),
        pa.field("predicted", pa.string(), nullable=False),
        pa.field("probability", pa.float64(), nullable=False),
        pa.field("words", pa.list_(pa.string()), nullable=False),
        pa.field("scores", pa.list_(pa.float32()), nullable=False),
        pa.field("tokens", pa.list_(pa.string()), nullable=False),
        pa.field("token_scores", pa.list_(pa.float32()), nullable=False),
        pa.field("aggregation", pa.string(), nullable=False),
        pa.field("signed", pa.bool_(), nullable=False),
        pa.field("unaligned", pa.int32(), nullable=False),
        pa.field("completeness_error", pa.float64()),
    ]
)

ROWS_PER_GROUP = 4096


@contextmanager
def parquet_writer(
    target: str | os.PathLike[str], schema: pa.Schema, metadata: Mapping[str, object] | None = None
) -> Iterator[pq.ParquetWriter]:
    """Open a zstd Parquet file for shard-by-shard writing; it is in place only after the last shard."""
    if metadata is not None:
        schema = schema.with_metadata({METADATA_KEY: _metadata_text(metadata).encode()})
    with atomic_path(target) as partial, pq.ParquetWriter(partial, schema, compression="zstd") as writer:
        yield writer


def _metadata_text(metadata: Mapping[str, object]) -> str:
    return json_text(dict(metadata), ascii_only=True, sort_keys=True)


def set_metadata(writer: pq.ParquetWriter, metadata: Mapping[str, object]) -> None:
    """Add the JSON document that `read_metadata` returns, for facts known only once the rows are written."""
    writer.add_key_value_metadata({METADATA_KEY.decode(): _metadata_text(metadata)})


def write_table(
    target: str | os.PathLike[str],
    rows: Sequence[Mapping[str, object]],
    schema: pa.Schema,
    metadata: Mapping[str, object] | None = None,
) -> None:
    with parquet_writer(target, schema, metadata) as writer:
        for start in range(0, len(rows), ROWS_PER_GROUP):
            writer.write_table(pa.Table.from_pylist(list(rows[start : start + ROWS_PER_GROUP]), schema=schema))


def write_examples(target: str | os.PathLike[str], examples: Iterable[Example]) -> None:
    examples = list(examples)
    rows: list[dict[str, Any]] = [
        {"id": e.id, "words": e.words, "pair": e.pair, "label": e.label, "split": e.split, "task": e.task}
        for e in examples
    ]
    answered = any(example.answer is not None for example in examples)
    if answered:
        rows = [{**row, "answer": example.answer} for row, example in zip(rows, examples, strict=True)]
    write_table(target, rows, ANSWERED_SCHEMA if answered else EXAMPLE_SCHEMA)


def read_examples(path: str | os.PathLike[str]) -> list[Example]:
    """Raises DataError naming file and row (from 1) for a broken record or an id that comes twice."""
    examples: list[Example] = []
    seen: set[str] = set()
    with open_parquet(path) as file:
        answered = "answer" in file.schema_arrow.names
    table = read_table(path, ANSWERED_SCHEMA if answered else EXAMPLE_SCHEMA)
    for number, row in enumerate(table.to_pylist(), start=1):
        if row["id"] in seen:
            raise DataError(f"{path}, row {number}, field 'id': {row['id']!r} comes twice; expected unique ids")
        seen.add(row["id"])
        try:
            tuples = {name: tuple(row[name]) for name in ("words", "pair", "answer") if row.get(name) is not None}
            examples.append(Example(**{**row, **tuples}))
        except DataError as error:
            raise DataError(f"{path}, row {number}: {error}") from error
    return examples


def read_task_examples(folder: str | os.PathLike[str]) -> list[Example]:
    """Examples of all splits of a task's folder, in the order train, validation, test."""
    return [example for split in SPLITS for example in read_examples(Path(folder) / f"{split}.parquet")]


def write_rationales(target: str | os.PathLike[str], rationales: Iterable[Rationale]) -> None:
    rows = [{"example_id": r.example_id, "annotator": r.annotator, "kind": r.kind, "mask": r.mask} for r in rationales]
    write_table(target, rows, RATIONALE_SCHEMA)


def read_rationales(path: str | os.PathLike[str], examples: Iterable[Example] | None = None) -> list[Rationale]:
    """Read rationales; with `examples` given, check every mask's length against its example.

    Raises DataError naming file, row (from 1) and field for an unknown id, a kind not in RATIONALE_KINDS or a mask of
    the wrong length.
    """
    lengths = None if examples is None else {e.id: len(e.all_words) for e in examples}
    rationales: list[Rationale] = []
    for number, row in enumerate(read_table(path, RATIONALE_SCHEMA).to_pylist(), start=1):
        try:
            if None in row["mask"]:
                raise DataError("field 'mask' has an entry without a value; expected true or false")
            rationale = Rationale(row["example_id"], row["annotator"], row["kind"], tuple(row["mask"]))
            if lengths is not None:
                check_mask_length(rationale, lengths)
        except DataError as error:
            raise DataError(f"{path}, row {number}: {error}") from error
        rationales.append(rationale)
    return rationales


def check_mask_length(rationale: Rationale, lengths: Mapping[str, int]) -> None:
    """Raise DataError unless the rationale's example is in `lengths` and its mask has that many entries."""
    expected = lengths.get(rationale.example_id)
    if expected is None:
        raise DataError(f"field 'example_id': no example {rationale.example_id!r}; expected an id of this task")
    if len(rationale.mask) != expected:
        raise DataError(
            f"field 'mask' of example {rationale.example_id!r} has {len(rationale.mask)} entries; "
            f"expected {expected}, one per word"
        )


def attribution_row(attribution: Attribution) -> dict[str, object]:
    row = {name: getattr(attribution, name) for name in ATTRIBUTION_SCHEMA.names}
    return {**row, "scores": attribution.scores.tolist(), "token_scores": attribution.token_scores.tolist()}


def read_attributions(path: str | os.PathLike[str]) -> list[Attribution]:
    """Raises DataError naming file and row (from 1) where a score is missing, one too many, or infinite."""
    attributions: list[Attribution] = []
    seen: set[tuple[str, str]] = set()
    for number, row in enumerate(read_table(path, ATTRIBUTION_SCHEMA).to_pylist(), start=1):
        for field, of in (("scores", "words"), ("token_scores", "tokens")):
            if len(row[field]) != len(row[of]):
                raise DataError(
                    f"{path}, row {number}, field {field!r} has {len(row[field])} entries; "
                    f"expected {len(row[of])}, one per {of.removesuffix('s')}"
                )
            if None in row[field]:
                raise DataError(f"{path}, row {number}, field {field!r} has an entry without a number")
            values = np.asarray(row[field], dtype=np.float32)
            # NaN is a word without a score.
            if np.isinf(values).any() or (field == "token_scores" and np.isnan(values).any()):
                raise DataError(f"{path}, row {number}, field {field!r} holds a value that is not finite")
        if (row["example_id"], row["target"]) in seen:
            raise DataError(
                f"{path}, row {number}, field 'example_id': {row['example_id']!r} comes twice for the class "
                f"{row['target']!r}; expected each once"
            )
        seen.add((row["example_id"], row["target"]))
        attributions.append(
            Attribution(
                **{
                    **row,
                    "words": tuple(row["words"]),
                    "tokens": tuple(row["tokens"]),
                    "scores": np.asarray(row["scores"], dtype=np.float32),
                    "token_scores": np.asarray(row["token_scores"], dtype=np.float32),
                }
            )
        )
    return attributions


__all__ = [
    "ATTRIBUTION_SCHEMA",
    "EXAMPLE_SCHEMA",
    "RATIONALE_KINDS",
    "RATIONALE_SCHEMA",
    "atomic_folder",
    "atomic_path",
    "attribution_row",
    "check_mask_length",
    "check_output",
    "check_schema",
    "json_text",
    "locked",
    "open_parquet",
    "parquet_writer",
    "put_files",
    "read_attributions",
    "read_examples",
    "read_json",
    "read_jsonl",
    "read_metadata",
    "read_rationales",
    "read_table",
    "read_task_examples",
    "resumable_folder",
    "scratch_folder",
    "set_metadata",
    "write_examples",
    "write_json",
    "write_rationales",
    "write_table",
    "write_text",
]

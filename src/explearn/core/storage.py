"""Files between stages: atomic writes, Parquet with fixed schemas, JSON Lines with row numbers in every error.

A file or folder appears under its name only once it is whole (`explearn.core.atomic`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from explearn.core.atomic import atomic_folder, atomic_path, write_text
from explearn.core.errors import DataError
from explearn.core.records import RATIONALE_KINDS, SPLITS, Attribution, Example, Rationale

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

METADATA_KEY = b"explearn"
"""Key of the JSON document that describes a Parquet file's content, in the file's own metadata."""

ROWS_PER_GROUP = 4096


def write_json(target: str | os.PathLike[str], value: object) -> None:
    """Write JSON, keys in the order given; NaN and infinities are refused (ValueError): readers disagree on them."""
    write_text(target, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: str | os.PathLike[str]) -> Any:
    """Raises DataError when the file is missing, not UTF-8 or not JSON."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(f"{path}: not valid JSON ({error})") from error
    except (RecursionError, ValueError) as error:
        raise DataError(f"{path}: {_unreadable(error)}") from error


def _unreadable(error: RecursionError | ValueError) -> str:
    """Why Python does not read a document although it is JSON."""
    if isinstance(error, RecursionError):
        return "got lists or objects inside one another beyond what can be read; expected a few levels"
    digits = sys.get_int_max_str_digits()
    return f"got a whole number too long to be read; expected at most {digits:,} digits"


def read_jsonl(path: str | os.PathLike[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row number from 1, object) for each line that is not blank.

    Raises DataError naming file and row for invalid UTF-8, invalid JSON, JSON nested too deeply or with a number too
    long to be read, and a line that is no JSON object.
    """
    try:
        handle = Path(path).open("rb")  # noqa: SIM115 (closed below; only opening may fail here)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    with handle:
        for number, raw in enumerate(handle, start=1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path}, row {number}: byte {error.start} is not valid UTF-8; expected UTF-8 JSON Lines"
                ) from error
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except json.JSONDecodeError as error:
                raise DataError(f"{path}, row {number}: not valid JSON ({error.msg} at {error.colno})") from error
            except (RecursionError, ValueError) as error:
                raise DataError(f"{path}, row {number}: {_unreadable(error)}") from error
            if not isinstance(value, dict):
                raise DataError(f"{path}, row {number}: got {type(value).__name__}; expected a JSON object")
            yield number, value


@contextmanager
def parquet_writer(
    target: str | os.PathLike[str], schema: pa.Schema, metadata: Mapping[str, object] | None = None
) -> Iterator[pq.ParquetWriter]:
    """Open a zstd Parquet file for shard-by-shard writing; it is in place only after the last shard."""
    if metadata is not None:
        schema = schema.with_metadata({METADATA_KEY: json.dumps(metadata, sort_keys=True).encode()})
    with atomic_path(target) as partial, pq.ParquetWriter(partial, schema, compression="zstd") as writer:
        yield writer


def set_metadata(writer: pq.ParquetWriter, metadata: Mapping[str, object]) -> None:
    """Add the JSON document that `read_metadata` returns, for facts known only once the rows are written."""
    writer.add_key_value_metadata({METADATA_KEY.decode(): json.dumps(metadata, sort_keys=True)})


def write_table(
    target: str | os.PathLike[str],
    rows: Sequence[Mapping[str, object]],
    schema: pa.Schema,
    metadata: Mapping[str, object] | None = None,
) -> None:
    with parquet_writer(target, schema, metadata) as writer:
        for start in range(0, len(rows), ROWS_PER_GROUP):
            writer.write_table(pa.Table.from_pylist(list(rows[start : start + ROWS_PER_GROUP]), schema=schema))


@contextmanager
def open_parquet(path: str | os.PathLike[str], schema: pa.Schema | None = None) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file and check its columns and types against `schema`.

    Raises DataError naming the file (missing, cut short, not Parquet) or the column that is missing or of another type.
    """
    try:
        file = pq.ParquetFile(path)
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: not a whole Parquet file ({reason}); create it again") from error
    with file:
        if schema is not None:
            check_schema(file.schema_arrow, schema, path)
        yield file


def check_schema(found: pa.Schema, expected: pa.Schema, path: str | os.PathLike[str]) -> None:
    for field in expected:
        if field.name not in found.names:
            raise DataError(
                f"{path}: column {field.name!r} is missing; expected {', '.join(expected.names)}, "
                f"got {', '.join(found.names)}"
            )
        got = found.field(field.name).type
        if not got.equals(field.type):
            raise DataError(f"{path}: column {field.name!r} has type {got}; expected {field.type}")


def read_table(path: str | os.PathLike[str], schema: pa.Schema) -> pa.Table:
    """Read a whole Parquet file; raises DataError as `open_parquet` does, also when a later page is damaged."""
    with open_parquet(path, schema) as file:
        try:
            return file.read(columns=schema.names)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path}: damaged ({str(error).splitlines()[0]}); create it again") from error


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON document given to `parquet_writer`; empty when there was none."""
    with open_parquet(path) as file:
        raw = (file.metadata.metadata or {}).get(METADATA_KEY, b"{}")
    return dict(json.loads(raw))


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
    """Raises DataError naming file and row (from 1) where a score is missing, one too many, or not finite."""
    attributions: list[Attribution] = []
    for number, row in enumerate(read_table(path, ATTRIBUTION_SCHEMA).to_pylist(), start=1):
        scores = np.asarray(row["scores"], dtype=np.float32)
        if len(scores) != len(row["words"]):
            raise DataError(
                f"{path}, row {number}, field 'scores' has {len(scores)} entries; "
                f"expected {len(row['words'])}, one per word"
            )
        if not np.isfinite(scores).all():
            raise DataError(f"{path}, row {number}, field 'scores' holds a value that is not finite")
        attributions.append(
            Attribution(
                **{
                    **row,
                    "words": tuple(row["words"]),
                    "tokens": tuple(row["tokens"]),
                    "scores": scores,
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
    "check_schema",
    "open_parquet",
    "parquet_writer",
    "read_attributions",
    "read_examples",
    "read_json",
    "read_jsonl",
    "read_metadata",
    "read_rationales",
    "read_table",
    "read_task_examples",
    "set_metadata",
    "write_examples",
    "write_json",
    "write_rationales",
    "write_table",
    "write_text",
]

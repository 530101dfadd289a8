"""Large jobs in tests."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import tiny

TEXTS = 1100
"""More than two blocks of 512, the last one not full."""


def random_texts(count: int = TEXTS) -> list[str]:
    draw = random.Random(0)
    words = " ".join(tiny.CORPUS).split()
    return [" ".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(count)]


def arguments(folder: Path, path: Path, output: Path, *more: str) -> list[str]:
    # Small batches: of one block there are dozens, and a text's place in them decides its last digits.
    own = ["--classifier", str(folder), "--device", "cpu", "--max-tokens", "150"]
    return ["job", "--texts", str(path), "--out", str(output), *own, *more]


def joined(output: Path) -> bytes:
    """The parts in the order of their names, as one stream of bytes."""
    table = pa.concat_tables(pq.read_table(path) for path in sorted(output.glob("part-*.parquet")))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()

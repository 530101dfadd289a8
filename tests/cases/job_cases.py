"""Large jobs in tests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny

TEXTS = 1100
"""More than two blocks of 512, the last one not full."""


@pytest.fixture(scope="module", autouse=True)
def small_batches() -> Iterator[None]:
    """Make dozens of batches of one block: a text's place in them decides its last digits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXPLEARN_MAX_TOKENS", "150")
        yield


def random_texts(count: int = TEXTS) -> list[str]:
    draw = random.Random(0)
    words = " ".join(tiny.CORPUS).split()
    return [" ".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(count)]


def arguments(folder: Path, path: Path, output: Path, *more: str) -> list[str]:
    return ["job", "--texts", str(path), "--out", str(output), "--classifier", str(folder), "--device", "cpu", *more]


def joined(output: Path) -> bytes:
    """The parts in the order of their names, as one stream of bytes."""
    table = pa.concat_tables(pq.read_table(path) for path in sorted(output.glob("part-*.parquet")))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()

"""Large jobs in tests."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny
from cli_cases import run
from saying import command_complaint

TEXTS = 1100
"""More than two blocks of 512, the last one not full."""


@pytest.fixture(scope="module", autouse=True)
def small_batches():
    """Make dozens of batches of one block: a text's place in them decides its last digits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXPLEARN_MAX_TOKENS", "150")
        yield


def random_texts(count=TEXTS):
    draw = random.Random(0)
    words = " ".join(tiny.CORPUS).split()
    return [" ".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(count)]


def arguments(folder, path, output, *more):
    given = ["job", "--texts", path, "--out", output, "--classifier", folder, "--device", "cpu", *more]
    return list(map(str, given))


def explain(*given):
    """What a job prints."""
    result = run(*arguments(*given))
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(said, *given):
    command_complaint(*arguments(*given), words=(said,))


def joined(output):
    """The parts in the order of their names, as one stream of bytes."""
    table = pa.concat_tables(pq.read_table(path) for path in sorted(output.glob("part-*.parquet")))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()

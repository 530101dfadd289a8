"""Where `explearn explain` writes what it found: a page, a table, JSON Lines. Files are whole or not there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from explearn.core.display import PAGE_END, block, page_start, rows
from explearn.core.errors import DataError, ParamsError
from explearn.core.records import Attribution
from explearn.core.writing import atomic_path

Write = Callable[[Sequence[Attribution]], None]
"""Writes the attributions of one text, one a method."""

FORMATS = (".parquet", ".csv", ".jsonl")

ROWS_AT_ONCE = 20_000
"""Words held before they go to a Parquet file."""


def check_files(html: Path | None, output: Path | None) -> None:
    """Raise ParamsError unless the name of the table says one of FORMATS, and where both files are one."""
    if output is not None and output.suffix not in FORMATS:
        raise ParamsError(f"--output: got {str(output)!r}; expected a name that ends in {', '.join(FORMATS)}")
    if html is not None and output is not None and _real(html) == _real(output):
        raise ParamsError(f"--output: got {str(output)!r}, which is that of --html, too; expected two files")


def _real(path: Path) -> str:
    # Path.resolve raises where links go round.
    return os.path.realpath(path)


@contextmanager
def writers(html: Path | None, output: Path | None) -> Iterator[list[Write]]:
    """Open the files asked for; they take their places when the block ends without an exception.

    Raises DataError where one cannot be written.
    """
    kinds = {".parquet": _parquet, ".csv": _csv, ".jsonl": _json_lines}
    with ExitStack() as stack:
        found: list[Write] = []
        for path, kind in ((html, _page), (output, kinds.get(output.suffix) if output else None)):
            if path is not None and kind is not None:
                stack.enter_context(_naming(path))
                found.append(stack.enter_context(kind(path)))
        yield found


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file that the disk refuses. A reader of standard output that went away is no such refusal."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror or error})") from error


@contextmanager
def _page(path: Path) -> Iterator[Write]:
    with atomic_path(path) as partial, partial.open("w", encoding="utf-8") as file:
        file.write(page_start())

        def write(found: Sequence[Attribution]) -> None:
            file.write(block(found[0]) if len(found) == 1 else rows(found))

        yield write
        file.write(PAGE_END)


@contextmanager
def _json_lines(path: Path) -> Iterator[Write]:
    with atomic_path(path) as partial, partial.open("w", encoding="utf-8") as file:

        def write(found: Sequence[Attribution]) -> None:
            for attribution in found:
                file.write(json.dumps(attribution.to_dict(), ensure_ascii=False, allow_nan=False) + "\n")

        yield write


@contextmanager
def _csv(path: Path) -> Iterator[Write]:
    # Arrow is loaded for tables alone: `explearn explain` starts sooner without.
    from explearn.core.word_tables import WORD_SCHEMA, WordRows, csv_lines

    words = WordRows()
    with atomic_path(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(WORD_SCHEMA.names) + "\r\n")

        def write(found: Sequence[Attribution]) -> None:
            for attribution in found:
                file.write(csv_lines(words.rows(attribution)))

        yield write


@contextmanager
def _parquet(path: Path) -> Iterator[Write]:
    import pyarrow as pa

    from explearn.core.storage import parquet_writer
    from explearn.core.word_tables import WORD_SCHEMA, WordRows

    words = WordRows()
    held: list[dict[str, object]] = []
    with parquet_writer(path, WORD_SCHEMA) as writer:

        def flush() -> None:
            writer.write_table(pa.Table.from_pylist(held, schema=WORD_SCHEMA))
            held.clear()

        def write(found: Sequence[Attribution]) -> None:
            for attribution in found:
                held.extend(words.rows(attribution))
            if len(held) >= ROWS_AT_ONCE:
                flush()

        yield write
        flush()

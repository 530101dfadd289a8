"""What the tests with generated input share."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from saying import check_sentence

from explearn.core.errors import ExplearnError

EXAMPLES = int(os.environ.get("EXPLEARN_FUZZ_EXAMPLES", "15"))
"""Drawn for each test."""


fuzz = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


any_text = st.text(max_size=12) | st.sampled_from(
    ["one two", "[[one]] two", "0 1", "1 0", "\x1b[2J", "\ud800", "\u00b2", "a"]
)


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 12)
    | st.integers()
    | st.floats()
    | any_text
    | st.sampled_from([10**90, 2**32, "human", "train", "test", "yes", "no", "accept", "mark", "check"])
)


def json_values(keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5), max_leaves=12
    )


def rows(*columns: str) -> st.SearchStrategy[dict[str, Any]]:
    """Objects of the columns that a reader knows, some left out, with values of any kind."""
    keys = st.sampled_from(columns)
    return st.dictionaries(keys, json_values(keys), max_size=len(columns))


@contextmanager
def a_file(name: str, content: bytes | str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        yield path


@contextmanager
def one_sentence() -> Iterator[None]:
    try:
        yield
    except ExplearnError as error:
        check_sentence(str(error))

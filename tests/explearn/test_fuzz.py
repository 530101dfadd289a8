"""Whatever the bytes: a reader or the aligner gives what it promises, or one clear sentence.

`make fuzz` runs these for five minutes, with other examples each time; here each draws some tens.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
import yaml
from fuzz_cases import a_file, fuzz, json_values, one_sentence
from hypothesis import given
from hypothesis import strategies as st
from saying import check_sentence

from explearn.core.documents import parse_json, parse_yaml
from explearn.core.escape import printable, printable_json
from explearn.core.parquet import read_metadata
from explearn.core.records import Example
from explearn.core.storage import read_attributions, read_examples, read_rationales, write_examples
from explearn.text.alignment import NO_WORD
from explearn.text.rows import read_file

TEXTS = [Example("a", ("one", "two"), "yes", "train", "t"), Example("b", ("three",), "no", "train", "t", ("four",))]


@pytest.mark.parametrize("parse", [parse_yaml, parse_json])
@fuzz
@given(
    content=st.binary(max_size=60) | st.text(max_size=60) | st.text("[]{}:,-&*!?'\"#|>% \n019ae.x_tru\\", max_size=40)
)
def test_documents(parse: Callable[[Any], Any], content: bytes | str) -> None:
    try:
        parse(content)
    except ValueError as error:
        check_sentence(printable(str(error)))


@fuzz
@given(json_values(st.text(max_size=4)))
def test_documents_come_back(value: Any) -> None:
    try:
        actual = parse_yaml(yaml.safe_dump(value))
    except ValueError as error:
        check_sentence(str(error))
    else:
        assert actual == value or "nan" in str(value)
    if finite(value):
        assert parse_json(printable_json(value)) == parse_json(json.dumps(value)) == value


def finite(value: Any) -> bool:
    if isinstance(value, (dict, list)):
        return all(map(finite, [*value.values(), *value] if isinstance(value, dict) else value))
    return not (isinstance(value, float) and not math.isfinite(value)) and "\ud800" not in str(value)


@fuzz
@given(st.binary(max_size=80) | st.text('id,text,label"\n\r ;01\x00', max_size=80))
def test_csv(content: bytes | str) -> None:
    with a_file("films.csv", content) as path, one_sentence():
        for row in read_file(path):
            row.text("text")


@fuzz
@given(st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 255)), min_size=1, max_size=8), st.integers(0, 400))
def test_a_damaged_file_between_stages(places: list[tuple[int, int]], cut: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "e.parquet"
        write_examples(path, TEXTS)
        raw = bytearray(path.read_bytes())
        for place, byte in places:
            raw[place % len(raw)] = byte
        path.write_bytes(raw[: len(raw) - cut if cut < 200 else None])
        readers: list[Callable[[Path], Any]] = [read_examples, read_rationales, read_attributions, read_metadata]
        for read in readers:
            with one_sentence():
                read(path)


class TestAligner:
    @pytest.mark.parametrize("kind", tiny.KINDS_OF_TOKENIZER)
    @fuzz
    @given(text=st.text(max_size=40), pair=st.none() | st.text(max_size=20))
    def test_any_text(self, kind: str, text: str, pair: str | None) -> None:
        with one_sentence():
            (encoding,) = tiny.classifier(kind).encode([text if pair is None else (text, pair)])
            assert "".join(encoding.words) == "".join([*text.split(), *(pair or "").split()])
            assert all(owner == NO_WORD or 0 <= owner < len(encoding.words) for owner in encoding.word_ids)

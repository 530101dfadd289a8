"""Metadata of an ONNX file: JSON under the key `explearn`, and its tokenizer under `tokenizer`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Literal

from pydantic import Field

from explearn.core.attribution import Aggregation
from explearn.core.documents import parse_json
from explearn.core.errors import ModelError
from explearn.core.examples import label_problem
from explearn.core.validation import MOST, Fraction, Shape, check

METADATA, TOKENIZER = "explearn", "tokenizer"
"""Keys of the metadata. The tokenizer is a tokenizer.json, as the library tokenizers reads it."""

MOST_NODES = 20_000
"""Most nodes of a graph: onnxruntime loads these in seconds, and 100,000 in more than a minute. A layer has some 50."""

OUTPUTS = ("logits", "token_scores")
"""Names of the graph's outputs: float32, (batch, classes) and (batch, tokens)."""

CERTIFICATE = "certificate"
"""A further output of Reader: the bound, and 1 for a familiar text, else 0; float32, (batch, 2)."""

Input = Literal["input_ids", "attention_mask", "token_type_ids", "word_ids", "target", "aim"]
"""Names of the graph's inputs, int64. All are (batch, tokens), padded on the right, but `target` and `aim`, (batch,).

word_ids: the word of each sub-token, from 0, -1 for none and at padding; the words of a second segment follow those of
the first. target: the class to explain, -1 for the most probable one. aim: Reader's option, float32.
"""

WORDS = (
    "Words are separated by white space, and by ICU's rules in scripts without spaces. A sub-token belongs to the word "
    "that it shares most characters with, by the tokenizer's offsets, the first such word on ties; one that shares "
    "none belongs to no word."
)


class Metadata(Shape):
    """All that a reader needs besides the graph.

    Attributes:
        explearn: version that wrote it.
        method: registry name.
        aggregation: how sub-token scores become word scores.
        signed: as in `Attribution`.
        output: likewise.
        classifier: name, architecture and fingerprint.
        labels: names of the classes.
        problem: how logits become probabilities.
        inputs: inputs of the graph.
        aim: option of the exported explainer.
        max_length: most sub-tokens per text, including special ones; longer texts are cut, pairs from the longer
            segment.
        truncation_side: where texts are cut.
        pad_token_id: pads the shorter texts of a batch.
        mask_token_id: replaces a masked sub-token; None: there is no such id, and words can only be deleted.
        split_special_tokens: whether special tokens written in a text are split like any text.
        words: a sentence that says how sub-tokens belong to words.
    """

    format: Literal[1] = 1
    explearn: str
    method: str
    aggregation: Aggregation
    signed: bool
    output: str
    classifier: dict[str, str]
    labels: list[str] = Field(min_length=1)
    problem: Literal["single_label", "binary", "multi_label", "regression"]
    inputs: list[Input]
    aim: Fraction = 1.0
    max_length: int = Field(ge=1, le=MOST)
    truncation_side: Literal["left", "right"]
    pad_token_id: int = Field(ge=0, le=MOST)
    mask_token_id: int | None = Field(default=None, ge=0, le=MOST)
    split_special_tokens: bool
    words: str = WORDS


def count_nodes(path: Path) -> int:
    """Return the number of nodes of a file's graph, before it is loaded; 0 if the file is no ONNX model.

    A model is a protobuf message, whose field 7 is the graph; each field 1 of the graph is a node.
    """
    with path.open("rb") as file:
        for number, end in _fields(file, path.stat().st_size):
            if number == 7:
                return sum(number == 1 for number, _ in _fields(file, end))
    return 0


def _fields(file: BinaryIO, end: int) -> Iterator[tuple[int, int]]:
    """Yield number and end of each field of the protobuf message from here to `end`; stop at what is no field."""
    while file.tell() < end:
        key = _varint(file)
        size = {0: 0, 1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            _varint(file)
        elif key & 7 == 2:
            size = _varint(file)
        if size is None:
            return
        after = file.tell() + size
        yield key >> 3, after
        file.seek(after)


def _varint(file: BinaryIO) -> int:
    """Read a number of up to 64 bits, seven a byte, the lowest first; all but the last byte have the highest bit."""
    value = 0
    for shift in range(0, 64, 7):
        byte = (file.read(1) or b"\0")[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return value


def parse_metadata(stored: Mapping[str, str], path: str) -> Metadata:
    """Parse a file's metadata.

    Raises:
        ModelError: there are none, they have another format, or a field cannot be used.
    """
    if METADATA not in stored or TOKENIZER not in stored:
        raise ModelError(f"{path}: holds no explainer; expected a file that explearn export-onnx wrote")
    try:
        values = parse_json(stored[METADATA])
    except ValueError as error:
        raise ModelError(f"{path}: {error}; export it again") from error
    metadata: Metadata = check(Metadata, values, ModelError, f"{path}, ", "; export it again")
    problem = label_problem(metadata.labels)
    if problem:
        raise ModelError(f"{path}: {problem}; export it again")
    return metadata

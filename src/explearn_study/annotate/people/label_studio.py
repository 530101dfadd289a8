"""Marks from Label Studio's exports, JSON and JSON-MIN.

Spans are in characters: a word is marked if any of its characters lies in one. Texts are matched to the task's by their
words, because the tool uses its own ids; texts with the same words are distinguished by a task id in the tool's fields.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from explearn.core.documents import read_json
from explearn.core.errors import DataError, kind_of, shown
from explearn.core.examples import Example, Rationale
from explearn.core.validation import Shape, check
from explearn.core.words import lay_out, locate

Identifier = str | int | None


class _Data(Shape):
    text: str
    example_id: Identifier = None
    text_id: Identifier = None
    id: Identifier = None


class _Account(Shape):
    email: str | None = None
    username: str | None = None
    id: Identifier = None


class _Result(Shape):
    """A marked region, or something of another kind, such as a choice or a relation."""

    value: dict[str, Any] = Field(default_factory=dict)


class _Region(Shape):
    """A span [start, end) in characters; `text` is what it covers."""

    start: Annotated[int, Field(ge=0)]
    end: int
    text: str | None = None


class _Annotation(Shape):
    completed_by: str | int | _Account | None = None
    was_cancelled: bool | None = False
    result: list[_Result] = Field(default_factory=list)

    @property
    def annotator(self) -> str | None:
        name = self.completed_by
        if isinstance(name, _Account):
            name = name.email or name.username or name.id
        if isinstance(name, int):
            return f"annotator-{name}"
        return name or None


class _Task(Shape):
    data: _Data
    annotations: list[_Annotation] = Field(default_factory=list)


def read_label_studio(path: Path, examples: Sequence[Example], *, annotator: str | None = None) -> list[Rationale]:
    """Return the rationales of an export. All spans are evidence; an annotation without spans means that there is none.

    Args:
        path: a JSON or JSON-MIN file.
        examples: the task's examples.
        annotator: the annotator's name, if it is not in the file. None: the file's name.

    Raises:
        DataError: a text that matches none or several of the task's, spans outside the text or without a word, or a
            text repeated by one annotator; names file and task.
    """
    documents = read_json(path)
    if not isinstance(documents, list):
        raise DataError(f"{path}: got {kind_of(documents)}; expected the list of tasks that Label Studio exports")
    by_text: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        by_text[lay_out(example.all_words, example.joined).text].append(example)
    rationales: list[Rationale] = []
    seen: dict[tuple[str, str], str] = {}
    for number, document in enumerate(documents, start=1):
        where = f"{path}, task {number}"
        if isinstance(document, dict) and "data" not in document:
            document = _from_json_min(document)
        task: _Task = check(_Task, document, before=f"{where}, ")
        for annotation in task.annotations:
            if annotation.was_cancelled:
                continue
            example = _find(task.data, by_text, where)
            name = annotation.annotator or annotator or path.stem
            if (first := seen.get((example.id, name))) is not None:
                raise DataError(f"{where}: {name!r} has marked {example.id!r} in {first} too; expected it once")
            seen[example.id, name] = where
            mask = _mask(annotation, task.data.text, example.all_words, where)
            rationales.append(Rationale(example.id, name, "human", mask))
    return rationales


def _from_json_min(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of JSON-MIN, which is for one task and annotator, as a task."""
    lists = (value for value in row.values() if isinstance(value, list) and value)
    regions = next(filter(_are_regions, lists), [])
    if not regions and "annotator" not in row:
        return {"data": row}
    annotation = {"completed_by": row.get("annotator"), "result": [{"value": region} for region in regions]}
    return {"data": row, "annotations": [annotation]}


def _are_regions(values: Sequence[object]) -> bool:
    return all(isinstance(value, dict) and {"start", "end"} <= value.keys() for value in values)


def _find(data: _Data, by_text: Mapping[str, list[Example]], where: str) -> Example:
    candidates = by_text.get(" ".join(data.text.split()), [])
    if not candidates:
        raise DataError(f"{where}: got the text {shown(data.text)}; expected the words of a text of this task")
    ids = {str(value) for value in (data.example_id, data.text_id, data.id)}
    named = [example for example in candidates if example.id in ids]
    if len(candidates) > 1 and len(named) != 1:
        raise DataError(
            f"{where}: {len(candidates)} texts of this task read {shown(data.text)}; expected the id of one in a field "
            "example_id, text_id or id"
        )
    return (named or candidates)[0]


def _mask(annotation: _Annotation, text: str, words: Sequence[str], where: str) -> tuple[bool, ...]:
    spans = locate(words, text)
    mask = [False] * len(spans)
    for value in (result.value for result in annotation.result if _are_regions([result.value])):
        region: _Region = check(_Region, value, before=f"{where}, ")
        start = region.start
        end = region.end
        if region.text is not None and (text[start:end] != region.text or end - start != len(region.text)):
            # A browser counts in units of UTF-16, where a character beyond the first 65,536 is two.
            start = _from_utf16(text, start)
            end = _from_utf16(text, end)
            if text[start:end] != region.text:
                raise DataError(
                    f"{where}: got a span of {shown(region.text)}; expected the text to have it at {region.start}"
                )
        hit = [number for number, (first, last) in enumerate(spans) if first < end and last > start]
        if not (start < end <= len(text) and hit):
            raise DataError(
                f"{where}: got the span [{shown(start)}, {shown(end)}); expected one with a word in it, within the "
                f"text's {len(text)} characters"
            )
        for number in hit:
            mask[number] = True
    return tuple(mask)


def _from_utf16(text: str, offset: int) -> int:
    encoded = text.encode("utf-16-le", "surrogatepass")[: 2 * max(0, offset)]
    return len(encoded.decode("utf-16-le", "replace"))

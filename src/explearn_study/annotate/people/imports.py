"""Marks from annotation tools: Label Studio, Doccano and brat.

All three give spans of characters. A word counts as marked when any of its characters lies in one, as with marked text.
A tool's text is matched to the task's by its words, for the ids of tools are their own; where several texts have the
same words, an id of the task among the tool's fields tells them apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from explearn.core.documents import is_folder, kind_of, read_bytes, read_json, read_jsonl
from explearn.core.errors import DataError
from explearn.core.records import Example, Rationale
from explearn.text.alignment import word_spans
from explearn.text.tables import shown

ID_FIELDS = ("example_id", "text_id", "id")
"""Fields in which a tool may carry the task's own ids."""


Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class ToolMarks:
    """What one person marked on one text, as a tool has it.

    Attributes:
        where: file and row, for errors.
        ids: what may be the task's id.
        text: as the tool shows it.
        spans: [start, end) in characters (Python's: code points).
        annotator: None where the tool does not say.
        explicit: whether the tool says that the person has finished with the text; without marks that is "no evidence".
    """

    where: str
    ids: tuple[str, ...]
    text: str
    spans: tuple[tuple[int, int], ...]
    annotator: str | None
    explicit: bool


@dataclass(frozen=True, slots=True)
class Imported:
    """Rationales, and the number of texts left out because nothing says that anybody has looked at them."""

    rationales: list[Rationale]
    untouched: int


def import_marks(
    path: Path,
    tool: str,
    examples: Sequence[Example],
    *,
    annotator: str | None = None,
    evidence: Collection[str] = (),
    with_empty: bool = False,
) -> Imported:
    """Read a tool's export.

    Args:
        path: Label Studio: a JSON or JSON-MIN file; Doccano: a JSONL file; brat: a folder of .txt and .ann files.
        tool: label-studio, doccano or brat.
        examples: of the task.
        annotator: whose marks these are, where the tool does not say. Default: the file's or folder's name.
        evidence: labels of the spans that are evidence (default: all spans are).
        with_empty: a text without spans is one where its annotator found no evidence, also where the tool cannot tell.

    Raises DataError naming file and row for a text that is not of this task, or several, spans outside the text or over
    none of its words, and a text that one annotator has twice.
    """
    index = _index(examples)
    rationales: list[Rationale] = []
    seen: dict[tuple[str, str], str] = {}
    untouched = 0
    for marks in READERS[tool](path, frozenset(evidence)):
        if not marks.spans and not (marks.explicit or with_empty):
            untouched += 1
            continue
        example = _find(marks, index)
        name = marks.annotator or annotator or path.stem
        if (first := seen.get((example.id, name))) is not None:
            where = f"in {first} too" if first != marks.where else "twice"
            raise DataError(f"{marks.where}: {name!r} has marked {example.id!r} {where}; expected it once")
        seen[example.id, name] = marks.where
        mask = _mask(marks, example)
        try:
            rationales.append(Rationale(example.id, name, "human", mask))
        except DataError as error:
            raise DataError(f"{marks.where}, {error}") from error
    return Imported(rationales, untouched)


def _index(examples: Sequence[Example]) -> dict[tuple[str, ...], list[Example]]:
    found: dict[tuple[str, ...], list[Example]] = defaultdict(list)
    for example in examples:
        found[example.all_words].append(example)
    return found


def _find(marks: ToolMarks, index: Mapping[tuple[str, ...], list[Example]]) -> Example:
    candidates = index.get(tuple(marks.text.split()), [])
    if not candidates:
        raise DataError(f"{marks.where}: got the text {shown(marks.text)}; expected the words of a text of this task")
    named = [example for example in candidates if example.id in marks.ids]
    if len(candidates) > 1 and len(named) != 1:
        raise DataError(
            f"{marks.where}: {len(candidates)} texts of this task read {shown(marks.text)}; expected the id of one in "
            f"a field {' or '.join(ID_FIELDS)}"
        )
    return (named or candidates)[0]


def _mask(marks: ToolMarks, example: Example) -> tuple[bool, ...]:
    mask = [False] * len(example.all_words)
    words = word_spans(marks.text)
    for start, end in marks.spans:
        if not 0 <= start < end <= len(marks.text):
            raise DataError(
                f"{marks.where}: got the span [{start}, {end}); expected one within the text's "
                f"{len(marks.text)} characters"
            )
        hit = [number for number, (first, last) in enumerate(words) if first < end and last > start]
        if not hit:
            raise DataError(f"{marks.where}: got the span [{start}, {end}); expected one with a word in it")
        for number in hit:
            mask[number] = True
    return tuple(mask)


def _label_studio(path: Path, evidence: Collection[str]) -> Iterator[ToolMarks]:
    tasks = read_json(path)
    if not isinstance(tasks, list):
        raise DataError(f"{path}: got {kind_of(tasks)}; expected the list of tasks that Label Studio exports")
    for number, task in enumerate(tasks, start=1):
        where = f"{path}, task {number}"
        if not isinstance(task, dict):
            raise DataError(f"{where}: got {shown(task)}; expected a JSON object")
        data = task if "data" not in task else _field(task, "data", dict, where, "a JSON object")
        text = _field(data, "text", str, where, "the text")
        ids = tuple(str(data[name]) for name in ID_FIELDS if name in data)
        if "annotations" not in task and "data" not in task:  # JSON-MIN: one row for each task and annotator
            marked: list[Any] = next((value for value in task.values() if _are_regions(value)), [])
            spans = tuple(_regions(marked, text, evidence, where))
            yield ToolMarks(where, ids, text, spans, _person(task, "annotator", where), "annotator" in task)
            continue
        for annotation in _objects(task, "annotations", where):
            if _field(annotation, "was_cancelled", bool, where, "true or false", False):
                continue
            # Beside marked regions there are results of other kinds: choices, relations.
            values = [
                _field(item, "value", dict, where, "a JSON object", {})
                for item in _objects(annotation, "result", where)
            ]
            spans = tuple(_regions(filter(_is_region, values), text, evidence, where))
            yield ToolMarks(where, ids, text, spans, _person(annotation, "completed_by", where), True)


_MISSING: Any = object()


def _field(
    of: Mapping[str, Any], name: str, kind: type[Kind], where: str, expected: str, default: Any = _MISSING
) -> Kind:
    """A field of a tool's object. Raises DataError where it is of another kind, or missing and without a default."""
    value = of.get(name)
    if value is None and default is not _MISSING:
        return default  # type: ignore[no-any-return]
    if not isinstance(value, kind):
        raise DataError(f"{where}, field {name!r}: got {shown(value)}; expected {expected}")
    return value


def _objects(of: Mapping[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    """A field that is a list of objects, or missing."""
    found: list[Any] = _field(of, name, list, where, "a list of JSON objects", [])
    for item in found:
        if not isinstance(item, dict):
            raise DataError(f"{where}, field {name!r}: got {shown(item)}; expected JSON objects")
    return found


def _is_region(value: object) -> bool:
    return isinstance(value, dict) and "start" in value and "end" in value


def _are_regions(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_region(item) for item in value)


def _regions(
    regions: Iterable[Mapping[str, Any]], text: str, evidence: Collection[str], where: str
) -> Iterator[tuple[int, int]]:
    for region in regions:
        start, end = region["start"], region["end"]
        if type(start) is not int or type(end) is not int or start < 0:
            raise DataError(f"{where}: got the span [{shown(start)}, {shown(end)}); expected whole numbers from 0")
        name = next((name for name in ("labels", "hypertextlabels") if region.get(name)), "labels")
        labels = _field(region, name, list, where, "a list of labels", [])
        if not all(isinstance(label, str) for label in labels):
            raise DataError(f"{where}, field {name!r}: got {shown(labels)}; expected a list of labels")
        if evidence and not any(label in evidence for label in labels):
            continue
        said = _field(region, "text", str, where, "the words of the span", None)
        if said is not None and (text[start:end], end - start) != (said, len(said)):
            # A browser counts in units of UTF-16, where a character beyond the first 65,536 is two.
            start, end = _from_utf16(text, start), _from_utf16(text, end)
            if text[start:end] != said:
                raise DataError(
                    f"{where}: got a span of {shown(said)}; expected the text to have it at {region['start']}"
                )
        yield start, end


def _from_utf16(text: str, offset: int) -> int:
    encoded = text.encode("utf-16-le", "surrogatepass")[: 2 * max(0, offset)]
    return len(encoded.decode("utf-16-le", "replace"))


def _person(of: Mapping[str, Any], field: str, where: str) -> str | None:
    """A name from a tool's account, which is a name, a number or (Label Studio) an object; None where there is none."""
    value = of.get(field)
    if isinstance(value, Mapping):
        value = next((value[name] for name in ("email", "username", "id") if value.get(name)), value or None)
    if value is None or value == "":
        return None
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise DataError(f"{where}, field {field!r}: got {shown(value)}; expected a name or a number")
    return f"annotator-{value}" if isinstance(value, int) else value


def _doccano(path: Path, evidence: Collection[str]) -> Iterator[ToolMarks]:
    for number, row in read_jsonl(path):
        where = f"{path}, row {number}"
        text = row.get("text", row.get("data"))
        if not isinstance(text, str):
            raise DataError(f"{where}, field 'text': got {shown(text)}; expected the text")
        listed: Any = next((row[name] for name in ("entities", "label", "labels", "spans") if row.get(name)), [])
        spans = []
        for item in listed if isinstance(listed, list) else [listed]:
            if isinstance(item, Mapping):
                item = [item.get("start_offset"), item.get("end_offset"), item.get("label")]
            if not (isinstance(item, Sequence) and len(item) == 3 and all(type(bound) is int for bound in item[:2])):
                raise DataError(f"{where}: got the span {shown(item)}; expected [start, end, label]")
            if item[2] is not None and not isinstance(item[2], (str, int)):
                raise DataError(f"{where}: got the span {shown(item)}; expected a label as its third part")
            if not evidence or item[2] in evidence:
                spans.append((item[0], item[1]))
        ids = tuple(str(row[name]) for name in ID_FIELDS if name in row)
        yield ToolMarks(where, ids, text, tuple(spans), _person(row, "annotator", where), False)


def _brat(path: Path, evidence: Collection[str]) -> Iterator[ToolMarks]:
    files = sorted(path.rglob("*.ann")) if is_folder(path) else [path]
    if not files:
        raise DataError(f"{path}: no .ann file; expected a folder of brat's .txt and .ann files")
    for file in files:
        text = _read_text(file.with_suffix(".txt"))
        spans = []
        for number, line in enumerate(_read_text(file).split("\n"), start=1):
            if line.startswith("T"):
                spans += _text_bound(line, text, evidence, f"{file}, line {number}")
        yield ToolMarks(str(file), (file.stem,), text, tuple(spans), None, False)


def _read_text(path: Path) -> str:
    """Text of a file as it stands: brat counts every character, those of line ends too."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not valid UTF-8; expected UTF-8") from error


def _text_bound(line: str, text: str, evidence: Collection[str], where: str) -> list[tuple[int, int]]:
    """Spans of a line `T1<tab>Type 0 5;8 12<tab>words`; the words must be the text's."""
    fields = line.rstrip("\r").split("\t")
    kind, _, offsets = fields[1].partition(" ") if len(fields) > 1 else ("", "", "")
    try:
        spans = [(int(start), int(end)) for start, end in (pair.split() for pair in offsets.split(";"))]
    except ValueError as error:
        raise DataError(f"{where}: got {shown(line)}; expected ID<tab>TYPE START END<tab>WORDS") from error
    covered = " ".join(text[start:end] for start, end in spans)
    if len(fields) > 2 and covered.split() != fields[2].split():
        raise DataError(f"{where}: got the words {shown(fields[2])}; expected {shown(covered)}, as in the text")
    return spans if not evidence or kind in evidence else []


READERS: dict[str, Callable[[Path, Collection[str]], Iterator[ToolMarks]]] = {
    "label-studio": _label_studio,
    "doccano": _doccano,
    "brat": _brat,
}

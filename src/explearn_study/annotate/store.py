"""People's marks and verdicts for a task, in the folder data/annotations/TASK.

    answers.sqlite     the language models' answers (see `explearn.predictors.llm.store`)
    seeds.jsonl        marked examples for prompts
    human.jsonl        marks by people, imported
    verdicts.jsonl     people's verdicts on a model's marks
    adjudicated.jsonl  decisions where people differ

All files except the answers are rationales in the format `mask` of docs/study/data.md, the verdicts with more columns.
Each text and annotator has one line, which a later import replaces.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from explearn.core.examples import Example, Rationale
from explearn.core.writing import locked, write_text
from explearn.text.rows import read_file
from explearn_study.sections import RationaleFile
from explearn_study.sources.rationale_files import import_rationales

VerdictKind = Literal["accept", "reject"]
VERDICTS: tuple[VerdictKind, ...] = get_args(VerdictKind)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A person's verdict on one rationale by a model, which does not apply to other marks of the same text."""

    example_id: str
    annotator: str
    verdict: VerdictKind
    mask: tuple[bool, ...]
    comment: str = ""


class Store:
    """The folder of one task."""

    def __init__(self, folder: Path) -> None:
        self.answers = folder / "answers.sqlite"
        self.seeds = folder / "seeds.jsonl"
        self.human = folder / "human.jsonl"
        self.verdicts = folder / "verdicts.jsonl"
        self.adjudicated = folder / "adjudicated.jsonl"

    def read(self, path: Path, examples: Sequence[Example], unused: Iterable[str] = ()) -> list[Rationale]:
        """Return the rationales in one of the files, none if it does not exist; raises as `import_rationales` does.

        Args:
            path: the file.
            examples: the task's texts.
            unused: ids of the source's texts that the task does not use; their lines are skipped.
        """
        if not path.exists():
            return []
        return import_rationales(path, RationaleFile(path=path.name, kind="human"), examples, frozenset(unused))

    def read_verdicts(self, examples: Sequence[Example], unused: Iterable[str] = ()) -> list[Verdict]:
        """Return the verdicts.

        Raises:
            DataError: an invalid verdict; names file, row and field.
        """
        rationales = self.read(self.verdicts, examples, unused)
        if not rationales:
            return []
        masks = {(rationale.example_id, rationale.annotator): rationale.mask for rationale in rationales}
        verdicts = []
        for row in read_file(self.verdicts):
            verdict = row.values.get("verdict")
            if verdict not in VERDICTS:
                raise row.error("verdict", verdict, " or ".join(VERDICTS))
            key = (str(row.values["id"]), str(row.values["annotator"]))
            if key in masks:
                verdicts.append(Verdict(*key, verdict, masks[key], str(row.values.get("comment") or "")))
        return verdicts

    def add(self, path: Path, rationales: Iterable[Rationale], examples: Iterable[Example]) -> int:
        """Add rationales to one of the files, replacing those by the same annotators on the same texts.

        Returns:
            The number of those replaced.

        Raises:
            DataError: the existing file cannot be read.
        """
        return _merge(path, rationale_rows(rationales, examples))

    def add_verdicts(self, verdicts: Sequence[Verdict], examples: Iterable[Example]) -> int:
        """Add verdicts to their file, as `add` does rationales."""
        judged = [Rationale(verdict.example_id, verdict.annotator, "human", verdict.mask) for verdict in verdicts]
        rows = rationale_rows(judged, examples)
        for row, verdict in zip(rows, verdicts, strict=True):
            row |= {"verdict": verdict.verdict, "comment": verdict.comment}
        return _merge(self.verdicts, rows)


def rationale_rows(rationales: Iterable[Rationale], examples: Iterable[Example]) -> list[dict[str, object]]:
    """Return rationales as rows of the format `mask`."""
    words = {example.id: example.all_words for example in examples}
    rows: list[dict[str, object]] = []
    for rationale in rationales:
        rows.append(
            {
                "id": rationale.example_id,
                "annotator": rationale.annotator,
                "kind": rationale.kind,
                "words": list(words[rationale.example_id]),
                "rationale": [int(marked) for marked in rationale.mask],
            }
        )
    return rows


def write_rows(path: Path, rows: Iterable[dict[str, object]]) -> None:
    """Write JSON Lines, whole or not at all."""
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _merge(path: Path, rows: Iterable[dict[str, object]]) -> int:
    # Locked before reading: otherwise what another import adds meanwhile would be lost.
    with locked(path):
        merged: dict[tuple[object, object], dict[str, object]] = {}
        for row in read_file(path) if path.exists() else ():
            for name in ("id", "annotator"):
                if not isinstance(row.value(name)[1], str):
                    raise row.error(name, row.values[name], "a text")
            merged[row.values["id"], row.values["annotator"]] = dict(row.values)
        new = {(row["id"], row["annotator"]): row for row in rows}
        replaced = len(merged.keys() & new.keys())
        write_rows(path, {**merged, **new}.values())
    return replaced

"""A task for annotation: its texts, its labels, and people's marks and verdicts, in the folder data/annotations/TASK.

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
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Literal, get_args

from explearn.core.errors import DataError
from explearn.core.examples import Example, Rationale
from explearn.core.writing import locked, write_text
from explearn.text.rows import read_file
from explearn_study.example_files import read_rationales
from explearn_study.params import Params
from explearn_study.sections import LLMAnnotatorParams, RationaleFile
from explearn_study.sources.rationale_files import import_rationales
from explearn_study.workspace import Workspace

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
    """The folder of one task.

    Args:
        folder: the folder.
        examples: the task's texts.
        unused: ids of the source's texts that the task does not use; their lines are skipped.
    """

    def __init__(self, folder: Path, examples: Sequence[Example], unused: Collection[str] = ()) -> None:
        self.answers = folder / "answers.sqlite"
        self.seeds = folder / "seeds.jsonl"
        self.human = folder / "human.jsonl"
        self.verdicts = folder / "verdicts.jsonl"
        self.adjudicated = folder / "adjudicated.jsonl"
        self._examples = examples
        self._unused = unused

    def read(self, path: Path) -> list[Rationale]:
        """Return the rationales in one of the files, none if it does not exist; raises as `import_rationales` does."""
        if not path.exists():
            return []
        return import_rationales(path, RationaleFile(path=path.name, kind="human"), self._examples, self._unused)

    def read_verdicts(self) -> list[Verdict]:
        """Return the verdicts.

        Raises:
            DataError: an invalid verdict; names file, row and field.
        """
        rationales = self.read(self.verdicts)
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

    def add(self, path: Path, rationales: Iterable[Rationale]) -> int:
        """Add rationales to one of the files, replacing those by the same annotators on the same texts.

        Returns:
            The number of those replaced.

        Raises:
            DataError: the existing file cannot be read.
        """
        return _merge(path, self._rows(rationales))

    def add_verdicts(self, verdicts: Sequence[Verdict]) -> int:
        """Add verdicts to their file, as `add` does rationales."""
        rows = self._rows(Rationale(item.example_id, item.annotator, "human", item.mask) for item in verdicts)
        for row, verdict in zip(rows, verdicts, strict=True):
            row |= {"verdict": verdict.verdict, "comment": verdict.comment}
        return _merge(self.verdicts, rows)

    def _rows(self, rationales: Iterable[Rationale]) -> list[dict[str, object]]:
        """Return rationales as rows of the format `mask`."""
        words = {example.id: example.all_words for example in self._examples}
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


def write_rows(path: Path, rows: Iterable[dict[str, object]], what: str | None = None) -> None:
    """Write JSON Lines, whole or not at all; `what` is that of `explearn.core.writing.atomic_path`."""
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), what)


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


@dataclass(frozen=True)
class TaskMarks:
    """A task's texts and people's marks on them.

    Attributes:
        name: name of the task.
        store: its folder of marks.
        examples: texts of all splits.
        labels: the task's labels in their order.
        rationales: people's marks: from the source, from files, seeds, and `human.jsonl`.
        adjudicated: decisions where annotators differ, which replace all other marks of their texts.
        llm: parameters of annotation by a model.
    """

    name: str
    store: Store
    examples: Sequence[Example]
    labels: Sequence[str]
    rationales: Sequence[Rationale]
    adjudicated: Sequence[Rationale]
    llm: LLMAnnotatorParams

    @property
    def marked(self) -> frozenset[str]:
        """Ids of the texts that people have marked."""
        return frozenset(r.example_id for r in (*self.rationales, *self.adjudicated))

    def settled(self, rationales: Iterable[Rationale]) -> list[Rationale]:
        """Return rationales with the adjudicated ones replacing all others of their texts."""
        decided = {rationale.example_id for rationale in self.adjudicated}
        open_ones = [rationale for rationale in rationales if rationale.example_id not in decided]
        return [*open_ones, *self.adjudicated]


def spread_over_labels(items: Iterable[Any], labels: Sequence[str], count: int) -> list[Any]:
    """Return at most `count` items, one label after the other, so that none is favoured.

    A label without further items is skipped, so the labels are as balanced as the items allow.
    """
    waiting: dict[str, list[Any]] = {label: [] for label in labels}
    for item in items:
        waiting[item.example.label].append(item)
    return take_in_turn(waiting.values())[:count]


def take_in_turn(groups: Iterable[Sequence[Any]]) -> list[Any]:
    """Return the first item of each group, then the second of each, and so on; a group without more is skipped."""
    in_turn = chain.from_iterable(zip_longest(*groups))
    return [item for item in in_turn if item is not None]


def check_new(path: Path, rationales: Iterable[Rationale], existing: Collection[tuple[str, str]]) -> None:
    """Check that no other source has the same text and annotator.

    Args:
        path: file of the rationales, for the error.
        rationales: rationales to add.
        existing: text and annotator of the rationales in other sources.

    Raises:
        DataError: another source has one of them, too.
    """
    for rationale in rationales:
        if (rationale.example_id, rationale.annotator) in existing:
            raise DataError(
                f"{path}: annotator {rationale.annotator!r} has marked {rationale.example_id!r} in another source too; "
                "expected one rationale for each annotator and text"
            )


def read_task_marks(task: str, params: Params, workspace: Workspace) -> TaskMarks:
    """Read a prepared task and all of people's marks.

    Raises:
        DataError: the stage prepare has not run, or a file cannot be used, for example because an annotator has marked
            a text in two places.
    """
    folder = workspace.examples(task)
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; run `dvc repro prepare@{task}` first")
    settings = params.rationale_params(task)
    examples = workspace.read_examples(task)
    unused = frozenset(workspace.read_task(task)["unused_ids"])
    store = Store(workspace.annotations(task), examples, unused)
    rationales = read_rationales(folder / "native.parquet")
    marked = {(r.example_id, r.annotator) for r in rationales}

    def add(path: Path, more: Sequence[Rationale]) -> None:
        check_new(path, more, marked)
        rationales.extend(more)
        marked.update((r.example_id, r.annotator) for r in more)

    for file in settings.files:
        path = Path(params.data_dir) / file.path
        add(path, import_rationales(path, file, examples, unused))
    add(store.human, store.read(store.human))
    # A seed set may be a selection of marks in other files.
    seeds = store.read(store.seeds)
    add(store.seeds, [r for r in seeds if (r.example_id, r.annotator) not in marked])
    return TaskMarks(
        name=task,
        store=store,
        examples=examples,
        labels=workspace.read_labels(task),
        rationales=rationales,
        adjudicated=store.read(store.adjudicated),
        llm=settings.llm or LLMAnnotatorParams(),
    )

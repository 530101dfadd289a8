"""A task for annotation: its texts, its labels, and people's marks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Protocol, TypeVar

from explearn.core.errors import DataError
from explearn.core.examples import Example, Rationale
from explearn_study.annotate.store import Store
from explearn_study.example_files import read_rationales
from explearn_study.params import Params
from explearn_study.sections import LLMParams
from explearn_study.sources.rationale_files import import_rationales
from explearn_study.workspace import Workspace


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
        unused: ids of the source's texts that the task does not use.
        llm: parameters of annotation by a model.
    """

    name: str
    store: Store
    examples: Sequence[Example]
    labels: Sequence[str]
    rationales: Sequence[Rationale]
    adjudicated: Sequence[Rationale]
    unused: frozenset[str]
    llm: LLMParams

    @property
    def marked(self) -> frozenset[str]:
        """Ids of the texts that people have marked."""
        return frozenset(r.example_id for r in (*self.rationales, *self.adjudicated))

    def settled(self, rationales: Iterable[Rationale]) -> list[Rationale]:
        """Return rationales with the adjudicated ones replacing all others of their texts."""
        decided = {rationale.example_id for rationale in self.adjudicated}
        open_ones = [rationale for rationale in rationales if rationale.example_id not in decided]
        return [*open_ones, *self.adjudicated]


class HasExample(Protocol):
    @property
    def example(self) -> Example: ...


Item = TypeVar("Item", bound=HasExample)
Taken = TypeVar("Taken")


def spread_over_labels(items: Iterable[Item], labels: Sequence[str], count: int) -> list[Item]:
    """Return at most `count` items, one label after the other, so that none is favoured.

    A label without further items is skipped, so the labels are as balanced as the items allow.
    """
    waiting: dict[str, list[Item]] = {label: [] for label in labels}
    for item in items:
        waiting[item.example.label].append(item)
    return take_in_turn(waiting.values())[:count]


def take_in_turn(groups: Iterable[Sequence[Taken]]) -> list[Taken]:
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
    store = Store(workspace.annotations(task))
    rationales = read_rationales(folder / "native.parquet")
    marked = {(r.example_id, r.annotator) for r in rationales}

    def add(path: Path, more: Sequence[Rationale]) -> None:
        check_new(path, more, marked)
        rationales.extend(more)
        marked.update((r.example_id, r.annotator) for r in more)

    for file in settings.files:
        path = Path(params.data_dir) / file.path
        add(path, import_rationales(path, file, examples, unused))
    add(store.human, store.read(store.human, examples, unused))
    # A seed set may be a selection of marks in other files.
    seeds = store.read(store.seeds, examples, unused)
    add(store.seeds, [r for r in seeds if (r.example_id, r.annotator) not in marked])
    return TaskMarks(
        name=task,
        store=store,
        examples=examples,
        labels=workspace.read_labels(task),
        rationales=rationales,
        adjudicated=store.read(store.adjudicated, examples, unused),
        unused=unused,
        llm=settings.llm or LLMParams(),
    )

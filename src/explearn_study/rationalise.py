"""Reading a task's texts and all of people's marks from a workspace."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from explearn.core.errors import DataError
from explearn.core.examples import Rationale
from explearn_study.annotate.store import Store
from explearn_study.annotate.task import TaskMarks
from explearn_study.example_files import read_rationales
from explearn_study.params import Params
from explearn_study.sections import LLMParams
from explearn_study.sources.rationale_files import import_rationales
from explearn_study.workspace import Workspace


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

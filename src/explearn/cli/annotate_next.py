"""`explearn annotate next`: which texts to mark next, and what their marks would bring."""

from __future__ import annotations

from pathlib import Path

from explearn.annotation.people.sheets import SheetRow, check_new_sheet, write_new_sheet
from explearn.cli.printing import console, printed
from explearn.core.compute import ComputeOptions
from explearn.metrics.marks_curve import next_marks
from explearn.pipeline.base.params import load_params
from explearn.pipeline.base.workspace import Workspace
from explearn.pipeline.next_texts import Proposal, propose
from explearn.pipeline.rationalise import read_task_marks

SHOWN_WORDS = 14
"""Words of each text that are printed; the sheet has them all."""


def next_texts(task: str, count: int, out: Path | None, split: str | None, params_file: Path) -> None:
    if out is not None:
        check_new_sheet(out)
    params, workspace = load_params(params_file), Workspace()
    marks = read_task_marks(params.check_task(task), params, workspace)
    found = propose(workspace, params, task, count, split, marks.marked, ComputeOptions(), params.seed)
    show = console()
    show.print(
        f"{len(found.texts):,} of {found.candidates:,} unmarked texts, by the consensus of "
        f"{printed(', '.join(found.trained_on))} and {found.marked:,} marked texts of {printed(task)}; "
        "before each its doubt, in bits"
    )
    for text in found.texts:
        words = text.example.all_words
        shown = " ".join(words[:SHOWN_WORDS]) + (" …" if len(words) > SHOWN_WORDS else "")
        show.print(f"{text.doubt:.2f}  [bold]{printed(text.example.id)}[/bold]  {printed(shown)}")
    if out is not None:
        rows = [SheetRow(text.example, (False,) * len(text.example.all_words)) for text in found.texts]
        write_new_sheet(out, "mark", f"Mark {task}", rows)
        show.print(
            f"{printed(str(out))}: {len(rows):,} texts to mark; `explearn annotate import` brings the marks back"
        )
    show.print(printed(_outlook(found, task, len(found.texts))))


def _outlook(found: Proposal, task: str, more: int) -> str:
    if found.curve is None:
        command = f"python stages/marks_curve.py --task {task}"
        return f"What more marks bring is not measured for {task}: `{command}` measures it."
    told = next_marks(found.curve, min(found.marked, int(found.curve["points"][-1]["marks"])), more)
    return f"{told} (±: standard error over {found.curve['draws']} draws of texts at random)" if "±" in told else told

"""`explearn fix`: how do I get something out of what a classifier leans on, and did it work?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from explearn.cli.audit import Patterns
from explearn.cli.common import DEFAULT_SEED, Compute, Seed, command, tell
from explearn.cli.options import ClassifierToExplain, LabelledColumns, Table, TrainingOptions, parse_options
from explearn.core.errors import ParamsError


@command
def fix(
    texts: Table,
    out: Annotated[Path, typer.Option(help="Folder to write the fixed classifier to; the page lies beside it.")],
    finding: Annotated[
        Path | None,
        typer.Option(help="The page of an audit, or its .findings.json: all its confirmed findings."),
    ] = None,
    element: Annotated[
        list[str] | None,
        typer.Option(
            help="What the classifier should not lean on: a word, a phrase, a mark, or a name as an audit gives it "
            "(‘a’ before ‘b’, numbers, long texts); may be repeated."
        ),
    ] = None,
    pattern: Patterns = None,
    group: Annotated[str | None, typer.Option(help="Column with the group of each text, such as its source.")] = None,
    by: Annotated[
        str, typer.Option(help="The way: tokens, data, reweight, consistency, guard, prompt; auto: all that can be.")
    ] = "auto",
    tolerance: Annotated[
        float, typer.Option(help="By how much the accuracy in texts without the elements may fall.", min=0, max=1)
    ] = 0.01,
    option: TrainingOptions = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the values as JSON.")] = False,
    seed: Seed = DEFAULT_SEED,
    *,
    classifier: ClassifierToExplain,
    columns: LabelledColumns,
    compute: Compute,
) -> None:
    """Get something out of what a classifier leans on, in several ways, and prove which worked by changing texts.

    Exit code 0: fixed, or nothing to fix. 1: nothing helped, or the accuracy fell by more than --tolerance (the folder
    is written). 2: something cannot be used.

    explearn fix --classifier my-model --texts train.csv --label-column label --element reportedly --out my-model-fixed
    """
    if finding is not None and element:
        raise ParamsError("got --finding and --element; expected one of them (--element takes the names of findings)")
    training = parse_options(option)
    # Loads torch, which --help need not wait for.
    from pydantic_core import to_jsonable_python

    from explearn.auditing.fix import fix as run
    from explearn.auditing.reading import AuditOptions

    settings = AuditOptions(patterns=pattern or (), columns=columns, seed=seed, compute=compute, show_progress=True)
    result = run(
        classifier(),
        texts,
        None,
        finding or element or (),
        group,
        by,
        tolerance=tolerance,
        out=out,
        options=settings,
        **training,
    )
    if as_json:
        print(json.dumps(to_jsonable_python(result.values()), ensure_ascii=False))
    else:
        result.print()
        tell(result.page)
        if result.folder is not None:
            tell(result.folder)
    if result.failed:
        raise typer.Exit(1)

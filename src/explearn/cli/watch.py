"""`explearn watch`: do the reasons of a classifier change over time, and why?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from explearn.cli import options
from explearn.cli.audit import Patterns
from explearn.cli.common import Compute, command, tell
from explearn.cli.options import ClassifierToExplain, TextsAlone

LEAST_CHANGE = 0.01

_SIDE = "folder of a finished `explearn job`, or a table of texts, which --classifier explains."


@command
def watch(
    reference: Annotated[Path, typer.Option(help=f"What is compared with: {_SIDE}")],
    now: Annotated[Path, typer.Option(help=f"Today: {_SIDE}")],
    history: Annotated[
        Path | None, typer.Option(help="Parquet file of the days so far; today is added.", show_default="none")
    ] = None,
    day: Annotated[str | None, typer.Option(help="Name of today.", show_default="that of --now")] = None,
    group: Annotated[
        str | None, typer.Option(help="Column with the group of each text; for jobs `id`, their --id-column.")
    ] = None,
    least: Annotated[
        float, typer.Option(help="Smallest change that matters, as a share of the texts.", min=0, max=0.99)
    ] = LEAST_CHANGE,
    fail_above: Annotated[
        float | None, typer.Option(help="Exit with 1 if a reason changed by more than this.", min=0, max=1)
    ] = None,
    pattern: Patterns = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per element.")] = False,
    out: options.Page = Path("watch.html"),
    *,
    methods: options.MethodsToUse,
    columns: TextsAlone,
    classifier: ClassifierToExplain,
    compute: Compute,
) -> None:
    """Say what changed since a reference in what a classifier leans on, in its texts and its answers, and why.

    Exit code 0: done. 1: a reason changed by more than --fail-above allows. 2: something cannot be used.

    explearn watch --reference day-01 --now day-17 --history watch.parquet --out watch.html
    """
    explainer = None
    # Of a job's scores, --method only names those that are read.
    method: Any = options.only("--method", [*methods.names, *map(str, methods.folders)])
    if methods.folders or not (reference.is_dir() and now.is_dir()):
        method = explainer = methods.one()
    # Loads torch, which --help need not wait for.
    from pydantic_core import to_jsonable_python

    from explearn.auditing.watching import WatchOptions
    from explearn.auditing.watching import watch as run

    settings = WatchOptions(
        group=group,
        least=least,
        day=day,
        patterns=pattern or (),
        columns=columns,
        seed=methods.seed,
        compute=compute,
        show_progress=True,
    )
    source = classifier([explainer], required=False)
    result = run(reference, now, source, method, history=history, out=out, options=settings)
    if as_json:
        for change in result.changes:
            tell(json.dumps(to_jsonable_python(change)))
    else:
        result.print()
        tell(result.page)
    if fail_above is not None and result.largest > fail_above:
        typer.echo(f"a reason changed by {result.largest:.3f} of the texts, more than {fail_above:g}", err=True)
        raise typer.Exit(1)

"""Commands of the project: `explearn report` and `gate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from explearn.cli.common import command, tell
from explearn_study.staging import run_alone


@command
def report() -> None:
    """Rewrite the report of the project in this folder, with the parameters in params.yaml or EXPLEARN_PARAMS.

    explearn report
    """
    from explearn_study.params import load_params
    from explearn_study.report.project import report_project
    from explearn_study.workspace import Workspace

    run = load_params()
    workspace = Workspace()
    with run_alone("report"):
        report_project(workspace, run)
    for name in ("report.md", "report.html"):
        tell(workspace.reports / name)


@command
def gate(
    rules: Annotated[Path, typer.Argument(help="YAML file with the rules.")] = Path("conf/gate.yaml"),
    base: Annotated[
        str, typer.Option(help="Run to compare with: a git revision, a metrics.json, or a project folder.")
    ] = "HEAD",
) -> None:
    """Say whether this folder's run is within noise of another, and list figures that are worse than the rules allow.

    Exit code 0: none is. 1: some are. 2: the rules or metrics cannot be used.

    explearn gate --base origin/main
    """
    from explearn_study.report.gate import change_table, check, load_gate, read_metrics, summary

    changes = check(load_gate(rules), read_metrics(base), read_metrics("."))
    worse = [change for change in changes if change.regression]
    if worse:
        print(change_table(worse), end="\n\n")
    print(summary(changes))
    if worse:
        raise typer.Exit(1)

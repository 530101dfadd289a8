"""Commands of the project: `explearn report`, `gate` and `verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from explearn.cli.common import user_errors
from explearn.core.escape import printable
from explearn_study.staging import run_alone


def report() -> None:
    """Rewrite the report of the project in this folder, with the parameters in params.yaml or EXPLEARN_PARAMS.

    explearn report
    """
    with user_errors():
        from explearn_study.params import load_params
        from explearn_study.report.project import report_project
        from explearn_study.workspace import Workspace

        run = load_params()
        workspace = Workspace()
        with run_alone("report"):
            report_project(workspace, run, run.seed)
        for name in ("report.md", "report.html"):
            print(printable(str(workspace.reports / name)))


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
    with user_errors():
        from explearn_study.report.gate import change_table, check, load_gate, read_metrics, summary

        changes = check(load_gate(rules), read_metrics(base), read_metrics("."))
        worse = [change for change in changes if change.regression]
        if worse:
            print(change_table(worse), end="\n\n")
        print(summary(changes))
    if worse:
        raise typer.Exit(1)


def verify(
    of: Annotated[
        Path, typer.Argument(metavar="PAGE_OR_FOLDER", help="A page, its manifest (JSON), or a bundle's folder.")
    ],
) -> None:
    """Check a page and its inputs (texts, models, results, code, versions) against the manifest next to it, or a
    bundle's files against the bundle's manifest.

    Exit code 0: nothing differs. 1: something differs, and is named. 2: there is no manifest.

    explearn verify report.html
    """
    with user_errors():
        from explearn.bundle.manifest import differences, read_manifest
        from explearn.report.manifest import check_manifest, manifests_in

        def fingerprint(name: str) -> str:
            from explearn.predictors.pretrained import load_classifier

            return load_classifier(name, device="cpu").fingerprint

        same = True
        manifests = list(manifests_in(of)) if of.is_dir() else [of.with_suffix(".json")]
        for manifest in manifests:
            checked, differing = check_manifest(manifest, fingerprint)
            same &= print_check(manifest, f"{', '.join(checked)} are unchanged.", differing)
        if not manifests:
            files = read_manifest(of)
            differing = list(differences(of, files))
            same = print_check(of, f"all {len(files.files):,} files are unchanged.", differing)
    if not same:
        raise typer.Exit(1)


def print_check(path: Path, unchanged: str, differing: list[str]) -> bool:
    """Print the differences from a manifest, or that there are none; return whether there are none."""
    # Names come from the manifest.
    for difference in differing:
        print(printable(difference, one_line=True))
    sentence = unchanged
    if len(differing) == 1:
        sentence = "1 difference"
    elif differing:
        sentence = f"{len(differing)} differences"
    print(printable(f"{path}: {sentence}", one_line=True))
    return not differing

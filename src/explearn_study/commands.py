"""Commands of the project: `explearn report`, `gate` and `verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from explearn.cli.running import Seed, user_errors
from explearn.core.errors import ParamsError
from explearn.core.visible import visible
from explearn_study.staging import run_alone


def report(
    params: Annotated[
        Path, typer.Option("--params", help="File of the run's parameters.", envvar="EXPLEARN_PARAMS")
    ] = Path("params.yaml"),
    seed: Seed = None,
) -> None:
    """Write the report of the project in this folder anew."""
    with user_errors():
        from explearn_study.params import load_params
        from explearn_study.report.project import report_project
        from explearn_study.workspace import Workspace

        run = load_params(params)
        workspace = Workspace()
        with run_alone("report"):
            report_project(workspace, run, run.seed if seed is None else seed)
        for name in ("report.md", "report.html"):
            print(workspace.reports / name)


def gate(
    rules: Annotated[Path, typer.Argument(help="YAML file of rules, as conf/gate.yaml.", show_default=False)],
    base: Annotated[str, typer.Option(help="Git revision to compare with.")] = "HEAD",
    head: Annotated[
        str, typer.Option(help="Git revision to judge, or workspace: the files as they stand.")
    ] = "workspace",
    old: Annotated[
        Path | None, typer.Option(help="Metrics file, or project folder, to compare with, instead of --base.")
    ] = None,
    new: Annotated[
        Path | None, typer.Option(help="Metrics file, or project folder, to judge, instead of --head.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--md", help="Print Markdown, for a job summary.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Show every figure, not just those that became worse.")] = False,
) -> None:
    """Compare two runs figure by figure, and show what has become worse than the rules allow.

    Exit code 0: nothing has. 1: something has, and for no other reason. 2: the comparison could not be made, for rules
    or metrics cannot be used.
    """
    with user_errors():
        from explearn_study.report.gate import Gate, check, from_path, from_revision, load_gate
        from explearn_study.report.gate_changes import print_changes, summary

        if (old is None) != (new is None):
            raise ParamsError("--old and --new go together; expected both or neither")
        found = load_gate(rules)
        files = list(dict.fromkeys(rule.file for rule in found.rules))
        if old is not None and new is not None:
            before, after = from_path(files, old), from_path(files, new)
            if old.is_file() or new.is_file():
                shared = before.keys() | after.keys()
                found = Gate(rules=[rule for rule in found.rules if rule.file in shared])
        else:
            before, after = from_revision(files, base), from_revision(files, head)
        changes = check(found, before, after)
        worse = [change for change in changes if change.regression]
        print_changes(changes if every else worse, markdown)
        print(f"\n{summary(changes)}")
    if worse:
        raise typer.Exit(1)


def _verify_bundle(folder: Path) -> None:
    from explearn.bundle.manifest import differences, read_manifest

    manifest = read_manifest(folder)
    found = list(differences(folder, manifest))
    for difference in found:
        print(visible(difference, one_line=True))
    if found:
        raise typer.Exit(1)
    print(f"{folder}: all {len(manifest.files):,} files are as they were exported.")


def verify(
    manifest: Annotated[Path, typer.Argument(help="JSON manifest of an evidence page, or the folder of a bundle.")],
) -> None:
    """Check models, data, results, code and versions against a manifest, or the files of a bundle against its own.

    Exit code 0: all is as it was. 1: something differs, and is named. 2: this is no manifest.
    """
    with user_errors():
        if manifest.is_dir():
            _verify_bundle(manifest)
            return

        from explearn.model.classifier import Classifier
        from explearn_study.report.evidence import check_manifest

        found = check_manifest(manifest, lambda name: Classifier.from_pretrained(name, device="cpu").fingerprint)
        for difference in found:
            # Names come from the manifest.
            print(visible(difference, one_line=True))
        if found:
            print(f"{manifest}: {len(found)} difference{'s' * (len(found) > 1)}")
        else:
            print(f"{manifest}: models, data, results, code and versions are as they were.")
    if found:
        raise typer.Exit(1)

"""`explearn export`: put an explainer, with everything that belongs to it, into a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from explearn.cli.common import command, tell
from explearn.cli.options import parse_options


@command
def export(
    out: Annotated[Path, typer.Option(help="The bundle to write: a new folder.")],
    explainer: Annotated[
        Path | None,
        typer.Option(help="Folder of a trained explainer (data/explainers/TASK/NAME)."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="Name of the method (default: the method of --explainer)."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="Set an option of an untrained method, NAME=VALUE; may be repeated."),
    ] = None,
    classifier: Annotated[
        str | None,
        typer.Option(
            help="Folder or hub name of the bundle's classifier (default: the trained explainer's classifier, else "
            "any).",
        ),
    ] = None,
    with_classifier: Annotated[
        bool, typer.Option("--with-classifier", help="Put the classifier into the bundle.")
    ] = False,
    metrics: Annotated[Path | None, typer.Option(help="A run's reports/metrics.json, for the model card.")] = None,
    task: Annotated[str | None, typer.Option(help="With --metrics: the task whose figures to use.")] = None,
) -> None:
    """Write a bundle: an explainer with its classifier's fingerprint, options, figures and a model card.

    `explearn.load` and `explearn explain --explainer` accept it. It holds safetensors, JSON and a README.md.

    explearn export --explainer my-reader --classifier my-model --out my-bundle
    """
    options = parse_options(option)
    # Loads torch, which --help need not wait for.
    from explearn.bundle.export import export as write

    folder = write(
        out,
        method=method,
        explainer=explainer,
        options=options,
        classifier=classifier,
        with_classifier=with_classifier,
        metrics=metrics,
        task=task,
    )
    tell(folder)

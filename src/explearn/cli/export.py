"""`explearn export`: put an explainer, with what belongs to it, into a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from explearn.cli.choosing import parse_options
from explearn.core.errors import ParamsError
from explearn.pipeline.base.staging import user_errors


def export(
    out: Annotated[Path | None, typer.Option(help="The bundle to write: a new folder.", show_default=False)] = None,
    onnx: Annotated[
        Path | None,
        typer.Option(
            help="Instead of a bundle: the ONNX file to write, with classifier and explainer in one graph (ExpNet and "
            "L2E; --explainer may also be a bundle).",
            show_default=False,
        ),
    ] = None,
    explainer: Annotated[
        Path | None,
        typer.Option(help="Folder of a trained explainer (data/explainers/TASK/NAME).", show_default=False),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="Name of the method (default: that whose training is in --explainer).", show_default=False),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="An option of a method that is not trained, NAME=VALUE; may be repeated."),
    ] = None,
    classifier: Annotated[
        str | None,
        typer.Option(
            help="Folder or hub name of the classifier that the bundle is for (default: the one that a trained "
            "explainer belongs to, else any).",
            show_default=False,
        ),
    ] = None,
    with_classifier: Annotated[
        bool, typer.Option("--with-classifier", help="Put the classifier into the bundle.")
    ] = False,
    metrics: Annotated[
        Path | None, typer.Option(help="A run's reports/metrics.json, for the model card.", show_default=False)
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="With --metrics: the task whose figures to take.", show_default=False)
    ] = None,
) -> None:
    """Write a bundle: an explainer with its classifier's fingerprint, options, figures and a model card.

    `explearn.load` and `explearn explain --explainer` take it. It holds safetensors, JSON and a README.md.
    With --onnx write both as one graph for onnxruntime, which explearn.integrations.onnx.OnnxExplainer reads.
    """
    with user_errors():
        if (out is None) == (onnx is None):
            raise ParamsError(f"got {'neither' if out is None else 'both'} of --out and --onnx; expected one of them")
        options = parse_options(option or [])
        if onnx is not None:
            given = {"--method": method, "--option": option, "--metrics": metrics, "--task": task}
            _refuse([name for name, value in given.items() if value], with_classifier)
            if explainer is None:
                raise ParamsError("--onnx: got no trained explainer; expected its folder, or a bundle (--explainer)")
            from explearn.integrations.onnx.writing import export_onnx

            print(export_onnx(onnx, explainer=explainer, classifier=classifier))
            return
        assert out is not None
        # Loads torch, which --help need not wait for.
        from explearn.bundle.export import export as write

        print(
            write(
                out,
                method=method,
                explainer=explainer,
                options=options,
                classifier=classifier,
                with_classifier=with_classifier,
                metrics=metrics,
                task=task,
            )
        )


def _refuse(given: list[str], with_classifier: bool) -> None:
    """Raise ParamsError for options that say something of a bundle alone."""
    if with_classifier:
        raise ParamsError("--with-classifier: an ONNX file always holds the classifier; leave it out with --onnx")
    if given:
        raise ParamsError(f"{given[0]}: is for a bundle; leave it out with --onnx")

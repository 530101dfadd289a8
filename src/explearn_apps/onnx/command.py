"""`explearn export-onnx`: a classifier and its trained explainer as one ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from explearn.cli.common import command, tell


@command
def export_onnx(
    explainer: Annotated[Path, typer.Option(help="Folder of a trained Marker, ExpNet or Reader, or a bundle.")],
    out: Annotated[Path, typer.Option(help="The ONNX file to write.")],
    classifier: Annotated[
        str | None,
        typer.Option(
            help="Folder or hub name of the classifier (default: the explainer's).",
        ),
    ] = None,
) -> None:
    """Write a classifier and its trained explainer as one ONNX graph, for explearn_apps.onnx.OnnxExplainer.

    explearn export-onnx --explainer my-reader --classifier my-model --out my-reader.onnx
    """
    from explearn_apps.onnx.writing import export_onnx as write  # brings torch

    tell(write(out, explainer=explainer, classifier=classifier))

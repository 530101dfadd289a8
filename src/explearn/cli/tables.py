"""The options that say where a command's texts are, and what the columns of their table hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from explearn.comparison.texts import TextColumns
from explearn.core.errors import ParamsError

ClassifierToJudge = Annotated[
    str, typer.Option(help="Folder of a saved sequence classifier, or its hub name.", envvar="EXPLEARN_CLASSIFIER")
]
Table = Annotated[Path, typer.Option(help="A .csv, .jsonl or .parquet table, or a .txt file with a text a line.")]


def text_columns(
    text_column: Annotated[str | None, typer.Option(help="Column of the text.", show_default="text")] = None,
    pair_column: Annotated[str | None, typer.Option(help="Column of the second segment, for pairs.")] = None,
    id_column: Annotated[str | None, typer.Option(help="Column of a unique identifier.")] = None,
    labels: Annotated[str | None, typer.Option(help="Column of the true label.")] = None,
    label_name: Annotated[
        list[str] | None,
        typer.Option(help="A value in the labels' column and its class, VALUE=CLASS; may be repeated."),
    ] = None,
    rationales: Annotated[
        str | None,
        typer.Option(help="Column of the marked words, FORMAT:COLUMN; formats: mask (0/1), marked ([[...]]), spans."),
    ] = None,
    token_column: Annotated[
        str | None,
        typer.Option(help="Column of the word that is classified, or its number, for models that classify tokens."),
    ] = None,
) -> TextColumns:
    """Return the columns as the command line names them. Raises ParamsError for names of labels of another form."""
    names = _label_names(label_name or (), labels)
    return TextColumns(text_column, pair_column, labels, id_column, rationales, names, token_column)


def _label_names(pairs: Sequence[str], labels: str | None) -> dict[str, str]:
    """Return VALUE=CLASS as value -> class. Raises ParamsError for another form, and without a column `labels`."""
    names = dict(pair.split("=", 1) for pair in pairs if re.fullmatch("[^=]+=.+", pair))
    if len(names) < len(pairs):
        raise ParamsError(f"--label-name: got {', '.join(pairs)}; expected VALUE=CLASS, one class for each value")
    if names and labels is None:
        raise ParamsError("--label-name: got names, but no --labels; expected the column that holds the labels")
    return names

"""The options that name a command's table of texts, and its columns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from explearn.cli.common import Group
from explearn.cli.options import parse_label_names
from explearn.comparison.texts import TextColumns

ClassifierToJudge = Annotated[
    str, typer.Option(help="Folder of a saved sequence classifier, or its hub name.", envvar="EXPLEARN_CLASSIFIER")
]
Table = Annotated[Path, typer.Option(help="A .csv, .jsonl or .parquet table, or a .txt file with one text per line.")]


def text_columns(
    text_column: Annotated[str | None, typer.Option(help="Column with the text.", show_default="text")] = None,
    pair_column: Annotated[str | None, typer.Option(help="Column with the second segment, for pairs.")] = None,
    labels: Annotated[str | None, typer.Option(help="Column with the true label.")] = None,
    label_name: Annotated[
        list[str] | None,
        typer.Option(
            help="Map a value in the column of labels to a class, 1=good, or rename a class of the classifier, "
            "LABEL_1=good; may be repeated."
        ),
    ] = None,
    rationales: Annotated[
        str | None,
        typer.Option(help="Column with the marked words, FORMAT:COLUMN; formats: mask (0/1), marked ([[...]]), spans."),
    ] = None,
    marks_by: Annotated[
        str | None, typer.Option(help="Who marked the words: people, model, or a name.", show_default="not known")
    ] = None,
    token_column: Annotated[
        str | None,
        typer.Option(help="Column with the classified word, or its number, for models that classify tokens."),
    ] = None,
) -> TextColumns:
    """Return the columns named on the command line.

    Raises:
        ParamsError: a --label-name is malformed.
    """
    names = parse_label_names(label_name)
    return TextColumns(text_column, pair_column, labels, None, rationales, names, token_column, marks_by)


_TITLE = "Columns of the table"
_OF_MARKS = ("rationales", "marks_by", "token_column")
ColumnsOfTable = Annotated[TextColumns, Group(_TITLE, text_columns)]
LabelledColumns = Annotated[TextColumns, Group(_TITLE, text_columns, without=_OF_MARKS)]

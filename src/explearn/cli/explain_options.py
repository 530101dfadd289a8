"""Arguments and options of `explearn explain`, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Texts = Annotated[
    list[str] | None,
    typer.Argument(help="Texts to explain; none: one a line from standard input.", show_default=False),
]
ClassifierOption = Annotated[
    str,
    typer.Option(
        help="Folder of a saved sequence classifier, or its hub name; not needed by explainers with their own.",
        envvar="EXPLEARN_CLASSIFIER",
    ),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        help="Name of a method; `explearn methods` lists them. Repeat it to set several side by side.",
        show_default="that of the trained explainer or bundle; attcat where there is none",
    ),
]
Explainers = Annotated[
    list[Path] | None,
    typer.Option(
        help="Folder of a trained explainer, for learned methods (data/explainers/TASK/NAME), or a bundle of any "
        "method (`explearn export`); of several, in the order of the methods.",
        show_default=False,
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        help="An option of the method, NAME=VALUE; may be repeated. With several methods, it goes to all that have "
        "it, METHOD.NAME=VALUE to one.",
    ),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        help="Class to explain, may be repeated (default: the predicted class; each label that holds, of a "
        "multi-label classifier; each value, of a regression).",
        show_default=False,
    ),
]
Windows = Annotated[
    int | None,
    typer.Option(
        help="Read texts longer than the classifier takes through windows, this many sub-tokens apart "
        "(default: they are cut).",
        show_default=False,
    ),
]
Pair = Annotated[
    str | None,
    typer.Option(help="Second segment, for classifiers of pairs, or the passage of questions; goes with every text."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a text and method, a line each.")]
Html = Annotated[Path | None, typer.Option(help="Write a page with the words in colour to this file.")]
Output = Annotated[
    Path | None,
    typer.Option(
        help="Write the scores to this file: .parquet or .csv (a row a word), .jsonl (a text a line). "
        "With --input: the folder for the parts."
    ),
]
CompletionOption = Annotated[
    Path | None,
    typer.Option(
        help="Of a generative model: a JSON or YAML file with its prompt and label words (docs/classifiers.md; "
        "default: completion.json beside the model).",
        show_default=False,
    ),
]

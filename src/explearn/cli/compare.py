"""`explearn compare`: which explanation can one trust on one's own model?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from explearn.cli.running import Seed, command
from explearn.core.compute import ComputeOptions
from explearn.core.errors import ParamsError
from explearn.core.escape import printable


@command
def compare(
    classifier: Annotated[
        str, typer.Option(help="Folder of a saved sequence classifier, or its hub name.", envvar="EXPLEARN_CLASSIFIER")
    ],
    texts: Annotated[Path, typer.Option(help="A .csv, .jsonl or .parquet table, or a .txt file with a text a line.")],
    text_column: Annotated[str | None, typer.Option(help="Column of the text.", show_default="text")] = None,
    pair_column: Annotated[str | None, typer.Option(help="Column of the second segment, for pairs.")] = None,
    id_column: Annotated[str | None, typer.Option(help="Column of a unique identifier.")] = None,
    labels: Annotated[
        str | None, typer.Option(help="Column of the true label; without it the classifier's accuracy is not known.")
    ] = None,
    label_name: Annotated[
        list[str] | None,
        typer.Option(help="A value in the labels' column and its class, VALUE=CLASS; may be repeated."),
    ] = None,
    rationales: Annotated[
        str | None,
        typer.Option(help="Column of the marked words, FORMAT:COLUMN; formats: mask (0/1), marked ([[...]]), spans."),
    ] = None,
    methods: Annotated[
        str, typer.Option(help="quick, light or complete, or names separated by commas (`explearn methods`).")
    ] = "light",
    budget: Annotated[
        str | None, typer.Option(help="Time to keep to, such as 90s, 10m or 1.5h: fewer texts, then fewer methods.")
    ] = None,
    max_texts: Annotated[int | None, typer.Option(help="Most texts.", min=1)] = None,
    scores: Annotated[
        list[Path] | None,
        typer.Option(help="JSON Lines of word scores from elsewhere, to judge beside the methods; may be repeated."),
    ] = None,
    completion: Annotated[
        Path | None,
        typer.Option(help="Of a generative model: a JSON or YAML file with its prompt and label words."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    work: Annotated[
        Path | None, typer.Option(help="Folder to work in and keep; run again, it goes on where it was stopped.")
    ] = None,
    seed: Seed = None,
    *,
    compute: ComputeOptions,
) -> None:
    """Judge explanation methods on your own classifier and texts; writes one page that needs no other file."""
    names = _label_names(label_name or (), labels)
    # What loads torch takes seconds, which --help need not wait for.
    from explearn.comparison.run import compare as run
    from explearn.comparison.texts import TextColumns

    comparison = run(
        classifier,
        texts,
        methods=methods,
        budget=budget,
        max_texts=max_texts,
        out=out,
        work=work,
        scores=scores or (),
        columns=TextColumns(text_column, pair_column, labels, id_column, rationales, names),
        seed=13 if seed is None else seed,
        completion=completion,
        compute=compute,
        tell=lambda line: print(printable(line), flush=True),
    )
    for name, reason in comparison.left_out.items():
        print(printable(f"left out: {name} ({reason})"))
    print("seconds: " + ", ".join(f"{part} {seconds:.1f}" for part, seconds in comparison.seconds.items()))
    print(comparison.report)


def _label_names(pairs: Sequence[str], labels: str | None) -> dict[str, str]:
    """Return VALUE=CLASS as value -> class. Raises ParamsError for another form, and without a column `labels`."""
    names = dict(pair.split("=", 1) for pair in pairs if re.fullmatch("[^=]+=.+", pair))
    if len(names) < len(pairs):
        raise ParamsError(f"--label-name: got {', '.join(pairs)}; expected VALUE=CLASS, one class for each value")
    if names and labels is None:
        raise ParamsError("--label-name: got names, but no --labels; expected the column that holds the labels")
    return names

"""`explearn compare`: which explanation can one trust on one's own model?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from explearn.cli.running import COMPUTE_OPTIONS, compute_options, user_errors
from explearn.core.errors import ParamsError
from explearn.core.settings import LARGEST_SEED
from explearn.core.visible import visible

_DEVICE, _PRECISION, _MAX_TOKENS, _COMPILE, _DEVICE_MAP, _MAX_MEMORY = (
    annotation for name, (annotation, _) in COMPUTE_OPTIONS.items() if name != "seed"
)


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
    device: _DEVICE = "auto",  # type: ignore[valid-type]
    precision: _PRECISION = "fp32",  # type: ignore[valid-type]
    max_tokens: _MAX_TOKENS = "auto",  # type: ignore[valid-type]
    compile: _COMPILE = False,  # type: ignore[valid-type]
    device_map: _DEVICE_MAP = "",  # type: ignore[valid-type]
    max_memory: _MAX_MEMORY = "",  # type: ignore[valid-type]
    seed: Annotated[
        int, typer.Option(help="Seed of everything random.", envvar="EXPLEARN_SEED", min=0, max=LARGEST_SEED)
    ] = 13,
) -> None:
    """Judge explanation methods on your own classifier and texts; writes one page that needs no other file."""
    with user_errors():
        names = _label_names(label_name or (), labels)
        compute = compute_options(device, precision, max_tokens, compile, device_map, max_memory)
        # What loads torch takes seconds, which --help need not wait for.
        from explearn.comparison.run import compare as run
        from explearn.comparison.texts import TextColumns

        found = run(
            classifier,
            texts,
            methods=methods,
            budget=budget,
            max_texts=max_texts,
            out=out,
            work=work,
            scores=scores or (),
            columns=TextColumns(text_column, pair_column, labels, id_column, rationales, names),
            seed=seed,
            completion=completion,
            compute=compute,
            tell=lambda line: print(visible(line), flush=True),
        )
        for name, reason in found.left_out.items():
            print(visible(f"left out: {name} ({reason})"))
        print("seconds: " + ", ".join(f"{part} {seconds:.1f}" for part, seconds in found.seconds.items()))
        print(found.report)


def _label_names(pairs: Sequence[str], labels: str | None) -> dict[str, str]:
    """Value -> class, of VALUE=CLASS.

    Raises ParamsError for a pair of another form, a value that comes twice, and without a column `labels`.
    """
    names: dict[str, str] = {}
    for pair in pairs:
        value, _, name = pair.partition("=")
        if not (value and name):
            raise ParamsError(f"--label-name: got {pair!r}; expected VALUE=CLASS")
        if value in names:
            raise ParamsError(f"--label-name: got {value!r} twice; expected one class for each value")
        names[value] = name
    if names and labels is None:
        raise ParamsError("--label-name: got names, but no --labels; expected the column that holds the labels")
    return names

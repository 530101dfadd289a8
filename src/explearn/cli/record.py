"""`explearn record`: why the classifier decided about one text as it did, to be checked later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from explearn.cli import options
from explearn.cli.common import Compute, command
from explearn.core.documents import read_yaml
from explearn.core.escape import printable
from explearn.show.blocks import plain

MASKED = "masked"


def _print_schema(wanted: bool) -> None:
    if wanted:
        from explearn.decision.document import DecisionRecord

        print(json.dumps(DecisionRecord.model_json_schema(), indent=2))
        raise typer.Exit


Method = Annotated[
    str | None,
    typer.Option(
        help="Name of a method; `explearn methods` lists them.",
        show_default="the best of --comparison, else what explain takes",
        rich_help_panel="Methods",
    ),
]


@command
def record(
    text: Annotated[str, typer.Argument(help="The text.")],
    method: Method = None,
    explainer: options.TrainedExplainer = None,
    option: options.Options = None,
    comparison: Annotated[
        Path | None, typer.Option(help="JSON that `explearn compare` wrote next to its page.")
    ] = None,
    exchange: Annotated[
        str | None,
        typer.Option(
            help="Words to exchange in the search for the smallest change: a YAML or JSON file, WORD: [OTHER, ...], or "
            "`masked` for the masked-word head in the classifier's checkpoint.",
            metavar="FILE|masked",
            show_default="words are only taken out",
        ),
    ] = None,
    pair: Annotated[str | None, typer.Option(help="Second segment, for classifiers of pairs.")] = None,
    hash_only: Annotated[bool, typer.Option("--hash-only", help="Leave out the text; keep its SHA-256.")] = False,
    key: Annotated[Path | None, typer.Option(help="PEM file with a private Ed25519 key to sign with.")] = None,
    out: Annotated[Path, typer.Option(help="The page to write; the record goes next to it, as JSON.")] = Path(
        "record.html"
    ),
    schema: Annotated[
        bool, typer.Option("--schema", callback=_print_schema, is_eager=True, help="Print the JSON Schema of records.")
    ] = False,
    *,
    classifier: options.ClassifierToExplain,
    compute: Compute,
) -> None:
    """Record one decision: the answer, the words behind it, and the smallest change found that turns it.

    explearn record "A lazy, dull sequel." --classifier my-model --comparison report.json --out record.html
    """
    chosen = options.named_explainer(method, explainer, option)
    source = classifier([chosen])
    from explearn.decision.page import sentences
    from explearn.decision.record import record as make

    words: Any = exchange
    if exchange is not None and exchange != MASKED:
        words = read_yaml(exchange)
    made = make(
        source,
        text if pair is None else (text, pair),
        chosen,
        comparison=comparison,
        exchange=words,
        hash_only=hash_only,
        key=key,
        out=out,
        device=compute,
    )
    for sentence in sentences(made):
        print(printable(plain(sentence)))
    print(printable(str(out)))

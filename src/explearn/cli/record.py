"""`explearn record`: why the classifier decided about one text as it did, to be checked later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from explearn.cli import options
from explearn.cli.common import Compute, command, tell
from explearn.core.documents import read_yaml
from explearn.core.errors import ParamsError

MASKED = "masked"


def _print_schema(wanted: bool) -> None:
    if wanted:
        from explearn.decision.document import DecisionRecord

        print(json.dumps(DecisionRecord.model_json_schema(), indent=2))
        raise typer.Exit


@command
def record(
    text: Annotated[str | None, typer.Argument(help="The text (default: each of --texts).", show_default=False)] = None,
    target: options.Targets = None,
    versus: options.Versus = None,
    comparison: Annotated[
        Path | None,
        typer.Option(
            help="JSON that `explearn compare` wrote next to its page; if no method is named, its best one is taken."
        ),
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
    pair: options.Pair = None,
    hash_only: Annotated[bool, typer.Option("--hash-only", help="Leave out the text; keep its SHA-256.")] = False,
    key: Annotated[Path | None, typer.Option(help="PEM file with a private Ed25519 key to sign with.")] = None,
    out: options.Page = Path("record.html"),
    table: options.TableOrTexts = None,
    schema: Annotated[
        bool, typer.Option("--schema", callback=_print_schema, is_eager=True, help="Print the JSON Schema of records.")
    ] = False,
    *,
    methods: options.MethodsToUse,
    columns: options.TextsAlone,
    classifier: options.ClassifierToExplain,
    compute: Compute,
) -> None:
    """Record one decision: the answer, the words behind it, and the smallest change found that turns it.

    Of the texts of a file, each gets a record: record-1.html, record-2.html, ...

    explearn record "A lazy, dull sequel." --classifier my-model --comparison report.json --out record.html
    """
    chosen = methods.one()
    explained = options.only("--target", target)
    source = classifier([chosen])
    typed = [] if text is None else [text]
    texts = options.given_texts(typed, table, columns, pair)
    if not texts:
        raise ParamsError("text: got none; expected one, or a file of them (--texts)")
    # These bring torch, which --help need not wait for.
    from explearn.decision.record import record as make
    from explearn.predictors.pretrained import as_predictor

    words: Any = exchange
    if exchange is not None and exchange != MASKED:
        words = read_yaml(exchange)
    model = as_predictor(source, compute)
    for number, segments in enumerate(texts, start=1):
        page = out
        if table is not None:
            page = out.with_stem(f"{out.stem}-{number}")
        made = make(
            model,
            segments,
            chosen,
            target=explained,
            versus=versus,
            comparison=comparison,
            exchange=words,
            hash_only=hash_only,
            key=key,
            out=page,
            seed=methods.seed,
        )
        if table is None:
            made.print()
            tell(page)
        else:
            tell(f"{page}: {made.sentences()[0]}")

"""`explearn train`: train an explainer for a classifier on a table of texts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from explearn.cli.common import DEFAULT_SEED, Compute, Seed, command, tell
from explearn.cli.options import Options, parse_options
from explearn.cli.tables import ClassifierToJudge, ColumnsOfTable, Table


@command
def train(
    method: Annotated[
        str,
        typer.Argument(
            help="reader or paml_states, which learn from the classifier's predictions; marker, which learns from "
            "marked words or, without any, from the consensus; ivra or smat, which weigh attention and need labels.",
        ),
    ],
    texts: Table,
    out: Annotated[Path, typer.Option(help="Folder to save the trained explainer to, for --explainer.")],
    option: Options = None,
    seed: Seed = DEFAULT_SEED,
    *,
    classifier: ClassifierToJudge,
    columns: ColumnsOfTable,
    compute: Compute,
) -> None:
    """Train an explainer for your classifier on your texts.

    reader needs only texts, some hundreds of them:

    explearn train reader --classifier FOLDER_OR_HUB_NAME --texts my-texts.csv --out my-reader
    """
    options = parse_options(option)
    from explearn.training import train as run

    start = time.perf_counter()
    run(
        method,
        classifier,
        texts,
        columns=columns,
        out=out,
        seed=seed,
        compute=compute,
        description=f"train {method}",
        **options,
    )
    tell(f"{method}, trained in {time.perf_counter() - start:.0f} s")
    tell(out)

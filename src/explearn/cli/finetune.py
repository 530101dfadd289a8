"""`explearn finetune`: fine-tune a classifier on a table of labelled texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from explearn.cli.common import DEFAULT_SEED, Compute, Seed, command, tell
from explearn.cli.options import parse_options
from explearn.cli.tables import LabelledColumns, Table


@command
def finetune(
    texts: Table,
    encoder: Annotated[
        str, typer.Option(help="Pretrained encoder: a hub name, a folder, or `embedded` (extra `demo`).")
    ],
    out: Annotated[Path, typer.Option(help="Folder to save the classifier to.")],
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", "-o", help="NAME=VALUE: epochs, learning_rate, batch_size, max_length, ...; may be repeated."
        ),
    ] = None,
    seed: Seed = DEFAULT_SEED,
    *,
    columns: LabelledColumns,
    compute: Compute,
) -> None:
    """Fine-tune a classifier on your labelled texts; a fifth of them is used to choose the best epoch.

    explearn finetune --texts my-texts.csv --labels label --encoder distilbert-base-uncased --out my-classifier
    """
    options = parse_options(option)
    from explearn.training import finetune as run

    history = run(encoder, texts, out, columns=columns, seed=seed, compute=compute, **options)
    for epoch in history:
        print(
            f"epoch {epoch.epoch}: loss {epoch.train_loss:.3f}; on the validation texts, accuracy {epoch.accuracy:.3f}"
        )
    tell(out)

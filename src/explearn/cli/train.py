"""`explearn train`, `finetune` and `export`: an explainer or a classifier from a table of texts, and bundles."""

from __future__ import annotations

import time
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from explearn.cli.common import DEFAULT_SEED, Compute, Seed, command, tell
from explearn.cli.options import (
    ClassifierToExplain,
    ColumnsOfTable,
    LabelledColumns,
    Options,
    Table,
    TrainingOptions,
    parse_options,
)
from explearn.core.errors import ParamsError, shown


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
    classifier: ClassifierToExplain,
    columns: ColumnsOfTable,
    compute: Compute,
) -> None:
    """Train an explainer for your classifier on your texts.

    reader needs only texts, some hundreds of them:

    explearn train reader --classifier FOLDER_OR_HUB_NAME --texts my-texts.csv --out my-reader
    """
    from explearn.training import train as run

    options = _options(option, run)
    start = time.perf_counter()
    run(
        method,
        classifier(),
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


@command
def finetune(
    texts: Table,
    encoder: Annotated[
        str, typer.Option(help="Pretrained encoder: a hub name, a folder, or `embedded` (extra `demo`).")
    ],
    out: Annotated[Path, typer.Option(help="Folder to save the classifier to.")],
    option: TrainingOptions = None,
    seed: Seed = DEFAULT_SEED,
    *,
    columns: LabelledColumns,
    compute: Compute,
) -> None:
    """Fine-tune a classifier on your labelled texts; a fifth of them is used to choose the best epoch.

    explearn finetune --texts my-texts.csv --label-column label --encoder distilbert-base-uncased --out my-classifier
    """
    from explearn.training import finetune as run

    options = _options(option, run)
    history = run(encoder, texts, out, columns=columns, seed=seed, compute=compute, **options)
    for epoch in history:
        print(
            f"epoch {epoch.epoch}: loss {epoch.train_loss:.3f}; on the validation texts, accuracy {epoch.accuracy:.3f}"
        )
    tell(out)


def _options(pairs: list[str] | None, run: Callable[..., Any]) -> dict[str, Any]:
    """Return NAME=VALUE pairs as `parse_options` does; raise ParamsError for a NAME that is an argument of `run`."""
    options = parse_options(pairs)
    for name in signature(run).parameters:
        if name in options:
            hint = "use --seed" if name == "seed" else "no such option"
            raise ParamsError(f"--option {name}: got {shown(options[name])}; {hint}")
    return options


@command
def export(
    out: Annotated[Path, typer.Option(help="Folder to write the bundle to.")],
    explainer: Annotated[
        Path | None,
        typer.Option(help="Folder of a trained explainer (data/explainers/TASK/NAME)."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="Name of the method (default: the method of --explainer)."),
    ] = None,
    option: Options = None,
    classifier: Annotated[
        str | None,
        typer.Option(
            help="Folder or hub name of the bundle's classifier (default: the trained explainer's classifier, else "
            "any).",
        ),
    ] = None,
    with_classifier: Annotated[
        bool, typer.Option("--with-classifier", help="Put the classifier into the bundle.")
    ] = False,
    metrics: Annotated[Path | None, typer.Option(help="A run's reports/metrics.json, for the model card.")] = None,
    task: Annotated[str | None, typer.Option(help="With --metrics: the task whose figures to use.")] = None,
) -> None:
    """Write a bundle: an explainer with its classifier's fingerprint, options, figures and a model card.

    `explearn.load` and `explearn explain --explainer` accept it. It holds safetensors, JSON and a README.md.

    explearn export --explainer my-reader --classifier my-model --out my-bundle
    """
    options = parse_options(option)
    # Loads torch, which --help need not wait for.
    from explearn.bundle.export import export as write

    folder = write(
        out,
        method=method,
        explainer=explainer,
        options=options,
        classifier=classifier,
        with_classifier=with_classifier,
        metrics=metrics,
        task=task,
    )
    tell(folder)

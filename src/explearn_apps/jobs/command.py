"""`explearn job`: explain the texts of a file of any length."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from explearn.cli.common import Compute, command, tell
from explearn.cli.options import LoadedClassifier, MethodsToUse, Table, Targets, TextsAlone, Units, Windows
from explearn.core.errors import ParamsError
from explearn.core.validation import MOST, whole_number
from explearn.show.blocks import several
from explearn.text.encoding import TEXT
from explearn.text.rows import check_readable

SHARD_TEXTS = 10_000


@command
def job(
    texts: Table,
    out: Annotated[Path, typer.Option(help="Folder for the parts; a stopped job resumes there.")],
    target: Targets = None,
    windows: Windows = None,
    unit: Units = "word",
    id_column: Annotated[str | None, typer.Option(help="Column with an identifier, kept in the results.")] = None,
    shard_texts: Annotated[int, typer.Option(help="Number of texts per part.", min=1, max=MOST)] = SHARD_TEXTS,
    ray: Annotated[
        str | None,
        typer.Option(
            help="Explain the parts with this many Ray workers, each with the classifier in memory, on the cluster "
            "that RAY_ADDRESS names or on this machine. auto: one per GPU; without GPUs, one per node.",
            metavar="N|auto",
            show_default="none; this process explains them",
        ),
    ] = None,
    *,
    methods: MethodsToUse,
    columns: TextsAlone,
    classifier: LoadedClassifier,
    compute: Compute,
) -> None:
    """Explain the texts of a large file in parts, each a Parquet file with one row per word.

    explearn job --classifier my-model --texts my-texts.parquet --out my-scores
    """
    # These load pyarrow, which --help need not wait for.
    from explearn_apps.jobs.explaining import Input, Job
    from explearn_apps.jobs.run import LocalExecutor, run

    check_readable(texts)  # refuses a file that is missing or of another kind before the classifier is loaded
    explainers = methods.explainers()
    whole = Job(
        input=Input(texts, columns.text or TEXT, columns.pair, id_column),
        folder=out,
        part_texts=shard_texts,
        classifier=classifier(explainers),
        explainers=explainers,
        targets=target or [],
        windows=windows,
        unit=unit,
        compute=compute,
    )
    executor = LocalExecutor()
    if ray is not None:
        workers = whole_number(ray)
        if ray != "auto" and not workers:
            raise ParamsError(f"--ray: got {ray[:60]!r}; expected a number of workers, or auto")
        compute.check_one_device("a worker of --ray")
        from explearn_apps.jobs.ray_executor import RayExecutor

        executor = RayExecutor(workers)
    done = run(whole, executor)
    rows = sum(part.rows for part in done.parts.values())
    counts = (several(done.texts, "text"), several(rows, "row"), several(len(done.parts), "part"))
    tell(f"{', '.join(counts)}: {out}")

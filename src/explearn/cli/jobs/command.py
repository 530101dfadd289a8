"""The options of `explearn explain` for large jobs (--input), and what goes with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from explearn.cli.choosing import Choice, parse_options
from explearn.core.compute import ComputeOptions
from explearn.core.errors import ParamsError
from explearn.core.settings import MOST

if TYPE_CHECKING:
    from explearn.cli.jobs.engines import Engine
    from explearn.cli.jobs.reading import Input

EngineName = Literal["local", "ray"]

SHARD_TEXTS = 10_000

InputOption = Annotated[
    Path | None,
    typer.Option(
        "--input",
        help="Explain the texts of a .parquet, .csv, .jsonl or .txt file of any length; --output is then a folder of "
        "parts, and a run that was killed goes on where it was.",
        show_default=False,
    ),
]
TextColumn = Annotated[str | None, typer.Option(help="With --input: column of the text.", show_default="text")]
PairColumn = Annotated[
    str | None, typer.Option(help="With --input: column of the second segment, for pairs.", show_default=False)
]
IdColumn = Annotated[
    str | None,
    typer.Option(help="With --input: column of an identifier, kept in the results.", show_default=False),
]
ShardTexts = Annotated[
    int | None,
    typer.Option(help="With --input: texts a part.", min=1, max=MOST, show_default=str(SHARD_TEXTS)),
]

EngineOption = Annotated[
    EngineName | None,
    typer.Option(
        "--engine",
        help="With --input: what explains the parts. ray: the workers of the Ray cluster that RAY_ADDRESS names, or of "
        "one on this machine.",
        show_default="local",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        help="With --engine ray: how many workers, each with the classifier in memory.",
        min=1,
        max=MOST,
        show_default="one a GPU; without GPUs, one a node",
    ),
]


Devices = Annotated[
    str | None,
    typer.Option(
        help="With --input: a worker process on each of these, such as cuda:0,cuda:1 or cpu,cpu; all: on every GPU.",
        show_default="one process, on --device",
    ),
]


def input_of(
    path: Path | None,
    output: Path | None,
    own: Mapping[str, Any],
    second: str | None,
    refused: Mapping[str, Any],
) -> Input | None:
    """The input of a large job; None where it is no such job.

    Args:
        own: option -> value, of those that go with --input alone.
        second: second segment that goes with every text.
        refused: option -> value, of options that do not go with --input.

    Raises ParamsError for options that do not go together.
    """
    if path is None:
        given = next((name for name, value in own.items() if value is not None), None)
        if given is not None:
            raise ParamsError(f"{given}: got {own[given]!r} without --input; expected --input FILE as well")
        return None
    other = next((name for name, value in refused.items() if value), None)
    if other is not None:
        raise ParamsError(f"--input: got {other} as well; expected one of them")
    if output is None:
        raise ParamsError(f"--input: got {str(path)!r}, but no --output; expected a folder for the parts")
    if output.suffix in (".parquet", ".csv", ".jsonl", ".html"):
        raise ParamsError(f"--output: got {str(output)!r} with --input; expected a folder for the parts")
    # It loads pyarrow, which `explearn --help` need not wait for.
    from explearn.cli.jobs.reading import Input
    from explearn.data.sources.readers import TEXT

    text = own["--text-column"]
    found = Input(path, TEXT if text is None else text, own["--pair-column"], own["--id-column"], second)
    found.check()
    return found


def run_job(
    input: Input,
    folder: Path,
    part_texts: int,
    classifier: str,
    choices: Sequence[Choice],
    options: Sequence[str],
    targets: Sequence[str],
    windows: int | None,
    seed: int | None,
    compute: ComputeOptions,
    engine: EngineName,
    workers: int | None,
    devices: str | None = None,
) -> None:
    """Do what is left of a job, and say where its parts are."""
    from explearn.cli.jobs.job import Job
    from explearn.cli.jobs.run import run

    parsed = parse_options(options)
    job = Job(input, folder, part_texts, classifier, choices, parsed, targets, windows, seed, compute)
    done = run(job, _engine(engine, workers, devices, compute))
    rows = sum(part.rows for part in done.parts.values())
    counts = ((done.texts, "text"), (rows, "row"), (len(done.parts), "part"))
    said = [f"{count:,} {noun}" + ("" if count == 1 else "s") for count, noun in counts]
    print(f"{', '.join(said)}: {folder}")


def _engine(name: EngineName, workers: int | None, devices: str | None, compute: ComputeOptions) -> Engine:
    if name == "ray":
        if devices is not None:
            raise ParamsError(
                f"--devices: got {devices!r:.80} with --engine ray, which takes the cluster's; expected one"
            )
        compute.check_one_device("a worker of --engine ray")
        from explearn.cli.jobs.ray_engine import RayEngine

        return RayEngine(workers)
    from explearn.cli.jobs.engines import LocalEngine

    if workers is not None:
        raise ParamsError(f"--workers: got {workers} without --engine ray; expected that as well")
    if devices is None:
        return LocalEngine()
    if compute.device != "auto":
        raise ParamsError(f"--devices: got --device {compute.device} as well; expected one of them")
    compute.check_one_device("a worker of --devices")
    from explearn.cli.jobs.process_engine import ProcessEngine, read_devices

    return ProcessEngine(read_devices(devices))

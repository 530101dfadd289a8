"""Explaining the parts of a large job on a Ray cluster, with Ray Data: one worker a device.

What travels is numbers of parts one way and entries of the manifest the other. Workers read the input and write the
parts themselves, so input, folder and classifier must lie where every node sees them under the same path. A part's
bytes do not depend on who explains it (`explaining`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from explearn.core.errors import ParamsError
from explearn.core.extras import check_installed
from explearn_apps.jobs.explaining import Worker
from explearn_apps.jobs.job import Job
from explearn_apps.jobs.manifest import MOST_THREADS, Part
from explearn_apps.jobs.told import Row, raise_error, told

# Ray reports its use to its makers unless it is told not to.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


@dataclass(frozen=True, slots=True)
class _Share:
    """What a worker has of the cluster.

    Attributes:
        workers: how many there are. gpus: 1 on clusters with GPUs, else 0. cpus: that a worker reserves.
        threads: that it computes with.
    """

    workers: int
    gpus: int
    cpus: int
    threads: int


class RayEngine:
    """Parts on the cluster that RAY_ADDRESS names; without it, on a cluster of this machine alone.

    Args:
        workers: None: one a GPU; on a cluster without GPUs, one a node.

    Raises ParamsError where the cluster cannot be reached, or has less than that.
    """

    def __init__(self, workers: int | None = None) -> None:
        check_installed("ray", extra="ray", what="--engine ray")
        import ray

        if not ray.is_initialized():
            # Without an address Ray would join a cluster that somebody else began on this machine.
            address = os.environ.get("RAY_ADDRESS") or "local"
            dashboard = False if address == "local" else None
            try:
                ray.init(address=address, include_dashboard=dashboard, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise ParamsError(f"--engine ray: the cluster {address!r} cannot be reached ({error})") from error
        ray.data.DataContext.get_current().enable_progress_bars = False
        # Its import set the level; what goes wrong comes as an error, and progress is shown here.
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        self._workers = workers

    def settings(self, job: Job, stamp: tuple[int, int], begun: Mapping[str, Any]) -> dict[str, Any]:
        import ray

        nodes: Any = ray.nodes()  # type: ignore[no-untyped-call]
        self._share = _share(nodes, self._workers, begun.get("threads") or _asked_threads())
        self._job, self._stamp = _with_whole_paths(job), stamp
        self._max_tokens = begun.get("max_tokens")
        look = ray.remote(num_cpus=self._share.cpus, num_gpus=self._share.gpus)(_settings)
        found: Row = ray.get(look.remote(self._job, self._stamp, self._share.threads, self._max_tokens))
        raise_error(found)
        self._max_tokens = found["settings"]["max_tokens"]
        return {**found["settings"], "threads": self._share.threads}

    def parts(self, numbers: Sequence[int], texts: int, advance: Callable[[int], None]) -> Iterator[tuple[int, Part]]:
        import ray

        share = self._share
        # Never more workers than parts: each one loads the classifier.
        workers = min(share.workers, len(numbers))
        given = (self._job, self._stamp, share.threads, self._max_tokens, texts)
        # A block a part: a block is what Ray Data hands to a worker.
        found = ray.data.from_items([{"part": n} for n in numbers], override_num_blocks=len(numbers)).map_batches(
            _Actor,
            fn_constructor_args=given,
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=1),
            num_cpus=share.cpus,
            num_gpus=share.gpus,
        )
        for row in found.iter_rows():
            raise_error(row)
            part = Part(**row["entry"])
            advance(part.texts)
            yield int(row["part"]), part


class _Actor:
    """A worker of the pool: loads the classifier once, then writes part after part."""

    def __init__(self, job: Job, stamp: tuple[int, int], threads: int, max_tokens: int | None, texts: int) -> None:
        self._texts = texts
        self._failed: Row = {}
        try:
            self._worker = _worker(job, stamp, threads, max_tokens)
        except Exception as error:
            self._failed = told(error)

    def __call__(self, batch: dict[str, np.ndarray[Any, Any]]) -> dict[str, list[Any]]:
        number = int(batch["part"][0])
        if self._failed:
            return _columns({"part": number, "entry": None, **self._failed})
        try:
            ((_, part),) = self._worker.parts([number], self._texts, lambda count: None)
        except Exception as error:
            return _columns({"part": number, "entry": None, **told(error)})
        return _columns({"part": number, "entry": asdict(part), "error": None, "kind": None})


def _worker(job: Job, stamp: tuple[int, int], threads: int, max_tokens: int | None) -> Worker:
    import torch

    torch.set_num_threads(threads)
    return Worker(job, stamp, max_tokens)


def _settings(job: Job, stamp: tuple[int, int], threads: int, max_tokens: int | None) -> Row:
    """What a worker's classifier tells, or why it cannot."""
    try:
        return {"settings": _worker(job, stamp, threads, max_tokens).settings, "error": None, "kind": None}
    except Exception as error:
        return told(error)


def _columns(row: Row) -> dict[str, list[Any]]:
    return {name: [value] for name, value in row.items()}


def _share(nodes: Sequence[Mapping[str, Any]], workers: int | None, threads: int | None) -> _Share:
    """How the cluster is divided among workers.

    Args:
        nodes: as `ray.nodes` gives them. workers: None: one a GPU, else one a node.
        threads: that the job was begun with, or that were asked for; None: as many as the CPUs that a worker has.

    Raises ParamsError for more workers than there are devices.
    """
    each = [node["Resources"] for node in nodes if node["Alive"] and node["Resources"].get("CPU")]
    if not each:
        raise ParamsError("--engine ray: the cluster has no CPU; expected a node with one")
    gpus = int(sum(node.get("GPU", 0) for node in each))
    cpus = int(sum(node["CPU"] for node in each))
    most = gpus or cpus
    count = workers or gpus or len(each)
    if count > most:
        device = "GPU" if gpus else "CPU"
        raise ParamsError(f"--workers: got {count}; the cluster has {most:,} {device}{'s' * (most != 1)}")
    if gpus:
        # So that each node has CPUs for all of its GPUs.
        fair = min(int(node["CPU"] // node["GPU"]) for node in each if node.get("GPU"))
    else:
        # The most with which all workers have their place; a worker is on one node.
        fair = max(c for c in range(1, cpus + 1) if c == 1 or sum(int(node["CPU"]) // c for node in each) >= count)
    fair = max(1, fair)
    return _Share(count, int(gpus > 0), fair, fair if threads is None else threads)


def _asked_threads() -> int | None:
    """OMP_NUM_THREADS of the command, as one process follows it; None where it is not set to a number.

    Ray sets the variable anew in its workers.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isascii() and asked.isdigit() and 0 < int(asked) <= MOST_THREADS else None


def _with_whole_paths(job: Job) -> Job:
    """The job as a worker understands it, whose working folder is another."""
    choices = [
        choice if choice.folder is None else replace(choice, folder=choice.folder.resolve()) for choice in job.choices
    ]
    classifier = Path(job.classifier)
    return replace(
        job,
        input=replace(job.input, path=job.input.path.resolve()),
        folder=job.folder.resolve(),
        classifier=str(classifier.resolve()) if classifier.exists() else job.classifier,
        choices=choices,
    )

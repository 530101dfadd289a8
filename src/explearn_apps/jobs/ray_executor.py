"""Explaining the parts of a large job on a Ray cluster: one worker per device.

Only numbers of parts are sent to workers, and manifest entries back. Workers read the input and write the parts
themselves, so every node must see input, folder and classifier under the same path. A part's bytes do not depend on the
worker (`explaining`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from explearn.core.errors import ExplearnError, ParamsError, sentence_of
from explearn.core.extras import check_installed
from explearn.core.validation import whole_number
from explearn_apps.jobs.explaining import Job, Part, Worker
from explearn_apps.jobs.run import Advance, LocalExecutor

# Disables Ray's usage reports.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


class Share(NamedTuple):
    """A worker's share of the cluster.

    Attributes:
        workers: number of workers.
        gpus: GPUs of a worker, 1 on clusters with GPUs, else 0.
        cpus: CPUs that a worker reserves.
        threads: threads that it computes with.
    """

    workers: int
    gpus: int
    cpus: int
    threads: int


class RayExecutor(LocalExecutor):
    """An executor on the cluster that RAY_ADDRESS names; without it, on a cluster of only this machine.

    Args:
        workers: number of workers. None: one per GPU or, without GPUs, one per node.

    Raises:
        ParamsError: the cluster cannot be reached.
    """

    def __init__(self, workers: int | None = None) -> None:
        check_installed("ray", extra="ray", what="--ray")
        import ray

        if not ray.is_initialized():
            # Without an address Ray would join a cluster that somebody else started on this machine.
            address = os.environ.get("RAY_ADDRESS") or "local"
            dashboard = None
            if address == "local":
                dashboard = False
            try:
                ray.init(address=address, include_dashboard=dashboard, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise ParamsError(f"--ray: the cluster {address!r} cannot be reached ({error})") from error
        self._workers = workers

    def settings(self, job: Job, stamp: tuple[int, int], begun: Mapping[str, Any]) -> dict[str, Any]:
        import ray

        # Ray resets OMP_NUM_THREADS in its workers.
        threads = begun.get("threads") or whole_number(os.environ.get("OMP_NUM_THREADS", "")) or None
        nodes: Any = ray.nodes()
        self._share = share_of(nodes, self._workers, threads)
        self._job = _with_whole_paths(job)
        self._stamp = stamp
        self._first = self._actor(begun.get("max_tokens"))
        with _causes():
            self._settings = ray.get(self._first.settings.remote())
        return {**self._settings, "threads": self._share.threads}

    def parts(self, numbers: Sequence[int], texts: int, advance: Advance) -> Iterator[tuple[int, Part]]:
        from ray.util import ActorPool

        # Never more workers than parts: each one loads the classifier.
        more = min(self._share.workers, len(numbers)) - 1
        pool: Any = ActorPool([self._first, *(self._actor(self._settings["max_tokens"]) for _ in range(more))])
        with _causes():
            for number, part in pool.map_unordered(lambda actor, number: actor.part.remote(number, texts), numbers):
                advance(part.texts)
                yield number, part

    def _actor(self, max_tokens: int | None) -> Any:
        import ray

        share = self._share
        # A worker that dies is replaced, and its part is done again.
        made: Any = ray.remote(Actor).options(
            num_cpus=share.cpus, num_gpus=share.gpus, max_restarts=-1, max_task_retries=-1
        )
        return made.remote(self._job, self._stamp, share.threads, max_tokens)


def _with_whole_paths(job: Job) -> Job:
    """Return the job with absolute paths, since a worker has another working directory."""
    classifier = job.classifier
    if Path(classifier).exists():
        classifier = replace(classifier, path=str(Path(classifier).resolve()))
    source = replace(job.input, path=job.input.path.resolve())
    return replace(job, input=source, folder=job.folder.resolve(), classifier=classifier)


class Actor:
    """A worker of the cluster: loads the classifier once, then writes part after part."""

    def __init__(self, job: Job, stamp: tuple[int, int], threads: int, max_tokens: int | None) -> None:
        self._threads = threads
        self._arguments = job, stamp, max_tokens

    @cached_property
    def _worker(self) -> Worker:
        import torch

        torch.set_num_threads(self._threads)
        return Worker(*self._arguments)

    def settings(self) -> dict[str, Any]:
        with _portable_errors():
            return self._worker.settings

    def part(self, number: int, texts: int) -> tuple[int, Part]:
        with _portable_errors():
            (part,) = self._worker.parts([number], texts, lambda _: None)
            return part


@contextmanager
def _portable_errors() -> Iterator[None]:
    """Re-raise user errors as a plain ExplearnError, since not every subclass can be pickled."""
    try:
        yield
    except ExplearnError as error:
        raise ExplearnError(str(error)) from None
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        raise ExplearnError(sentence) from None


@contextmanager
def _causes() -> Iterator[None]:
    """Raise an actor's ExplearnError as it is; other errors have Ray's traceback."""
    import ray

    try:
        yield
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, ExplearnError):
            raise error.cause from error
        raise


def share_of(nodes: Sequence[Mapping[str, Any]], workers: int | None, threads: int | None) -> Share:
    """Divide the cluster among workers.

    Args:
        nodes: result of `ray.nodes`.
        workers: number of workers. None: one per GPU, else one per node.
        threads: threads of an earlier run of the job, or requested ones. None: as many as a worker's CPUs.

    Raises:
        ParamsError: there are more workers than devices.
    """
    resources = [node["Resources"] for node in nodes if node["Alive"] and node["Resources"].get("CPU")]
    gpus = int(sum(node.get("GPU", 0) for node in resources))
    count = workers or gpus or len(resources)
    kind = "GPU" if gpus else "CPU"
    devices = int(sum(node.get(kind, 0) for node in resources))
    if count > devices:
        raise ParamsError(f"--ray: got {count}; expected at most {devices}, one for each {kind} of the cluster")
    if gpus:
        # So that each node has CPUs for all of its GPUs.
        cpus = max(1, min(int(node["CPU"] // node["GPU"]) for node in resources if node.get("GPU")))
        return Share(count, 1, cpus, threads or cpus)
    cpus = devices
    # The most CPUs per worker with which all workers fit; a worker runs on one node.
    while cpus > 1 and sum(node["CPU"] // cpus for node in resources) < count:
        cpus -= 1
    return Share(count, 0, cpus, threads or cpus)

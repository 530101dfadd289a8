"""Explaining the parts of a large job by processes of this machine, one a device.

What travels is numbers of parts one way, and entries of the manifest the other. A part's bytes do not depend on who
explains it (`explaining`).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
import traceback
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from multiprocessing.connection import Connection, wait
from typing import Any

from explearn.cli.jobs.engines import Advance
from explearn.cli.jobs.explaining import Worker
from explearn.cli.jobs.job import Job
from explearn.cli.jobs.manifest import Part
from explearn.cli.jobs.told import Row, raise_error, told
from explearn.core.compute import ComputeOptions
from explearn.core.errors import DeviceError, ParamsError

ALL = "all"
"""In the place of a list: every GPU that this process sees."""

_TELL_SECONDS = 0.1
"""How often a worker says how far it is."""


def read_devices(value: str) -> list[str]:
    """The devices of `--devices`, each with its number, in order: `cuda:0,cuda:1`, `cpu,cpu`, or `all`.

    Raises ParamsError for an entry that is no device, for a GPU that is named twice and for devices of several kinds;
    DeviceError for a device that is not there, and for more workers on the CPU than it has cores.
    """
    import torch

    if value.strip() == ALL:
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not count:
            raise DeviceError("--devices all: this machine has 0 usable CUDA devices; name devices, such as cpu,cpu")
        return [f"cuda:{number}" for number in range(count)]
    found: list[str] = []
    for entry in value.split(","):
        name = entry.strip()
        if name in ("", "auto", ALL):
            raise ParamsError(
                f"--devices: got {value!r:.80}; expected names separated by commas, such as cuda:0,cuda:1"
            )
        device = ComputeOptions(name).resolve_device()
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", 0)
        if device.type != "cpu" and str(device) in found:
            raise ParamsError(f"--devices: names {device} twice; expected each GPU once")
        found.append(str(device))
    kinds = {name.partition(":")[0] for name in found}
    if len(kinds) > 1:
        raise ParamsError(
            f"--devices: got {' and '.join(sorted(kinds))}, whose scores differ in their last digits; expected one kind"
        )
    if (cores := os.cpu_count() or 1) < found.count("cpu"):
        raise DeviceError(f"--devices: got the CPU {found.count('cpu')} times; this machine has {cores} of them")
    return found


class ProcessEngine:
    """A worker process on each device, with the classifier in its memory."""

    def __init__(self, devices: Sequence[str]) -> None:
        self._devices = list(devices)
        self._workers: list[_Process] = []
        # Also where the job is not begun, or ends with an error.
        weakref.finalize(self, _stop, self._workers)

    def settings(self, job: Job, stamp: tuple[int, int], begun: Mapping[str, Any]) -> dict[str, Any]:
        import torch

        self._job, self._stamp = job, stamp
        self._threads = begun.get("threads") or max(1, torch.get_num_threads() // len(self._devices))
        first = self._start(self._devices[0], begun.get("max_tokens"))
        self._found = first.settings()
        return {**self._found, "threads": self._threads}

    def _start(self, device: str, max_tokens: int | None) -> _Process:
        worker = _Process(self._job, self._stamp, self._threads, max_tokens, device)
        self._workers.append(worker)
        return worker

    def parts(self, numbers: Sequence[int], texts: int, advance: Advance) -> Iterator[tuple[int, Part]]:
        for device in self._devices[1 : len(numbers)]:
            self._start(device, self._found["max_tokens"])
        for worker in self._workers[1:]:
            self._check_same(worker)
        try:
            yield from self._divided(list(numbers), texts, advance)
        finally:
            _stop(self._workers)

    def _check_same(self, worker: _Process) -> None:
        """Raise DeviceError for a worker whose parts would not be those of the first."""
        settings = worker.settings()
        if name := next((name for name, value in self._found.items() if settings[name] != value), None):
            raise DeviceError(
                f"--devices: {self._devices[0]} and {worker.device} differ in {name.replace('_', ' ')} "
                f"({self._found[name]} and {settings[name]}); expected devices of one model"
            )

    def _divided(self, left: list[int], texts: int, advance: Advance) -> Iterator[tuple[int, Part]]:
        """A part at a time for each worker that has none."""
        busy: dict[Connection, _Process] = {}
        for worker in self._workers[: len(left)]:
            worker.ask(left.pop(0), texts)
            busy[worker.connection] = worker
        while busy:
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                worker = busy[ready]
                row = worker.answer()
                if "texts" in row:
                    advance(row["texts"])
                    continue
                if left:
                    worker.ask(left.pop(0), texts)
                else:
                    del busy[ready]
                yield row["part"], Part(**row["entry"])


class _Process:
    """A worker process, seen from here."""

    def __init__(self, job: Job, stamp: tuple[int, int], threads: int, max_tokens: int | None, device: str) -> None:
        # A process that was forked cannot use CUDA.
        context = multiprocessing.get_context("spawn")
        self.device = device
        self.connection, theirs = context.Pipe()
        given = (theirs, replace(job, compute=replace(job.compute, device=device)), stamp, threads, max_tokens)
        self._process = context.Process(target=_work, args=given, daemon=True)
        self._process.start()
        # So that this end hears when the other is gone.
        theirs.close()
        self._settings: Row | None = None

    def settings(self) -> Row:
        """What its classifier tells; waits until that is loaded."""
        if self._settings is None:
            self._settings = self.answer()["settings"]
        return self._settings

    def ask(self, number: int, texts: int) -> None:
        # Where it is gone, the answer says so.
        with contextlib.suppress(OSError):
            self.connection.send((number, texts))

    def answer(self) -> Row:
        """The next row; raises what the worker tells, and DeviceError where it is gone."""
        try:
            row: Row = self.connection.recv()
        except (EOFError, OSError) as error:
            self._process.join(5)
            raise DeviceError(
                f"the worker on {self.device} ended by itself (exit code {self._process.exitcode}); finished parts "
                "stay, and the same command goes on with the rest"
            ) from error
        if "traceback" in row:
            raise RuntimeError(f"the worker on {self.device} failed:\n{row['traceback']}")
        raise_error(row)
        return row

    def stop(self) -> None:
        self._process.terminate()
        self._process.join()
        self.connection.close()


def _stop(workers: list[_Process]) -> None:
    """End all workers; a part that one of them is writing is not in place, and is written again by the next run."""
    while workers:
        workers.pop().stop()


def _work(connection: Connection, job: Job, stamp: tuple[int, int], threads: int, max_tokens: int | None) -> None:
    """A worker's life: load, say so, and explain the parts that it is asked for, until the other end is gone."""
    import torch

    # Ctrl+C goes to all processes of the terminal; the one that began this one ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    try:
        worker = Worker(job, stamp, max_tokens)
        connection.send({"error": None, "settings": worker.settings})
        while True:
            number, texts = connection.recv()
            counted = _Counted(connection)
            ((_, part),) = worker.parts([number], texts, counted)
            counted.tell()
            connection.send({"error": None, "part": number, "entry": asdict(part)})
    except (EOFError, BrokenPipeError):
        return
    except Exception as error:
        try:
            connection.send(told(error))
        except Exception:
            connection.send({"traceback": traceback.format_exc()})


class _Counted:
    """Tells how many texts are explained, but not for each one."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._texts, self._told = connection, 0, time.monotonic()

    def __call__(self, texts: int) -> None:
        self._texts += texts
        if time.monotonic() - self._told >= _TELL_SECONDS:
            self.tell()

    def tell(self) -> None:
        self._connection.send({"error": None, "texts": self._texts})
        self._texts, self._told = 0, time.monotonic()

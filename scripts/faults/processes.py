"""Stages as processes that can be killed, interrupted and starved of disk.

A process is forked from this one, which has everything imported: it starts in milliseconds, so that many trials fit
into minutes. What it then does is what `python stages/NAME.py` does.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib
import importlib.util
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
from project import Step

STAGES = Path(__file__).resolve().parents[2] / "stages"
WRITES = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
"""Audit events of the moments at which a kill may matter most."""

PIPE_BYTES = 2**20
MOST_SECONDS = 300.0
"""A stage that takes longer hangs."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What befalls a process from inside.

    Attributes:
        kill_at_write: it kills itself before its n-th change of the file system.
        largest_file: bytes (RLIMIT_FSIZE); files that would grow beyond it cannot be written.
        count_into: no fault: a file for how often it changed the file system, and what it imported, as JSON.
    """

    kill_at_write: int | None = None
    largest_file: int | None = None
    count_into: Path | None = None


NO_FAULT = Fault()


@dataclass(slots=True)
class Process:
    """A running stage; `output` holds what it printed, once it has ended."""

    pid: int
    pipe: int
    started: float
    code: int | None = None
    output: str = ""
    seconds: float = 0.0

    def wait(self) -> int:
        """Exit code, negative for the signal that ended it."""
        while self.code is None:
            self._poll()
            if self.code is None:
                if time.monotonic() - self.started > MOST_SECONDS:
                    os.kill(self.pid, signal.SIGKILL)
                time.sleep(0.002)
        return self.code

    def signal_after(self, seconds: float, number: int) -> None:
        """Send a signal once it has run so long; nothing where it has ended before."""
        while self.code is None and time.monotonic() < self.started + seconds:
            self._poll()
            time.sleep(0.001)
        if self.code is None:
            os.kill(self.pid, number)

    def _poll(self) -> None:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.seconds = time.monotonic() - self.started
            self.code = os.waitstatus_to_exitcode(status)
            self.output = self._drain()

    def _drain(self) -> str:
        parts = []
        while part := os.read(self.pipe, 65536):
            parts.append(part)
        os.close(self.pipe)
        return b"".join(parts).decode(errors="replace")


@dataclass(slots=True)
class Runner:
    """Starts stages in the folder of a project."""

    commands: dict[str, typer.Typer] = field(default_factory=dict)

    def command(self, stage: str) -> typer.Typer:
        if stage not in self.commands:
            spec = importlib.util.spec_from_file_location(f"stage_{stage}", STAGES / f"{stage}.py")
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            (self.commands[stage],) = (value for value in vars(module).values() if isinstance(value, typer.Typer))
        return self.commands[stage]

    def start(self, root: Path, step: Step, fault: Fault = NO_FAULT, seed: int | None = None) -> Process:
        """Start a stage in a project's folder."""
        command = self.command(step.stage)
        (root / "tmp").mkdir(exist_ok=True)
        reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        started = time.monotonic()
        pid = os.fork()
        if pid:
            os.close(writing)
            return Process(pid, reading, started)
        code = 1
        try:
            for target in (1, 2):
                os.dup2(writing, target)
            sys.stdout, sys.stderr = (os.fdopen(os.dup(n), "w", encoding="utf-8", buffering=1) for n in (1, 2))
            os.chdir(root)
            os.environ["TMPDIR"], tempfile.tempdir = str(root / "tmp"), None
            signal.signal(signal.SIGINT, signal.default_int_handler)
            counted = arm(fault)
            code = self._call(command, [*step.options, *([] if seed is None else ["--seed", str(seed)])])
            if fault.count_into is not None:
                found = {"writes": counted[0], "modules": sorted(sys.modules)}
                fault.count_into.write_text(json.dumps(found), encoding="utf-8")
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    @staticmethod
    def import_all(modules: Sequence[str]) -> None:
        """Import what a stage imported, as far as this process can."""
        for name in modules:
            if name not in sys.modules and name != "__main__":
                with contextlib.suppress(Exception):
                    importlib.import_module(name)

    def run(self, root: Path, step: Step, fault: Fault = NO_FAULT, seed: int | None = None) -> Process:
        process = self.start(root, step, fault, seed)
        process.wait()
        return process

    @staticmethod
    def _call(command: typer.Typer, options: list[str]) -> int:
        try:
            command(options)
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        return 0


def arm(fault: Fault) -> list[int]:
    """Let a fault befall this process; returns the count of `count_writes`."""
    if fault.largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (fault.largest_file, fault.largest_file))
    if fault.kill_at_write is not None or fault.count_into is not None:
        return count_writes(fault.kill_at_write)
    return [0]


def count_writes(kill_at: int | None = None) -> list[int]:
    """Count this process's changes of the file system, in the list returned; kill it before the n-th of them."""
    count = [0]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in WRITES:
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        count[0] += 1
        if count[0] == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    return count


# ---- a small disk ------------------------------------------------------------------------------------------------

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_PRIVATE, _MS_REC = 1 << 18, 1 << 14


def mount_small_disk(folder: Path, size: int) -> bool:
    """Mount a memory disk of `size` bytes on a folder, seen by this process and its children alone.

    False where the system forbids it (no root, and no user namespaces).
    """
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWNS) != 0:
        if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS) != 0:
            return False
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            try:
                Path(f"/proc/self/{name}").write_text(text, encoding="ascii")
            except OSError:
                return False
    if libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None) != 0:
        return False
    return bool(libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={size}".encode()) == 0)

"""Stages that are killed, cannot write, or run twice at once, and what they leave.

A trial takes a copy of a project in which every stage has run. One stage's outputs are replaced by those of a run with
another seed, or removed; then a run of it with the usual seed is disturbed. Afterwards each file or folder that the
stage puts in place must be wholly the old or the new one, and all else as it was. After an undisturbed rerun all must
equal the first project, byte for byte, and nothing partial or temporary may be left.
"""

import contextlib
import fcntl
import hashlib
import multiprocessing
import os
import random
import resource
import runpy
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from places import ROOT
from warm_python import MODULES

OTHER_SEED = 99
WRITES = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
"""Audit events just before a change of the file system, when a kill may matter most."""

MOST_SECONDS = 300
"""A stage that takes longer hangs."""

PIPE_BYTES = 2**20
"""Room for what a stage prints, which is read once it has ended. A limit on files does not hold for pipes."""

VOLATILE = (
    "data/costs/",
    "data/studies/",
    "reports/report.html",
    "reports/report.json",
    "reports/costs.json",
    "reports/machine/",
)
"""What holds times, memory or dates: no two runs write the same."""

UNIT_DEPTHS = {
    "code": 2,
    "examples": 3,
    "classifiers": 3,
    "features": 3,
    "signals": 3,
    "teachers": 4,
    "explainers": 4,
}
"""Folders under data/ that a stage puts in place as one -> parts of their paths. All else is put in place by file."""


# ---- what lies in a project ------------------------------------------------------------------------------------------


def unit_of(name):
    """The file or folder, put in place as one, to which a file belongs."""
    parts = name.split("/")
    depth = len(parts)
    if parts[0] == "data":
        depth = UNIT_DEPTHS.get(parts[1], depth)
    return "/".join(parts[:depth])


def project_files(root):
    """All files of a project, by name; those left over among them."""
    return {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if path.is_file()}


def is_leftover(name):
    return name.startswith("tmp/") or ".partial-" in name


def find_units(root):
    """Each unit's files with their SHA-256 (of the name where volatile), without what is left over."""
    units = {}
    for name, path in project_files(root).items():
        if not is_leftover(name):
            content = name.encode() if name.startswith(VOLATILE) else path.read_bytes()
            units.setdefault(unit_of(name), {})[name] = hashlib.sha256(content).hexdigest()
    return units


def find_times(root):
    return {name: path.stat().st_mtime_ns for name, path in project_files(root).items() if not is_leftover(name)}


# ---- a stage in a process --------------------------------------------------------------------------------------------


def explearn_modules():
    """All modules of the library and the study."""
    modules = []
    for package in ("explearn", "explearn_study"):
        for path in (ROOT / "src" / package).rglob("*.py"):
            modules.append(".".join(path.relative_to(ROOT / "src").with_suffix("").parts))
    return modules


def forking_server():
    """Processes are forked from one that has imported everything and has no threads: they start in milliseconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*MODULES, *explearn_modules()])
    return context


SERVER = forking_server()


def run_stage(root, step, seed, kill_at, largest_file, writes, output):
    """Run a stage in a project's folder, as `python stages/NAME.py` does; in a process of its own."""
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    os.chdir(root)
    os.environ["EXPLEARN_DEVICE"] = "cpu"
    (root / "tmp").mkdir(exist_ok=True)
    tempfile.tempdir = str(root / "tmp")
    if largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    stage, *options = step
    sys.argv = [stage, *options, *([] if seed is None else ["--seed", str(seed)])]

    def count_write(event, arguments):
        if event not in WRITES:
            return
        if event == "open" and not int(arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR):
            return
        writes.value += 1
        if writes.value == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count_write)
    with contextlib.suppress(KeyboardInterrupt):
        runpy.run_path(str(ROOT / "stages" / f"{stage}.py"), run_name="__main__")
    sys.exit(130)


class Stage:
    """A stage in a process of its own.

    Args:
        root: the project's folder.
        step: the stage and its options.
        seed: replaces the project's seed.
        kill_at: number of the change of the file system before which it kills itself. None: it does not.
        largest_file: bytes; files that would grow beyond cannot be written. None: no limit.
    """

    def __init__(self, root, step, seed=None, kill_at=None, largest_file=None):
        self.writes = SERVER.RawValue("i", 0)
        self.output, writing = SERVER.Pipe(duplex=False)
        fcntl.fcntl(writing.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        arguments = (root, step, seed, kill_at, largest_file, self.writes, writing)
        self.process = SERVER.Process(target=run_stage, args=arguments)
        self.process.start()
        writing.close()

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    def finish(self):
        """Wait for the end; return the exit code and what was printed."""
        self.process.join(MOST_SECONDS)
        self.process.kill()
        self.process.join()
        with os.fdopen(os.dup(self.output.fileno()), encoding="utf-8", errors="replace") as output:
            return self.process.exitcode, output.read().strip()


class Trial:
    """A trial of a stage in a copy of a project; `findings` has a line for everything that is wrong."""

    def __init__(self, reference, root, step, draw):
        self.reference = reference
        self.expected = find_units(reference)
        self.root = root
        self.step = step
        self.draw = draw
        self.findings = []
        shutil.copytree(reference, root)
        before = find_times(root)
        start = time.monotonic()
        other = Stage(root, step, OTHER_SEED)
        self.check_end(other, 0)
        self.seconds = time.monotonic() - start
        self.writes = other.writes.value
        written = {name for name, changed in find_times(root).items() if before.get(name) != changed}
        self.own = {unit_of(name) for name in written}
        self.other = find_units(root)
        if draw.random() < 0.5:
            self.remove_outputs()
        self.before = find_units(root)

    def remove_outputs(self):
        for name in self.own:
            path = self.root / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def check_end(self, stage, *codes):
        """Check that a process ended with one of some exit codes, and where it failed with a sentence; return it."""
        code, output = stage.finish()
        explained = code != 2 or output.rpartition("\n")[2].startswith("error: ")
        if code not in codes or "Traceback (most" in output or not explained:
            self.findings.append(f"exit code {code}, expected {codes}: {output}")
        return code

    def compare(self, *allowed):
        """Check that the stage's outputs are as in one of some states, each by itself, and all else as before."""
        found = find_units(self.root)
        for name in {*found, *self.before, *self.expected}:
            states = allowed if name in self.own else [self.before]
            if found.get(name) not in [state.get(name) for state in states]:
                self.findings.append(f"{name}: {'falsified' if name in found else 'lost'}")

    def rerun(self):
        """Check that an undisturbed run gives the reference and leaves nothing over."""
        self.check_end(Stage(self.root, self.step), 0)
        self.before = self.expected
        self.compare(self.expected)
        for name in project_files(self.root):
            if is_leftover(name):
                self.findings.append(f"{name}: left over")

    def kill(self):
        """Kill a run before a change of the file system or at any moment, then often let a rerun fail, too."""
        if self.draw.random() < 2 / 3:
            stage = Stage(self.root, self.step, kill_at=self.draw.randint(1, self.writes))
        else:
            stage = Stage(self.root, self.step)
            time.sleep(self.draw.uniform(0, self.seconds))
            stage.process.kill()
        self.check_end(stage, 0, -signal.SIGKILL)
        if self.draw.random() < 2 / 3:
            self.check_end(Stage(self.root, self.step, largest_file=0), 0, 2)
        self.compare(self.before, self.expected)

    def starve(self):
        """Refuse to write files beyond a random size."""
        sizes = []
        for unit in self.own:
            sizes += [(self.reference / file).stat().st_size for file in self.expected[unit]]
        limit = int(self.draw.random() ** 2 * max(sizes))
        code = self.check_end(Stage(self.root, self.step, largest_file=limit), 0, 2)
        if code == 0:
            self.before = self.expected
        self.compare(self.before, self.expected)

    def double(self):
        """Run the stage twice at once, with two seeds, or end the first by a signal."""
        kind = self.draw.choice((None, OTHER_SEED, signal.SIGINT, signal.SIGKILL))
        first = Stage(self.root, self.step)
        time.sleep(self.draw.uniform(0, self.seconds))
        second = Stage(self.root, self.step, OTHER_SEED if kind == OTHER_SEED else None)
        if isinstance(kind, signal.Signals):
            time.sleep(self.draw.uniform(0, self.seconds))
            first.signal(kind)
        self.check_end(first, 0, 130, -signal.SIGKILL)
        self.check_end(second, 0)
        # Two runs' outputs may not stand side by side: all are the one's or all the other's.
        found = find_units(self.root)
        is_other = kind == OTHER_SEED and all(found.get(name) == self.other.get(name) for name in self.own)
        self.compare(self.other if is_other else self.expected)


def disturb(fault, trials, reference, folder, steps):
    """Make trials of a fault, every stage once before one has a second turn; return all findings."""
    draw = random.Random(13)
    order = draw.sample(steps, len(steps))
    findings = []
    for number in range(trials):
        step = order[number % len(order)]
        trial = Trial(reference, Path(folder) / "trial", step, draw)
        fault(trial)
        trial.rerun()
        findings += [f"trial {number + 1}, {' '.join(step)}: {finding}" for finding in trial.findings]
        shutil.rmtree(trial.root)
    return findings

"""Kill, starve and double the stages of the pipeline: nothing may be lost or falsified.

    make faults                                # 50 kills, 20 starved runs, 20 concurrent pairs, over all stages
    make faults ARGS="--few --kills 5"

A trial takes a copy of a small project in which every stage has run. One stage's outputs are replaced by those of a
run with another seed, or removed; then a run of it with the usual seed is disturbed. Afterwards each file or folder
that the stage puts in place must be wholly the old or the new one, and all else as it was. After an undisturbed rerun
all must equal the first project, byte for byte, and nothing partial or temporary may be left. Otherwise, exit code 1.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
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
from itertools import chain
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

# Before torch and tokenizers are loaded: processes are forked, which threads do not survive.
os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1")
os.environ.update(EXPLEARN_DEVICE="cpu", MPLBACKEND="svg", ARROW_DEFAULT_MEMORY_POOL="system")

from project import Step, Units, all_steps, few_steps, find_leftovers, find_units, make_project

STAGES = Path(__file__).resolve().parents[2] / "stages"
OTHER_SEED = 99
WRITES = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
"""Audit events just before a change of the file system, when a kill may matter most."""

MOST_SECONDS = 300.0
"""A stage that takes longer hangs."""

PIPE_BYTES = 2**20
"""Room for what a stage prints, which is read once it has ended."""


def run_stage(root: Path, step: Step, seed: int | None) -> None:
    """Run a stage in a project's folder, as `python stages/NAME.py` does."""
    os.chdir(root)
    (root / "tmp").mkdir(exist_ok=True)
    tempfile.tempdir = str(root / "tmp")
    sys.argv = [step.stage, *step.options]
    if seed is not None:
        sys.argv += ["--seed", str(seed)]
    runpy.run_path(str(STAGES / f"{step.stage}.py"), run_name="__main__")


class Stage(ForkProcess):
    """A stage in a process forked from this one, which has imported everything: it starts in milliseconds.

    Args:
        root: the project's folder.
        step: the stage and its options.
        seed: replaces the project's seed.
        kill_at: number of the change of the file system before which it kills itself. None: it does not.
        largest_file: bytes; files that would grow beyond cannot be written. None: no limit.
    """

    def __init__(
        self,
        root: Path,
        step: Step,
        seed: int | None = None,
        kill_at: int | None = None,
        largest_file: int | None = None,
    ) -> None:
        super().__init__()
        self.root = root
        self.step = step
        self.seed = seed
        self.kill_at = kill_at
        self.largest_file = largest_file
        self.writes = multiprocessing.RawValue("i", 0)
        self.reading, self.writing = os.pipe()
        fcntl.fcntl(self.writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.start()
        os.close(self.writing)

    def run(self) -> None:
        os.dup2(self.writing, 1)
        os.dup2(self.writing, 2)
        if self.largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.largest_file, self.largest_file))
        sys.addaudithook(self.count_write)
        run_stage(self.root, self.step, self.seed)

    def count_write(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in WRITES:
            return
        if event == "open" and not int(arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR):
            return
        self.writes.value += 1
        if self.writes.value == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def finish(self) -> str:
        """Wait for the end; return what it printed."""
        self.join(MOST_SECONDS)
        self.kill()
        self.join()
        with os.fdopen(self.reading, encoding="utf-8", errors="replace") as output:
            return output.read(PIPE_BYTES).strip()


class Trial:
    """A trial of a stage in a copy of the reference; `findings` has a line for everything that is wrong."""

    def __init__(self, reference: Path, root: Path, step: Step, own: set[str], draw: random.Random) -> None:
        self.reference = reference
        self.expected = find_units(reference)
        self.root = root
        self.step = step
        self.own = own
        self.draw = draw
        self.findings: list[str] = []
        shutil.copytree(reference, root)
        start = time.monotonic()
        other = Stage(root, step, OTHER_SEED)
        self.check_end(other, 0)
        self.seconds = time.monotonic() - start
        self.writes = other.writes.value
        self.other = find_units(root)
        if draw.random() < 0.5:
            for name in own:
                path = root / name
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        self.before = find_units(root)

    def check_end(self, stage: Stage, *codes: int) -> None:
        """Check that a process ended with one of some exit codes, and where it failed with a sentence."""
        output = stage.finish()
        told = stage.exitcode != 2 or output.rpartition("\n")[2].startswith("error: ")
        if stage.exitcode not in codes or "Traceback (most" in output or not told:
            self.findings.append(f"exit code {stage.exitcode}, expected {codes}: {output}")

    def compare(self, *allowed: Units) -> None:
        """Check that the stage's outputs are as in one of some states, each by itself, and all else as before."""
        found = find_units(self.root)
        for name in {*found, *self.before, *self.expected}:
            states = allowed if name in self.own else [self.before]
            if found.get(name) not in [state.get(name) for state in states]:
                self.findings.append(f"{name}: {'falsified' if name in found else 'lost'}")

    def rerun(self) -> None:
        """Check that an undisturbed run gives the reference and leaves nothing over."""
        self.check_end(Stage(self.root, self.step), 0)
        self.before = self.expected
        self.compare(self.expected)
        self.findings += [f"{name}: left over" for name in find_leftovers(self.root)]

    def kill(self) -> None:
        """Kill a run before a change of the file system or at any moment, then often let a rerun fail, too."""
        if self.draw.random() < 2 / 3:
            stage = Stage(self.root, self.step, kill_at=self.draw.randint(1, self.writes))
        else:
            stage = Stage(self.root, self.step)
            time.sleep(self.draw.uniform(0, self.seconds))
            stage.kill()
        self.check_end(stage, 0, -signal.SIGKILL)
        if self.draw.random() < 2 / 3:
            self.check_end(Stage(self.root, self.step, largest_file=0), 0, 2)
        self.compare(self.before, self.expected)

    def starve(self) -> None:
        """Refuse to write files beyond a random size."""
        files = chain.from_iterable(self.expected[name] for name in self.own)
        largest = max((self.reference / file).stat().st_size for file in files)
        stage = Stage(self.root, self.step, largest_file=int(self.draw.random() ** 2 * largest))
        self.check_end(stage, 0, 2)
        if stage.exitcode == 0:
            self.before = self.expected
        self.compare(self.before, self.expected)

    def double(self) -> None:
        """Run the stage twice at once, with two seeds, or end the first by a signal."""
        kind = self.draw.choice((None, OTHER_SEED, signal.SIGINT, signal.SIGKILL))
        first = Stage(self.root, self.step)
        time.sleep(self.draw.uniform(0, self.seconds))
        second = Stage(self.root, self.step, OTHER_SEED if kind == OTHER_SEED else None)
        if isinstance(kind, signal.Signals):
            time.sleep(self.draw.uniform(0, self.seconds))
            with contextlib.suppress(ProcessLookupError):
                os.kill(first.pid or 0, kind)
        self.check_end(first, 0, 130, -signal.SIGKILL)
        self.check_end(second, 0)
        # Two runs' outputs may not stand side by side: all are the one's or all the other's.
        found = find_units(self.root)
        is_other = kind == OTHER_SEED and all(found.get(name) == self.other.get(name) for name in self.own)
        self.compare(self.other if is_other else self.expected)


FAULTS = {"kills": Trial.kill, "starved": Trial.starve, "pairs": Trial.double}


def make_reference(root: Path, steps: list[Step]) -> dict[Step, set[str]]:
    """Run all steps in this process, so that the others are forked with all it imported; return what each writes."""
    make_project(root)
    own: dict[Step, set[str]] = {}
    units = find_units(root)
    for step in steps:
        with contextlib.suppress(SystemExit):
            run_stage(root, step, None)
        before = units
        units = find_units(root)
        own[step] = {name for name in units if units[name] != before.get(name)}
        assert own[step], f"{step} wrote nothing"
        print(f"{step}: {len(own[step])} files and folders", flush=True)
    return own


def main() -> int:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=50, help="processes killed with SIGKILL")
    parser.add_argument("--starved", type=int, default=20, help="runs that cannot write all their files")
    parser.add_argument("--pairs", type=int, default=20, help="two runs of one stage at once")
    parser.add_argument("--few", action="store_true", help="three stages of one task, not all")
    parser.add_argument("--seed", type=int, default=13, help="of the choice of stages and moments")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    count = 0
    with tempfile.TemporaryDirectory(prefix="explearn-faults-") as name:
        folder = Path(name)
        steps = few_steps() if options.few else all_steps()
        own = make_reference(folder / "reference", steps)
        for fault, perform in FAULTS.items():
            found = 0
            # Every stage has its turn before one has a second.
            order = draw.sample(steps, len(steps))
            for number in range(getattr(options, fault)):
                step = order[number % len(order)]
                trial = Trial(folder / "reference", folder / "trial", step, own[step], draw)
                perform(trial)
                trial.rerun()
                found += bool(trial.findings)
                print(f"{fault} {number + 1}, {step}: {'; '.join(trial.findings) or 'ok'}", flush=True)
                shutil.rmtree(folder / "trial")
            print(f"{fault}: {getattr(options, fault)} trials, {found} with findings")
            count += found
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())

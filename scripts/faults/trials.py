"""The trials: a stage is disturbed, what it left is judged, and it is run again.

Before a trial the stage's outputs are missing, those of the undisturbed run, or those of a run with another seed, by
chance. Afterwards each of its files and folders must be wholly the old or wholly the new one, and every other file as
it was. After the rerun all must equal the undisturbed run, byte for byte, and nothing partial or temporary may be left.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path

from processes import NO_FAULT, Fault, Process, Runner, mount_small_disk
from project import Step, Tree, changed, leftovers, tree, unit, units

OTHER_SEED = 99
DISK_SPARE_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a step from undisturbed runs.

    Attributes:
        outputs: its files. other: the same of a run with OTHER_SEED, kept below `other_root`.
        seconds: how long it takes. writes: how often it changes the file system.
    """

    outputs: Tree
    other: Tree
    other_root: Path
    seconds: float
    writes: int


@dataclass(slots=True)
class Finding:
    """What a trial came to; each list holds a line for each thing found."""

    fault: str
    step: str
    story: str
    lost: list[str] = field(default_factory=list)
    falsified: list[str] = field(default_factory=list)
    tracebacks: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def bad(self) -> bool:
        return bool(self.lost or self.falsified or self.tracebacks or self.left)


class Reference:
    """An undisturbed run of all steps, and what each step makes of it.

    Args:
        root: a project in which no stage has run; it becomes the reference.
    """

    def __init__(self, runner: Runner, root: Path, steps: Sequence[Step], say: Callable[[str], None]) -> None:
        self.runner, self.root = runner, root
        self.made: dict[Step, tuple[Tree, float, int]] = {}
        self._known: dict[Step, Known] = {}
        counted = root.parent / "counted.json"
        files = tree(root)
        for step in steps:
            process = self._succeed(root, step, Fault(count_into=counted))
            found = json.loads(counted.read_text(encoding="utf-8"))
            before, files = files, tree(root)
            outputs = changed(before, files)
            # Its rooms' modules, so that the next process has them already.
            self.runner.import_all(found["modules"])
            self.made[step] = outputs, process.seconds, found["writes"]
            say(f"{step}: {process.seconds:.1f} s, {len(outputs)} files, {found['writes']} changes of the file system")
        self.files = files

    def of(self, step: Step) -> Known:
        """What is known of a step.

        Raises RuntimeError where it fails or does not repeat itself: trials of it would prove nothing.
        """
        if step not in self._known:
            outputs, _, writes = self.made[step]
            number = list(self.made).index(step)
            scratch = self.copy(self.root.parent / f"scratch-{number}")
            # Timed anew: the first run imported what it needs.
            seconds = self._succeed(scratch, step).seconds
            again = tree(scratch)
            if different := sorted({**changed(self.files, again), **changed(again, self.files)}):
                raise RuntimeError(f"{step} does not repeat itself: {', '.join(different[:4])}")
            self._succeed(scratch, step, seed=OTHER_SEED)
            own = set(units(outputs))
            other = {name: digest for name, digest in tree(scratch).items() if unit(name) in own}
            other_root = self.root.parent / "other" / str(number)
            for name in own:
                _move(scratch / name, other_root / name)
            shutil.rmtree(scratch)
            self._known[step] = Known(outputs, other, other_root, seconds, writes)
        return self._known[step]

    def learn(self, step: Step, known: Known) -> None:
        """Take over what another process found out."""
        self._known[step] = known

    def copy(self, target: Path) -> Path:
        return Path(shutil.copytree(self.root, target))

    def _succeed(self, root: Path, step: Step, fault: Fault = NO_FAULT, seed: int | None = None) -> Process:
        process = self.runner.run(root, step, fault, seed)
        if process.code != 0:
            raise RuntimeError(f"{step} ended with {process.code}, undisturbed:\n{process.output}")
        return process


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)


@dataclass(slots=True)
class Trial:
    """One trial of a step, in a copy of the reference."""

    reference: Reference
    step: Step
    root: Path
    random: random.Random
    finding: Finding
    before: Tree = field(default_factory=dict)

    @property
    def known(self) -> Known:
        return self.reference.of(self.step)

    def set_up(self) -> None:
        """Copy the reference, with older outputs of the step or none."""
        shutil.copytree(self.reference.root, self.root, dirs_exist_ok=True)
        state = self.random.choice(("none before", "the same before", "others before"))
        if state != "the same before":
            for name in units(self.known.outputs):
                path = self.root / name
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
                if state == "others before":
                    source = self.known.other_root / name
                    copy = shutil.copytree if source.is_dir() else shutil.copyfile
                    copy(source, path)
        self.finding.story = state
        self.before = tree(self.root)

    def tell(self, what: str) -> None:
        self.finding.story += f", {what}"

    def heard(self, process: Process, *codes: int) -> None:
        """Judge how a process ended: with one of some exit codes, and without a traceback."""
        if "Traceback (most recent call last)" in process.output:
            self.finding.tracebacks.append(process.output.strip())
        elif process.code not in codes:
            self.finding.tracebacks.append(f"exit code {process.code}, expected {codes}: {process.output.strip()}")

    def judge(self, *, complete: bool = False, others: bool = False) -> None:
        """Each unit must be wholly the old or wholly the new one (`complete`: the new one), the rest as it was.

        others: the new ones may be of a run with OTHER_SEED, then all of them.
        """
        now, new, old = tree(self.root), units(self.known.outputs), units(self.before)
        found = units(now)
        for name, content in new.items():
            is_new = found.get(name) == content
            is_other = others and found.get(name) == units(self.known.other)[name]
            if is_new or is_other or (not complete and found.get(name) == old.get(name)):
                continue
            if name not in found and name in old:
                self.finding.lost.append(name)
            elif name in found or complete:
                self.finding.falsified.append(f"{name}: {'missing' if name not in found else 'neither old nor new'}")
        mixed = {n: d for n, d in now.items() if unit(n) in new}
        if others and complete and mixed not in (self.known.outputs, self.known.other):
            self.finding.falsified.append("outputs of two runs stand side by side")
        rest = {n: d for n, d in self.before.items() if unit(n) not in new}
        for name, digest in rest.items():
            if now.get(name) != digest:
                (self.finding.falsified if name in now else self.finding.lost).append(f"{name}, of another stage")
        self.finding.falsified += [f"{n}: nobody's" for n in now if unit(n) not in new and n not in rest]

    def rerun(self) -> None:
        """Run the step undisturbed: all must equal the reference, and nothing may be left over."""
        self.heard(self.reference.runner.run(self.root, self.step), 0)
        now = tree(self.root)
        expected = self.reference.files
        self.finding.lost += [f"{name}, after the rerun" for name in expected if name not in now]
        self.finding.falsified += [f"{name}, after the rerun" for name in changed(expected, now)]
        self.finding.left += leftovers(self.root)

    # ---- the faults ----------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """kill -9, at a random moment or just before a change of the file system; often a rerun then fails, too."""
        runner = self.reference.runner
        at_write = self.random.randint(1, self.known.writes) if self.random.random() < 2 / 3 else None
        process = runner.start(self.root, self.step, Fault(at_write))
        if at_write is None:
            process.signal_after(self.random.uniform(0, self.known.seconds), signal.SIGKILL)
        self.tell(f"killed at change {at_write}" if at_write else "killed at a random moment")
        process.wait()
        self.heard(process, 0, -signal.SIGKILL)
        if self.random.random() < 2 / 3:
            self.tell("then a rerun that cannot write")
            self.heard(runner.run(self.root, self.step, Fault(largest_file=0)), 0, 2)
        if tmp := [name for name in leftovers(self.root) if name.startswith("tmp/")]:
            self.finding.left.append(f"after the kill: {', '.join(tmp[:3])}")
        self.judge()
        self.rerun()

    def fill_disk(self) -> None:
        """A disk with room for a random part of what the step writes; where none can be mounted, a limit on files."""
        runner = self.reference.runner
        ballast = self.root / "tmp" / "ballast"
        sizes = [(self.reference.root / name).stat().st_size for name in self.known.outputs]
        room = int(self.random.random() ** 2 * 1.5 * (sum(sizes) + 4096 * len(sizes)))
        if self.finding.fault == "full disk":
            ballast.parent.mkdir(exist_ok=True)
            free = shutil.disk_usage(self.root).free
            with ballast.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, max(1, free - room))
            process = runner.run(self.root, self.step)
            ballast.unlink()
        else:
            room = int(self.random.random() ** 2 * max(sizes))
            process = runner.run(self.root, self.step, Fault(largest_file=room))
        self.tell(f"room for {room:,} bytes, exit code {process.code}")
        self.heard(process, 0, 2)
        if process.code == 2 and len(process.output.strip().splitlines()) != 1:
            self.finding.tracebacks.append(f"not one sentence: {process.output.strip()}")
        self.judge(complete=process.code == 0)
        self.rerun()

    def run_twice(self) -> None:
        """Two runs at once: the same twice, with different seeds, or one of them interrupted or killed."""
        runner = self.reference.runner
        kind = self.random.choice(("the same twice", "different seeds", "first interrupted", "first killed"))
        self.tell(kind)
        first = runner.start(self.root, self.step)
        time.sleep(self.random.uniform(0, 0.8 * self.known.seconds))
        second = runner.start(self.root, self.step, seed=OTHER_SEED if kind == "different seeds" else None)
        if kind.startswith("first "):
            number = signal.SIGINT if kind == "first interrupted" else signal.SIGKILL
            moment = time.monotonic() - first.started + self.random.uniform(0, self.known.seconds)
            first.signal_after(moment, number)
        first.wait()
        second.wait()
        self.heard(first, 0, *({"first interrupted": (130,), "first killed": (-signal.SIGKILL,)}.get(kind, ())))
        self.heard(second, 0)
        self.judge(complete=True, others=kind == "different seeds")
        self.rerun()


FAULTS: dict[str, Callable[[Trial], None]] = {
    "kill -9": Trial.kill,
    "full disk": Trial.fill_disk,
    "file-size limit": Trial.fill_disk,
    "concurrent pair": Trial.run_twice,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """A trial to come: `seed` decides all that is random in it, `folder` is its own."""

    fault: str
    step: Step
    seed: int
    folder: Path


def perform_all(reference: Reference, plans: Sequence[Plan], jobs: int, say: Callable[[Finding], None]) -> None:
    """Perform trials, `jobs` at a time, and `say` what each found."""
    # Forked, so that all is imported in every process.
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"), _share, (reference,))
    with pool:
        steps = list(dict.fromkeys(plan.step for plan in plans))
        known = dict(zip(steps, pool.map(_know, steps), strict=True))
        waiting = [pool.submit(_perform, plan, known[plan.step]) for plan in plans]
        for done in as_completed(waiting):
            say(done.result())


_shared: list[Reference] = []


def _share(reference: Reference) -> None:
    _shared[:] = [reference]


def _know(step: Step) -> Known:
    return _shared[0].of(step)


def _perform(plan: Plan, known: Known) -> Finding:
    (reference,) = _shared
    reference.learn(plan.step, known)
    return perform(reference, plan)


def perform(reference: Reference, plan: Plan) -> Finding:
    """One trial in a process of its own, which may mount a disk; its folder is removed unless something was found."""
    folder = plan.folder
    folder.mkdir(parents=True)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        finding = _tried(reference, plan)
        with os.fdopen(writing, "w", encoding="utf-8") as pipe:
            json.dump(asdict(finding), pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        found = Finding(**json.load(pipe))
    os.waitpid(pid, 0)
    if not found.bad:
        shutil.rmtree(folder)
    return found


def _tried(reference: Reference, plan: Plan) -> Finding:
    started, fault, folder = time.monotonic(), plan.fault, plan.folder
    if fault == "full disk":
        size = 3 * sum(path.stat().st_size for path in reference.root.rglob("*") if path.is_file()) + DISK_SPARE_BYTES
        if not mount_small_disk(folder, size):
            fault = "file-size limit"
    trial = Trial(reference, plan.step, folder, random.Random(plan.seed), Finding(fault, str(plan.step), ""))
    trial.set_up()
    FAULTS[fault](trial)
    trial.finding.seconds = time.monotonic() - started
    return trial.finding

"""Run what is stale of the pipeline, several stages at a time.

    python scripts/repro.py [--jobs N]

The same as `dvc repro`, in less time: DVC runs one stage after another, and a stage on short texts keeps hardly more
than one core busy. Here N stages run side by side, each by a `dvc repro` of its own (DVC's documentation proposes
several of them for stages that do not depend on each other), as soon as all they need is there. Each is a fork of one
process that has loaded DVC and the stages' libraries, which takes a new process some four seconds. `make repro` sets
threads and instructions.

--jobs is the number of cores unless given; one where there is a GPU, which stages share badly. Ends with a table of
times, and the exit code of the first `dvc repro` that failed, once those that run beside it have ended.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import runpy
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CODE = "code"
"""The stage that says which others are stale after an edit."""

LIBRARIES = (
    *("dvc.cli", "dvc.repo", "dvc.stage.run", "dvc.commands.repro"),
    *("explearn_study.train", "explearn_study.evaluate", "explearn_study.report.project"),
    *("transformers.models.bert.modeling_bert", "transformers.trainer", "pandas", "scipy.stats", "sklearn.metrics"),
    *("captum.attr", "shap"),
)
"""What most stages load, loaded once; what is not installed is left out."""

ASIDE = ("Updating lock file", "Use `dvc push`", "To track the changes", "To enable auto", "\tgit add", "\tdvc config")
"""How lines begin that DVC writes at the end of each run, and that say nothing of a stage."""


class Pipeline(NamedTuple):
    """The stages that are stale; what each stage needs, the bytes that it wrote when it last ran, and its command."""

    stale: set[str]
    needs: dict[str, set[str]]
    sizes: dict[str, int]
    commands: dict[str, str]


def read_pipeline() -> Pipeline:
    from dvc.repo import Repo

    with Repo(str(ROOT)) as repo:
        graph = repo.index.graph
        found = Pipeline(set(repo.status()), {}, {}, {})
        for stage in graph:
            found.needs[stage.addressing] = {needed.addressing for needed in graph.successors(stage)}
            found.sizes[stage.addressing] = sum(out.meta.size or 0 for out in stage.outs)
            found.commands[stage.addressing] = stage.cmd
        return found


def with_dependents(stale: Collection[str], needs: Mapping[str, set[str]]) -> set[str]:
    """Return some stages and all that need them, directly or not."""
    found = set(stale)
    while more := {stage for stage, needed in needs.items() if needed & found} - found:
        found |= more
    return found


class Ran(NamedTuple):
    """How a stage ended, and the processor time that it took, its own processes included."""

    stage: str
    code: int
    seconds: float


def run_stage(stage: str) -> Ran:
    """Run a stage unless nothing has changed for it, with its name before each line."""
    import dvc.stage.run
    from dvc.cli import main as run_dvc

    start = processor_seconds()
    # DVC has no public place for this. Under another name there, commands run in processes of their own.
    dvc.stage.run._run = partial(run_command, dvc.stage.run._run)
    with name_lines(stage):
        code = run_dvc(["--wait-for-lock", "repro", "--single-item", stage])
    return Ran(stage, code, processor_seconds() - start)


def processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def run_command(of_dvc: Callable[..., None], executable: str, command: str, **more: Any) -> None:
    """Run a stage's command: a Python script in a fork of this process, which has loaded its libraries; else as DVC.

    Raises:
        StageCmdFailedError: its exit code is not 0.
    """
    from dvc.stage.exceptions import StageCmdFailedError

    program, *arguments = shlex.split(command)
    if program != "python" or not arguments[0].endswith(".py"):
        of_dvc(executable, command, **more)
        return
    process = multiprocessing.get_context("fork").Process(target=run_script, args=(arguments, more["env"]))
    process.start()
    process.join()
    if process.exitcode:
        raise StageCmdFailedError(command, process.exitcode)


def run_script(arguments: list[str], env: Mapping[str, str]) -> None:
    os.environ.update(env)
    sys.argv = arguments
    sys.path[0] = str(Path(arguments[0]).parent)
    runpy.run_path(str(Path(arguments[0]).resolve()), run_name="__main__")


@contextmanager
def name_lines(name: str) -> Iterator[None]:
    """Put a name before each line that this process and its children write, and leave out lines that say nothing."""
    reader, writer = os.pipe()
    output = os.fdopen(os.dup(1), "w")
    for stream in (1, 2):
        os.dup2(writer, stream)
    os.close(writer)

    def copy() -> None:
        with os.fdopen(reader) as lines:
            for line in lines:
                if line.strip() and not line.startswith(ASIDE):
                    print(f"[{name}] {line}", end="", file=output, flush=True)

    copying = Thread(target=copy)
    copying.start()
    try:
        yield
    finally:
        sys.stdout.flush()
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
        copying.join()


def print_times(runs: Collection[Ran], commands: Mapping[str, str], seconds: float) -> None:
    """Print the processor time of each kind of stage, the longest first, and that of all beside the time it took."""
    kinds: dict[str, list[float]] = {}
    for run in runs:
        stage = run.stage.partition("@")[0]
        # DVC numbers students. In their commands a method or teacher follows the task.
        method = commands[run.stage].split()[5:]
        kinds.setdefault(" ".join([stage, *method]), []).append(run.seconds)
    print(f"{'Stage':32} {'runs':>5} {'processor seconds':>18}")
    for kind, times in sorted(kinds.items(), key=lambda entry: -sum(entry[1])):
        print(f"{kind:32} {len(times):5} {sum(times):18.0f}")
    print(f"{'all':32} {len(runs):5} {sum(run.seconds for run in runs):18.0f}, in {seconds:.0f} s")


def run_all(pipeline: Pipeline, jobs: int) -> int:
    """Run stages as soon as what they need has run; return the first exit code that is not 0."""
    needs = pipeline.needs
    waiting = with_dependents(pipeline.stale, needs)
    # What most others wait for comes first, then what writes most: it takes longest, and no core is to idle at the end.
    urgency = {stage: (len(with_dependents([stage], needs)), pipeline.sizes[stage]) for stage in waiting}
    running: dict[Future[Ran], str] = {}
    runs = []
    code = 0
    total = len(waiting)
    start = time.monotonic()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*LIBRARIES])
    with ProcessPoolExecutor(jobs, context, max_tasks_per_child=1) as pool:
        while waiting or running:
            unfinished = waiting | set(running.values())
            ready = sorted(stage for stage in waiting if not needs[stage] & unfinished)
            for stage in sorted(ready, key=urgency.__getitem__, reverse=True)[: jobs - len(running)]:
                waiting.remove(stage)
                running[pool.submit(run_stage, stage)] = stage
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                runs.append(done.result())
                code = code or runs[-1].code
                print(f"[{running.pop(done)}] {total - len(waiting) - len(running)} of {total} stages", flush=True)
            if code:
                waiting.clear()
    if runs:
        print_times(runs, pipeline.commands, time.monotonic() - start)
    return code


def default_jobs() -> int:
    device = os.environ.get("EXPLEARN_DEVICE", "")
    if device not in ("", "auto", "cpu") or (device != "cpu" and shutil.which("nvidia-smi")):
        return 1
    return os.cpu_count() or 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=default_jobs(), choices=range(1, 257), metavar="N")
    jobs = parser.parse_args().jobs
    pipeline = read_pipeline()
    if CODE in pipeline.stale:
        if code := run_stage(CODE).code:
            return code
        pipeline = read_pipeline()
    if not pipeline.stale:
        print("Data and pipelines are up to date.")
    return run_all(pipeline, jobs)


if __name__ == "__main__":
    sys.exit(main())

"""Run what is stale of the pipeline, several tasks at a time.

    python scripts/repro.py [--jobs N]

The same as `OMP_NUM_THREADS=1 dvc repro`, in less time: DVC runs one stage after another, and a stage on short texts
keeps hardly more than one core busy. Here the stages of a task are one list, and N lists run side by side, each by a
`dvc repro` of its own (DVC's documentation proposes several of them for stages that do not depend on each other). What
needs another task's results comes in a next round.

Each stage computes with one thread unless OMP_NUM_THREADS says otherwise, on every machine: with more, sums come in
another order, and fine-tuning makes another classifier of last digits that differ.

--jobs is the number of cores unless given, at most one for each task; one where there is a GPU, which stages share
badly. Ends with the exit code of the first `dvc repro` that failed, once those that run beside it have ended.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LISTED = re.compile(r'^"(?P<name>[^"]+)"(?: -> "(?P<then>[^"]+)")?;$')
ASIDE = ("Updating lock file", "Use `dvc push`", "To track the changes", "To enable auto", "\tgit add", "\tdvc config")
"""How lines begin that DVC writes at the end of each list, and that say nothing of a stage."""
RUNS = re.compile(r"^Running stage '(?P<name>[^']+)'")


def task_of(stage: str, tasks: Sequence[str]) -> str:
    """The task in the name of a stage such as `train-l2e@reviews-l2e`; empty for one of all tasks."""
    _, _, items = stage.partition("@")
    found = [task for task in tasks if items == task or items.startswith(f"{task}-")]
    return max(found, key=len, default="")


def needs_of(dot: str) -> dict[str, set[str]]:
    """What each stage depends on, from `dvc dag --dot`."""
    needs: dict[str, set[str]] = {}
    for line in dot.splitlines():
        if match := LISTED.match(line.strip()):
            needs.setdefault(match["name"], set())
            if match["then"]:
                needs.setdefault(match["then"], set()).add(match["name"])
    return needs


def rounds_of(needs: Mapping[str, set[str]], stale: Iterable[str], tasks: Sequence[str]) -> list[dict[str, list[str]]]:
    """Rounds of lists: task -> its stages that may have to run, each after what it depends on.

    A stage comes in a later round than the stages of other lists that it depends on. Stages that are not stale, and
    depend on none that is, are left out.
    """
    given = set(stale)

    @cache
    def runs(stage: str) -> bool:
        return stage in given or any(runs(need) for need in needs[stage])

    @cache
    def order(stage: str) -> tuple[int, int]:
        """Its round, and how many stages lie between it and the start."""
        task, before = task_of(stage, tasks), [need for need in needs[stage] if runs(need)]
        turn = max((order(need)[0] + (task_of(need, tasks) != task) for need in before), default=0)
        return turn, max((order(need)[1] + 1 for need in before), default=0)

    rounds: defaultdict[int, dict[str, list[str]]] = defaultdict(dict)
    for stage in sorted(filter(runs, needs), key=order):
        rounds[order(stage)[0]].setdefault(task_of(stage, tasks), []).append(stage)
    return [rounds[turn] for turn in sorted(rounds)]


class Runner:
    """Runs lists of stages, and shows how many are done."""

    def __init__(self, jobs: int, total: int) -> None:
        from tqdm import tqdm

        self.jobs = jobs
        self.failed = 0
        self.lock = threading.Lock()
        self.bar = tqdm(total=total, unit="stage", disable=None, dynamic_ncols=True)

    def run(self, name: str, stages: Sequence[str]) -> None:
        """Run a list by one `dvc repro`; its output comes line by line, headed by the task."""
        if self.failed:
            return
        command = ["dvc", "--wait-for-lock", "repro", "--single-item", *stages]
        with subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                self._show(name, line.rstrip("\n"))
        with self.lock:
            self.failed = self.failed or process.returncode

    def _show(self, name: str, line: str) -> None:
        if not line or line.startswith(ASIDE):
            return
        with self.lock:
            if match := RUNS.match(line):
                self.bar.set_description(match["name"], refresh=False)
                self.bar.update()
            self.bar.write(f"[{name or 'all tasks'}] {line}", file=sys.stdout)

    def round(self, lists: Mapping[str, Sequence[str]]) -> None:
        """Run the lists of a round; the longest first, so that the cores end together."""
        with ThreadPoolExecutor(self.jobs) as pool:
            longest_first = sorted(lists.items(), key=lambda item: -len(item[1]))
            for begun in [pool.submit(self.run, name, stages) for name, stages in longest_first]:
                begun.result()


def dvc(*arguments: str) -> str:
    """What a command of DVC prints; ends the program with its exit code where it fails, which it has explained."""
    done = subprocess.run(["dvc", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    return done.stdout


def environment() -> dict[str, str]:
    return {"OMP_NUM_THREADS": "1", **os.environ}


def default_jobs(tasks: int) -> int:
    device = os.environ.get("EXPLEARN_DEVICE", "")
    gpu = device not in ("", "auto", "cpu") or (device != "cpu" and shutil.which("nvidia-smi") is not None)
    return 1 if gpu else max(1, min(os.cpu_count() or 1, tasks))


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"got {text!r}; expected a whole number from 1 to 256")
    return int(text)


def main() -> int:
    import yaml

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--jobs", type=positive, help="lists that run side by side (default: as many as there are cores)"
    )
    options = parser.parse_args()
    params: Any = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    tasks: list[str] = params["tasks"]
    jobs = options.jobs or default_jobs(len(tasks))
    if jobs == 1:
        return subprocess.run(["dvc", "repro"], cwd=ROOT, env=environment(), check=False).returncode
    stale = json.loads(dvc("status", "--json"))
    if not stale:
        print("Data and pipelines are up to date.")
        return 0
    needs = needs_of(dvc("dag", "--dot"))
    rounds = rounds_of(needs, stale, tasks)
    total = sum(len(stages) for lists in rounds for stages in lists.values())
    runner = Runner(jobs, total)
    for lists in rounds:
        runner.round(lists)
        if runner.failed:
            break
    runner.bar.close()
    return runner.failed


if __name__ == "__main__":
    sys.exit(main())

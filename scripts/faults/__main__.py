"""Disturb the stages of the pipeline, and see whether anything is lost or falsified.

    make faults                                  # 50 kills, 20 full disks, 20 concurrent pairs, over all stages
    make faults ARGS="--kills 5 --disks 0 --pairs 0 --few"

Prints a table of what was found: outputs lost, outputs that are neither the old nor the new ones, tracebacks, and
partial or temporary files left after a rerun. Exit code 1 where there is any.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

# Before torch and tokenizers are loaded: processes are forked, which threads do not survive.
os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1")
os.environ.update(EXPLEARN_DEVICE="cpu", MPLBACKEND="svg")

from processes import Runner
from project import all_steps, few_steps, make_project
from trials import Finding, Plan, Reference, perform_all


def main() -> int:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=50, help="processes killed with SIGKILL")
    parser.add_argument("--disks", type=int, default=20, help="disks that are too small")
    parser.add_argument("--pairs", type=int, default=20, help="two runs of one stage at once")
    parser.add_argument("--few", action="store_true", help="three stages of one task, not all")
    parser.add_argument("--stages", help="only these (finetune, train films l2e, ...), joined by commas")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="trials at a time (default: one a core)")
    parser.add_argument("--seed", type=int, default=13, help="of the choice of stages and moments")
    parser.add_argument("--keep", type=Path, help="folder for the projects of trials that found something")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    started = time.monotonic()
    runner = Runner()
    with tempfile.TemporaryDirectory(prefix="explearn-faults-") as folder:
        root = Path(folder) / "reference"
        make_project(root)
        steps = few_steps() if options.few else all_steps()
        if options.stages:
            chosen = options.stages.split(",")
            steps = [s for s in steps if {s.stage, str(s)} & set(chosen) and "meals" not in s.options]
        print(f"an undisturbed run of {len(steps)} stages", flush=True)
        reference = Reference(runner, root, steps, lambda line: print(f"  {line}", flush=True))
        draw = random.Random(options.seed)
        # Every stage has its turn before one has a second; those of the second task do what those of the first do.
        tried = [step for step in steps if "meals" not in step.options]
        plans: list[Plan] = []
        counts = {"kill -9": options.kills, "full disk": options.disks, "concurrent pair": options.pairs}
        for fault, count in counts.items():
            order = [step for _ in range(1 + count // len(tried)) for step in draw.sample(tried, len(tried))][:count]
            for step in order:
                plans.append(Plan(fault, step, draw.randrange(2**32), Path(folder) / "trials" / str(len(plans))))
        findings: list[Finding] = []

        def say(found: Finding) -> None:
            findings.append(found)
            verdict = "FOUND SOMETHING" if found.bad else "ok"
            done = f"{len(findings)}/{len(plans)} {found.fault}, {found.step}"
            print(f"{done}: {found.story}: {verdict}, {found.seconds:.1f} s", flush=True)
            _tell(found)

        perform_all(reference, plans, options.jobs, say)
        if options.keep and (Path(folder) / "trials").exists():
            shutil.copytree(Path(folder) / "trials", options.keep, dirs_exist_ok=True)
    seconds = time.monotonic() - started
    print(f"\n{table(findings)}\n\n{seconds:.0f} s on {os.cpu_count()} cores, {options.jobs} at a time")
    return int(any(found.bad for found in findings))


def _tell(found: Finding) -> None:
    for kind in ("lost", "falsified", "tracebacks", "left"):
        for line in getattr(found, kind):
            print(f"  {kind}: {line}", flush=True)


def table(findings: list[Finding]) -> str:
    """Markdown: a row for each fault, and their sum."""
    lines = [
        "| fault | trials | stages | lost | falsified | tracebacks | left over |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    rows = {fault: [f for f in findings if f.fault == fault] for fault in dict.fromkeys(f.fault for f in findings)}
    for fault, of_fault in {**rows, "all": findings}.items():
        counts = [sum(bool(getattr(f, kind)) for f in of_fault) for kind in ("lost", "falsified", "tracebacks", "left")]
        cells = [fault, len(of_fault), len({f.step for f in of_fault}), *counts]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

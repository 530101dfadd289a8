"""Large jobs: throughput against the plain classifier, peak memory, what a batch changes and what a kill does.

    python benchmarks/large_jobs.py --classifier FOLDER --explainer FOLDER [--texts 5000] [--runs 3] [--kills 3]

Throughput: `explearn job` (read, classify, explain, write Parquet) against a loop that reads the same file
and classifies its texts, in turn, in one process. The time of 64 texts, which is that of loading, is taken off on both
sides. Beside the time on the clock stands the processor time, which other work on the machine touches less. Memory: the
command in a process of its own, for each number of texts. Kills: the job of the first run once more, in a process that
is killed (SIGKILL) as often as asked, each time a share of its parts is there; its files are compared with the first
run's. The texts are pieces of 4 to 16 words of the corpus. Exits with 1 where the throughput is below 0.9 of the
loop's, by processor time, or the files differ.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from _timing import CORPUS, load_texts
from explearn.cli.choosing import choose
from explearn.core.compute import ComputeOptions
from explearn.methods.registry import get_explainer
from explearn.model.classifier import Classifier
from explearn_apps.jobs.explaining import Job
from explearn_apps.jobs.reading import Input
from explearn_apps.jobs.run import LocalEngine, run

LIMIT = 0.9
"""Least throughput, as a share of the plain loop's."""

BLOCK = 512
"""Texts that the plain loop holds at a time, as explainers do."""


def make_input(path: Path, count: int) -> Path:
    words = " ".join(load_texts(CORPUS, 300)).split()
    draw = random.Random(0)
    texts = []
    for _ in range(count):
        length = draw.randint(4, 16)
        start = draw.randrange(len(words) - length)
        texts.append(" ".join(words[start : start + length]))
    pq.write_table(pa.table({"text": texts}), path)
    return path


def job_of(options: argparse.Namespace, path: Path, folder: Path) -> Job:
    choices = choose([options.method], [options.explainer] if options.explainer else [])
    compute = ComputeOptions(options.device)
    given = Input(path), folder, options.shard_texts, str(options.classifier), {}, choices
    return Job(*given, {}, (), None, "word", None, compute)


def classify(options: argparse.Namespace, path: Path) -> None:
    classifier = Classifier.from_pretrained(options.classifier, device=options.device)
    texts = (row.text for row in Input(path).texts())
    while block := list(islice(texts, BLOCK)):
        classifier.predict_proba(classifier.encode(block))


def timed(function: Callable[[], object]) -> tuple[float, float]:
    clock, processor = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - clock, time.process_time() - processor


def throughput(options: argparse.Namespace, folder: Path) -> float:
    """The median of the paired ratios by processor time; on a GPU, by the clock."""
    path = make_input(folder / "texts.parquet", options.texts)
    small = make_input(folder / "warm.parquet", 64)
    classify(options, small)
    run(job_of(options, small, folder / "warm"), LocalEngine())
    share = []
    for number in range(options.runs):
        # What loading takes is the same for any number of texts: a small job's time is taken off.
        alone = further(lambda: classify(options, path), lambda: classify(options, small))
        both = further(
            lambda number=number: run(job_of(options, path, folder / f"out-{number}"), LocalEngine()),
            lambda number=number: run(job_of(options, small, folder / f"small-{number}"), LocalEngine()),
        )
        ratios = [a / b for a, b in zip(alone, both, strict=True)]
        share.append(ratios)
        print(
            f"run {number + 1}: classify {alone[0]:.1f} s ({alone[1]:.1f} s of processor time), job {both[0]:.1f} s "
            f"({both[1]:.1f} s): {ratios[0]:.3f} x by the clock, {ratios[1]:.3f} x by processor time",
            flush=True,
        )
    clock, processor = (statistics.median(found) for found in zip(*share, strict=True))
    print(f"{options.texts:,} texts: {clock:.3f} x by the clock, {processor:.3f} x by processor time (medians)")
    return clock if options.device == "cuda" else processor


def further(function: Callable[[], object], small: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock and of processor time that a function takes beyond those of a small one."""
    return tuple(more - less for more, less in zip(timed(function), timed(small), strict=True))


def memory(options: argparse.Namespace, folder: Path) -> None:
    for count in options.memory:
        own = folder / f"memory-{count}"
        own.mkdir()
        make_input(own / "texts.parquet", count)
        command = [sys.executable, __file__, *sys.argv[1:], "--one-job", str(own)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        print(f"{count:,} texts: peak {done.stdout.strip()}", flush=True)


def killed(options: argparse.Namespace, folder: Path) -> bool:
    """Whether the files of a job that was killed are those of `throughput`'s first."""
    own = folder / "killed"
    own.mkdir()
    (own / "texts.parquet").symlink_to(folder / "texts.parquet")
    command = [sys.executable, __file__, *sys.argv[1:], "--one-job", str(own)]
    parts = -(-options.texts // options.shard_texts)
    for number in range(1, options.kills + 1):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while len(list((own / "out").glob("part-*.parquet"))) < number * parts // (options.kills + 1):
            if process.poll() is not None:
                raise SystemExit(f"the job ended with {process.returncode} before kill {number}; give smaller parts")
            time.sleep(0.1)
        # In the middle of a part.
        time.sleep(0.5)
        process.kill()
        process.wait()
        there = len(list((own / "out").glob("part-*.parquet")))
        print(f"kill {number}: {there} of {parts} parts were there", flush=True)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found, expected = digests(own / "out"), digests(folder / "out-0")
    same = found == expected and len(found) == parts
    print(
        f"killed {options.kills} times, {parts} parts: {'the same bytes' if same else 'other bytes'}; peak of the last "
        f"run {done.stdout.strip()}"
    )
    return same


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each part, by its name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("part-*.parquet")}


def batches(options: argparse.Namespace, folder: Path) -> None:
    """The largest change of a score where only the size of the batches, or the number of threads, is another."""
    texts = [str(row.text) for row in Input(make_input(folder / "batches.parquet", BLOCK)).texts()]

    def scores(max_tokens: int) -> np.ndarray:
        explainer = get_explainer(options.method, path=str(options.explainer) if options.explainer else None)
        classifier = Classifier.from_pretrained(options.classifier, device=options.device, max_tokens=max_tokens)
        return np.concatenate([found.scores for found in explainer.explain(classifier, texts)])

    base = scores(1024)
    others = {f"batches of {size:,} sub-tokens": scores(size) for size in (128, 4096)}
    threads = torch.get_num_threads()
    torch.set_num_threads(2 if threads == 1 else 1)
    others[f"{torch.get_num_threads()} threads, not {threads}"] = scores(1024)
    torch.set_num_threads(threads)
    for what, found in others.items():
        change = np.nanmax(np.abs(found - base))
        print(f"{what}: {np.mean(found != base):.0%} of the scores differ, by {change:.1e} at most", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classifier", type=Path, required=True)
    parser.add_argument("--explainer", type=Path, help="folder of a trained explainer")
    parser.add_argument("--method", default="expnet")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--texts", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--memory", type=int, nargs="*", default=[2000, 20000], help="numbers of texts")
    parser.add_argument("--shard-texts", type=int, default=10_000, help="texts a part")
    parser.add_argument("--kills", type=int, default=0, help="how often to kill a job; needs a run")
    parser.add_argument("--one-job", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one_job:
        run(job_of(options, options.one_job / "texts.parquet", options.one_job / "out"), LocalEngine())
        print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:,.0f} MiB")
        return
    print(f"torch {torch.__version__}, {options.device}, {torch.get_num_threads()} threads", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        batches(options, Path(temporary))
        memory(options, Path(temporary))
        found = throughput(options, Path(temporary)) if options.runs else 1.0
        same = killed(options, Path(temporary)) if options.runs and options.kills else True
    sys.exit(found < LIMIT or not same)


if __name__ == "__main__":
    main()

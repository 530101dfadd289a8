"""Load on `explearn serve`: short texts through Marker at a steady rate, on loopback.

    python benchmarks/serve_load.py [--rate 50] [--seconds 30] [--threads 2] [--method NAME | --predict]
                                    [--bundle FOLDER]

Trains the demo's classifier and a Marker for it (on the marked words of data/corpus/topics.jsonl), exports both as a
bundle, and serves that in a process of its own. This process sends texts at times fixed beforehand, `rate` a second,
whether or not earlier answers have come, and takes the time from when a request was due to its answer. Then it sends as
fast as answers come, from 16 connections, for the throughput. The service's CPU time is read from /proc. With
`--predict` it asks for probabilities alone.

Exits with 1 where an answer is an error, or the 95th percentile is above 400 ms at the rate asked for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import httpx2

import explearn
from explearn.cli.demo.classifier import demo_classifier, headlines
from explearn.core.compute import ComputeOptions
from explearn.core.examples import Example
from explearn.methods.marker.explainer import Marker
from explearn.predictors.predictor import transformer_of

CORPUS = Path(__file__).resolve().parents[1] / "data" / "corpus" / "topics.jsonl"
MOST_SECONDS = 0.4
"""Largest 95th percentile allowed."""


def make_bundle(folder: Path) -> Path:
    """The demo's classifier with a Marker that is trained on the corpus's marks of its task."""
    classifier = demo_classifier(ComputeOptions("cpu"), 13)
    transformer_of(classifier).model.save_pretrained(folder / "classifier")
    transformer_of(classifier).tokenizer.save_pretrained(folder / "classifier")
    examples: dict[str, list[Example]] = {"train": [], "validation": []}
    gold: dict[str, tuple[bool, ...]] = {}
    for line in CORPUS.with_suffix(".rationales.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        gold.setdefault(row["id"], tuple(map(bool, row["rationale"])))
    for line in CORPUS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["split"] in examples and row["id"] in gold:
            example = Example(row["id"], tuple(row["words"]), row["label"], row["split"], "topics")
            examples[row["split"]].append(example)
    marks = {example.id: gold[example.id] for example in examples["train"]}
    Marker(protocol="in_domain").fit(classifier, examples["train"], marks).save_pretrained(folder / "marker")
    return explearn.export(
        folder / "bundle", explainer=folder / "marker", classifier=str(folder / "classifier"), with_classifier=True
    )


class Service:
    """`explearn serve` in a process of its own."""

    def __init__(self, bundle: Path, threads: int, method: str | None) -> None:
        more = [] if method is None else ["--method", method]
        command = [sys.executable, "-m", "explearn.cli.app", "serve", bundle, "--port", "0", *more]
        self._process = subprocess.Popen(
            [*map(str, command)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "EXPLEARN_DEVICE": "cpu", "OMP_NUM_THREADS": str(threads)},
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"http://[\d.]+:\d+", line)
        if found is None:
            raise SystemExit(f"the service did not start: {line}")
        self.address = found[0]

    def cpu_seconds(self) -> float:
        """CPU time so far, of all its threads."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)


async def steady(
    client: httpx2.AsyncClient, texts: Sequence[str], method: str, rate: float, seconds: float
) -> list[float]:
    """Seconds from when each request was due to its answer; NaN for an error."""
    loop = asyncio.get_running_loop()
    start = loop.time() + 0.1

    async def one(number: int) -> float:
        due = start + number / rate
        await asyncio.sleep(due - loop.time())
        good = await answered(client, texts[number % len(texts)], method)
        return loop.time() - due if good else float("nan")

    return await asyncio.gather(*[one(number) for number in range(int(rate * seconds))])


async def flat_out(client: httpx2.AsyncClient, texts: Sequence[str], method: str, seconds: float) -> tuple[int, int]:
    """Answers and errors within some seconds, from 16 connections that each send when they have their answer."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds

    async def one(start: int) -> tuple[int, int]:
        good = bad = 0
        while loop.time() < end:
            right = await answered(client, texts[(start + good) % len(texts)], method)
            good += right
            bad += not right
        return good, bad

    found = await asyncio.gather(*[one(7 * number) for number in range(16)])
    return sum(good for good, _ in found), sum(bad for _, bad in found)


async def answered(client: httpx2.AsyncClient, text: str, method: str) -> bool:
    """Whether a text was explained, with a score for each word; without a method, whether it was classified."""
    try:
        answer = await client.post("/explain", json={"texts": [text], "methods": [method] if method else []})
    except httpx2.HTTPError:
        return False
    if answer.status_code != 200:
        return False
    (result,) = answer.json()["results"]
    if not method:
        return bool(result["probabilities"])
    (found,) = result["explanations"]
    return len(found["scores"]) == len(text.split())


async def load(service: Service, method: str, rate: float, seconds: float) -> bool:
    texts = headlines("test")[0]
    limits = httpx2.Limits(max_connections=200, max_keepalive_connections=200)
    async with httpx2.AsyncClient(base_url=service.address, timeout=60, limits=limits) as client:
        await steady(client, texts, method, 20, 2)  # connections are made, caches are warm
        before = service.cpu_seconds()
        took = await steady(client, texts, method, rate, seconds)
        cpu = service.cpu_seconds() - before
        before = service.cpu_seconds()
        start = time.perf_counter()
        good, bad = await flat_out(client, texts, method, seconds / 3)
        wall = time.perf_counter() - start
        flat_cpu = service.cpu_seconds() - before
    right = sorted(second for second in took if second == second)
    errors = len(took) - len(right)
    cuts = statistics.quantiles(right, n=100) if len(right) > 1 else [float("nan")] * 99
    print(f"{len(took)} requests at {rate:g} a second, {errors} errors")
    print(f"  p50 {1000 * cuts[49]:.0f} ms, p95 {1000 * cuts[94]:.0f} ms, p99 {1000 * cuts[98]:.0f} ms")
    print(f"  {1000 * cpu / len(took):.1f} ms of CPU a request")
    each = 1000 * flat_cpu / max(good, 1)
    print(f"flat out: {good / wall:.0f} requests a second, {bad} errors, {each:.1f} ms of CPU each")
    return not errors and not bad and cuts[94] <= MOST_SECONDS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--method", default="marker_in_domain", help="marker_in_domain, or one that needs no training")
    parser.add_argument("--predict", action="store_true", help="ask for probabilities, not for scores")
    parser.add_argument("--bundle", type=Path, help="serve this one, with its classifier, instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bundle = options.bundle or make_bundle(Path(folder))
        service = Service(bundle, options.threads, None if options.method == "marker_in_domain" else options.method)
        try:
            print(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
            method = "" if options.predict else options.method
            fine = asyncio.run(load(service, method, options.rate, options.seconds))
            print(f"load average after: {os.getloadavg()[0]:.1f}")
        finally:
            code = service.stop()
    sys.exit(0 if fine and code == 0 else 1)


if __name__ == "__main__":
    main()

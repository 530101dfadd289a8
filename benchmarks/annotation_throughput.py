"""Answers a second, memory, and what kill -9 costs: `explearn annotate` against a server on loopback.

    python benchmarks/annotation_throughput.py [--texts 10000] [--concurrency 32] [--kills 5]

The server is a process of its own, with answers ready, so that the client is what is timed: requests, checks, answers
on disk. Three figures, each with its limit: answers a second; growth of the client's resident memory from the first
tenth of the run to its end; and after several kills at random moments and a last run to the end, answers lost, answers
doubled, and texts asked again although their answer was on disk. Exits with 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from chat_server import ChatServer, Reply, Request, answer_json

from explearn.core.records import Example
from explearn_study.annotate.llm.asking import Options, Question, ask_all
from explearn_study.annotate.llm.budget import Meter
from explearn_study.annotate.llm.cache import AnswerCache, read_answers
from explearn_study.annotate.llm.collecting import bound_prompt
from explearn_study.annotate.llm.endpoint import Endpoint
from explearn_study.sections import LLMParams

LEAST_ANSWERS_PER_SECOND = 150.0
MOST_GROWTH_MB = 20.0
"""Keys of ten thousand answers are under 2 MB; the rest is the allocator's."""


def texts(count: int) -> list[Example]:
    rest = "was a warm and funny evening that nobody of us had expected of the place"
    return [Example(f"t-{n}", tuple(f"visit{n} {rest}".split()), "positive", "train", "visits") for n in range(count)]


def serve(pipe: Any) -> None:
    """Answer until told to stop; on request send how often texts were asked about, each (`texts`) or all (`total`)."""
    asked: Counter[str] = Counter()
    reply = Reply(answer_json("positive", "warm and funny"))

    def answer(request: Request) -> Reply:
        asked[request.text.split()[0]] += 1
        return reply

    with ChatServer(answer, keep=False) as server:
        pipe.send(server.url)
        while (wanted := pipe.recv()) != "stop":
            pipe.send(Counter(dict(asked)) if wanted == "texts" else server.served)


def resident_mb() -> float:
    """Resident memory of this process, in MB (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def ask(url: str, folder: Path, count: int, concurrency: int) -> dict[str, float]:
    """One run over what has no answer yet; seconds and memory."""
    prompt = bound_prompt("evidence", "visits", ["negative", "positive"], (), LLMParams())
    questions = [Question("m", prompt, example) for example in texts(count)]
    memory: list[float] = []
    done = 0

    def progress() -> None:
        nonlocal done
        done += 1
        if done % max(1, count // 20) == 0:
            memory.append(resident_mb())

    with AnswerCache(folder / "answers.jsonl") as cache:
        start = time.perf_counter()
        outcome = ask_all(questions, Endpoint(url), cache, Meter(), Options(concurrency), progress)
        seconds = time.perf_counter() - start
    return {"asked": outcome.asked, "seconds": seconds, "early_mb": memory[1], "late_mb": memory[-1]}


def killed_runs(url: str, folder: Path, options: argparse.Namespace, pipe: Any) -> dict[str, int]:
    """Kill runs at random moments, then let one finish; what was lost, doubled or asked again for nothing."""
    generator = random.Random()
    command = [sys.executable, __file__, "--worker", url, str(folder)]
    command += ["--texts", str(options.texts), "--concurrency", str(options.concurrency)]
    path = folder / "answers.jsonl"
    again = 0
    for kill in range(options.kills + 1):
        on_disk = {answer.id.replace("t-", "visit") for answer in read_answers(path)}
        before = count_asked(pipe)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            goal = sum(before.values()) + generator.randint(100, max(101, options.texts // (options.kills + 1)))
            while kill < options.kills and process.poll() is None and count_total(pipe) < goal:
                time.sleep(0.02)
            if kill < options.kills:
                process.send_signal(signal.SIGKILL)
        again += sum((count_asked(pipe) - before)[word] for word in on_disk)
    ids = [json.loads(line)["id"] for line in path.read_text(encoding="utf-8").splitlines()]
    return {
        "lost": options.texts - len(set(ids)),
        "doubled": len(ids) - len(set(ids)),
        "asked again": again,
        "in flight at a kill": count_total(pipe) - options.texts,
    }


def count_asked(pipe: Any) -> Counter[str]:
    pipe.send("texts")
    found: Counter[str] = pipe.recv()
    return found


def count_total(pipe: Any) -> int:
    pipe.send("total")
    return int(pipe.recv())


def with_server(use: Any) -> Any:
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            return use(ours.recv(), Path(folder), ours)
    finally:
        ours.send("stop")
        server.join(timeout=10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--worker", nargs=2, metavar=("URL", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        ask(options.worker[0], Path(options.worker[1]), options.texts, options.concurrency)
        return
    run = with_server(lambda url, folder, _: ask(url, folder, options.texts, options.concurrency))
    rate, growth = run["asked"] / run["seconds"], run["late_mb"] - run["early_mb"]
    print(f"{options.texts:,} texts, {options.concurrency} in flight, {os.cpu_count()} CPUs")
    print(f"{rate:.0f} answers/s ({run['seconds']:.1f} s); asked for: at least {LEAST_ANSWERS_PER_SECOND:.0f}")
    print(
        f"memory {run['early_mb']:.0f} MB after a tenth, {run['late_mb']:.0f} MB at the end: {growth:+.1f} MB; "
        f"asked for: at most {MOST_GROWTH_MB:+.0f}"
    )
    failed = rate < LEAST_ANSWERS_PER_SECOND or growth > MOST_GROWTH_MB
    if options.kills:
        found = with_server(lambda url, folder, pipe: killed_runs(url, folder, options, pipe))
        print(f"after {options.kills} kills: " + ", ".join(f"{name} {count}" for name, count in found.items()))
        print("asked for: lost 0, doubled 0, asked again 0")
        failed |= any(found[name] for name in ("lost", "doubled", "asked again"))
    sys.exit(failed)


if __name__ == "__main__":
    main()

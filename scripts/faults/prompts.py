"""Disturb a prompt that is a classifier: no request over the budget, and no answer that is kept is asked for again.

    python scripts/faults/prompts.py --trials 300

A trial predicts some texts three times, each time in a process of its own and with the same file of answers: against a
server with the faults of real ones, which is killed in half of the trials; against the same server again; and, with a
larger budget, against one without faults. Exit code 1: something was wrong, and is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import math
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import patch

# The server that the tests use, too.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "cases"))

import openai._base_client
from chat_server import ChatServer, Reply, Request  # type: ignore[import-not-found]

from explearn import LLMClassifier
from explearn.core.errors import ExplearnError
from explearn.predictors.llm.endpoint import BASE_URL
from explearn.predictors.llm.server import client
from explearn.predictors.llm.store import open_store

PROMPT = {
    "model": "m",
    "template": "Review: {text}\nGood or bad?",
    "label_words": {"negative": "bad", "positive": "good"},
}
MOST_SECONDS = 60.0
"""A process that takes longer hangs."""


def text_of(request: Request) -> str:
    """Return the text that a request asks about."""
    content = str(request.body["messages"][-1]["content"])
    return content.removeprefix("Review: ").removesuffix("\nGood or bad?")


def answer(good: str, p: float) -> bytes:
    """Return a reply whose likeliest token is `good`, with probability p, before `bad`."""
    tokens = [{"token": good, "logprob": math.log(p)}, {"token": "bad", "logprob": math.log(1 - p)}]
    position = {**tokens[0], "top_logprobs": tokens}
    choice = {"message": {"content": good}, "logprobs": {"content": [position]}, "finish_reason": "stop"}
    return json.dumps({"choices": [choice], "usage": {"prompt_tokens": 20, "completion_tokens": 1}}).encode()


def honest(_: Request) -> Reply:
    return Reply(raw=answer("good", 0.8))


FAULTS = {
    "none": Reply(raw=answer("good", 0.8)),
    "429": Reply(status=429, error="wait", headers={"retry-after": "0.01"}),
    "500": Reply(status=500, error="oops"),
    "cut": Reply(raw=answer("good", 0.8), drop=True),
    "slow": Reply(raw=answer("good", 0.8), delay=0.05),
    "json": Reply(raw=b'{"choices": []}'),
    "labels": Reply(raw=answer("Hm", 0.8)),
    "redirect": Reply(status=307, headers={"location": "http://127.0.0.1:9/"}),
}


def faulty(draw: random.Random) -> Callable[[Request], Reply]:
    """Return a server's answers: half of them are wrong in one of the ways of FAULTS, or in all of them."""
    kinds = list(FAULTS)
    if draw.random() < 0.5:
        kinds = [draw.choice(kinds)]

    def reply(_: Request) -> Reply:
        return FAULTS[draw.choice(["none", draw.choice(kinds)])]

    return reply


def predict(url: str, budget: int, answers: Path, texts: Sequence[str]) -> None:
    """Predict texts, in a process of its own; errors that a user may see end it quietly."""
    os.environ[BASE_URL] = url
    logging.disable()
    short = patch.object(openai._base_client, "INITIAL_RETRY_DELAY", 0.01)
    with short, contextlib.suppress(ExplearnError):
        LLMClassifier({**PROMPT, "max_requests": budget}, answers).predict(texts)


class Trial:
    """A trial of a prompt on a server; `findings` has a line for everything that is wrong."""

    def __init__(self, server: ChatServer, answers: Path, draw: random.Random) -> None:
        self.server = server
        self.answers = answers
        self.draw = draw
        self.classifier = LLMClassifier(PROMPT, answers)
        self.texts = [f"good {number}" for number in range(draw.randint(4, 24))]
        self.findings: list[str] = []

    def perform(self) -> None:
        budget = self.draw.randint(1, 2 * len(self.texts))
        self.server.answer = faulty(self.draw)
        kill_at = None
        if self.draw.random() < 0.5:
            kill_at = self.draw.randint(1, budget)
        sent = self.run(budget, kill_at) + self.run(budget)
        if sent > budget:
            self.findings.append(f"{sent} requests with a budget of {budget}")
        with open_store(self.answers) as store:
            if store.spent.requests < sent:
                self.findings.append(f"{sent} requests, of which {store.spent.requests} were counted")
        self.server.answer = honest
        missing = len(self.texts) - self.classifier.answered(self.texts).sum()
        sent = self.run(1000)
        if sent != missing or not self.classifier.answered(self.texts).all():
            self.findings.append(f"{sent} requests for {missing} answers that were missing")

    def run(self, budget: int, kill_at: int | None = None) -> int:
        """Predict the texts in a process, killed after some requests; return the number of requests."""
        before = self.server.served
        answered = self.classifier.answered(self.texts)
        kept = {text for text, known in zip(self.texts, answered, strict=True) if known}
        context = multiprocessing.get_context("forkserver")
        process = context.Process(target=predict, args=(self.server.url, budget, self.answers, self.texts))
        process.start()
        latest = time.monotonic() + MOST_SECONDS
        while kill_at is not None and process.is_alive() and self.server.served < before + kill_at:
            time.sleep(0.001)
            if time.monotonic() > latest:
                break
        if kill_at is not None:
            process.kill()
        process.join(MOST_SECONDS)
        if process.exitcode not in ((0, -9) if kill_at is not None else (0,)):
            self.findings.append(f"exit code {process.exitcode}")
            process.kill()
        process.join()
        requests = self.server.requests[before:]
        for text in kept.intersection(map(text_of, requests)):
            self.findings.append(f"{text!r} was asked for again")
        return len(requests)


def disturb(trials: int, seed: int) -> list[str]:
    """Perform trials and return all findings."""
    draw = random.Random(seed)
    findings = []
    # Processes are forked from one that has imported everything and has no threads.
    multiprocessing.set_forkserver_preload([LLMClassifier.__module__, client.__name__])
    with tempfile.TemporaryDirectory(prefix="explearn-prompts-") as folder, ChatServer(honest) as server:
        for number in range(trials):
            trial = Trial(server, Path(folder) / f"{number}.answers", draw)
            trial.perform()
            findings += [f"trial {number}: {finding}" for finding in trial.findings]
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=300, help="number of trials")
    parser.add_argument("--seed", type=int, default=13, help="of the choice of faults and moments")
    options = parser.parse_args()
    findings = disturb(options.trials, options.seed)
    for finding in findings:
        print(finding)
    print(f"{options.trials} trials, {len(findings)} findings")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())

"""A prompt that is a classifier, disturbed: no request over the budget, and no answer that is kept is asked for again.

A trial predicts some texts three times, each time in a process of its own and with the same file of answers: against a
server with the faults of real ones, which is killed in half of the trials; against the same server again; and, with a
larger budget, against one without faults. In half of the trials the server gives no log-probabilities, so that each
text is asked several times.
"""

import contextlib
import logging
import multiprocessing
import os
import random
import sqlite3
import time
from dataclasses import replace
from unittest.mock import patch

import openai._base_client
from chat_server import ChatServer, Reply
from prompt_cases import PROMPT as REVIEW
from prompt_cases import place, reviewed, with_logprobs

from explearn import LLMClassifier
from explearn.core.errors import ExplearnError
from explearn.predictors.llm.endpoint import BASE_URL
from explearn.predictors.llm.server import client
from explearn.predictors.llm.store import open_store

PROMPT = {**REVIEW, "samples": 3}
MOST_SECONDS = 60
"""A process that takes longer hangs."""


def answer(word, logprobs):
    """A reply of one word; with log-probabilities, `bad` is the next likely one."""
    if logprobs:
        return with_logprobs(place({word: 0.8, "bad": 0.2}))
    return Reply(word)


FAULTS = {
    "429": Reply(status=429, error="wait", headers={"retry-after": "0.01"}),
    "500": Reply(status=500, error="oops"),
    "cut": Reply("good", drop=True),
    "json": Reply(raw=b'{"choices": []}'),
    "redirect": Reply(status=307, headers={"location": "http://127.0.0.1:9/"}),
}
"""Replies that are no answer."""


class Model:
    """A server's answers; `answers` counts those that can be kept."""

    def __init__(self, logprobs, draw):
        self.usual = answer("good", logprobs)
        self.kept = {"slow": replace(self.usual, delay=0.05), "labels": answer("Hm", logprobs)}
        self.draw = draw
        self.kinds = []
        self.answers = 0

    def become_faulty(self):
        """Half of the replies are odd from now on, in one way or in all."""
        self.kinds = [*FAULTS, *self.kept]
        if self.draw.random() < 0.5:
            self.kinds = [self.draw.choice(self.kinds)]

    def __call__(self, _):
        kind = "usual"
        if self.kinds and self.draw.random() < 0.5:
            kind = self.draw.choice(self.kinds)
        if kind in FAULTS:
            return FAULTS[kind]
        self.answers += 1
        return self.kept.get(kind, self.usual)


def predict(url, budget, answers, texts):
    """Predict texts, in a process of its own; errors that a user may see end it quietly."""
    os.environ[BASE_URL] = url
    logging.disable()
    short = patch.object(openai._base_client, "INITIAL_RETRY_DELAY", 0.01)
    with short, contextlib.suppress(ExplearnError):
        LLMClassifier({**PROMPT, "max_requests": budget}, answers).predict(texts)


class Trial:
    """A trial of a prompt on a server; `findings` has a line for everything that is wrong."""

    def __init__(self, server, answers, draw):
        self.server = server
        self.answers = answers
        self.draw = draw
        self.logprobs = draw.random() < 0.5
        self.model = server.answer = Model(self.logprobs, draw)
        self.classifier = LLMClassifier(PROMPT, answers)
        self.texts = [f"good {number}" for number in range(draw.randint(4, 24))]
        self.findings = []

    def perform(self):
        needed = len(self.texts)
        if not self.logprobs:
            needed *= PROMPT["samples"]
        budget = self.draw.randint(1, 2 * needed)
        self.model.become_faulty()
        kill_at = None
        if self.draw.random() < 0.5:
            kill_at = self.draw.randint(1, budget)
        sent = self.run(budget, kill_at) + self.run(budget)
        if sent > budget:
            self.findings.append(f"{sent} requests with a budget of {budget}")
        with open_store(self.answers) as store:
            if store.spent.requests < sent:
                self.findings.append(f"{sent} requests, of which {store.spent.requests} were counted")
        self.model.kinds = []
        self.run(1000)
        if not self.classifier.answered(self.texts).all():
            self.findings.append("answers are missing at the end")

    def kept_answers(self):
        """The number of answers in the file; the first comes with a line on log-probabilities."""
        with contextlib.closing(sqlite3.connect(self.answers)) as connection:
            (lines,) = connection.execute("SELECT COUNT(*) FROM answers").fetchone()
        return max(0, int(lines) - 1)

    def run(self, budget, kill_at=None):
        """Predict the texts in a process, killed after some requests; the number of requests."""
        before = self.server.served
        answers = self.model.answers
        answered = self.classifier.answered(self.texts)
        kept = {text for text, known in zip(self.texts, answered, strict=True) if known}
        kept_answers = self.kept_answers()
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
        more = self.kept_answers() - kept_answers
        answers = self.model.answers - answers
        # A kill loses answers that are on their way.
        if more > answers or (kill_at is None and more < answers):
            self.findings.append(f"{answers} answers were paid, {more} are kept")
        requests = self.server.requests[before:]
        for text in kept.intersection(reviewed(request.body["messages"]) for request in requests):
            self.findings.append(f"{text!r} was asked for again")
        return len(requests)


def disturb(trials, folder):
    """Make trials and return all findings."""
    draw = random.Random(1)
    findings = []
    # Processes are forked from one that has imported everything and has no threads.
    multiprocessing.set_forkserver_preload([LLMClassifier.__module__, client.__name__])
    with ChatServer(None) as server:
        for number in range(trials):
            trial = Trial(server, folder / f"{number}.answers", draw)
            trial.perform()
            findings += [f"trial {number + 1}: {finding}" for finding in trial.findings]
    return findings

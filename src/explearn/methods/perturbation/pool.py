"""Many explanations at once, each by library code that knows nothing of the others.

Explanation libraries ask for predictions of some perturbed copies of one text, wait, and ask again; a device is fast
only on large batches. Here every explanation runs in a greenlet of its own. Its question switches to the pool, which
collects the questions of all explanations under way, has them answered together and switches back with the answers.
There are no threads: one runs at a time, in a fixed order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from greenlet import GreenletExit, getcurrent, greenlet

from explearn.core.seeds import RANDOM_LOCK
from explearn.methods.perturbation.inputs import Inputs
from explearn.methods.perturbation.predictor import Logits

Result = TypeVar("Result")

Ask = Callable[[Inputs], Logits]
"""Logits of n perturbed texts, (n, C)."""

Job = Callable[[Ask], Result]


def run_together(
    jobs: Sequence[Job[Result]],
    answer: Callable[[Sequence[Inputs]], Sequence[Logits]],
    window_tokens: int,
    seed: int = 0,
) -> list[UnderWay[Result]]:
    """Run jobs side by side and answer their questions together; results in the order of the jobs.

    Args:
        jobs: functions that ask, any number of times, and return.
        answer: gives the logits of several questions at once.
        window_tokens: further jobs are begun while the open questions hold fewer sub-tokens than this, so that it, not
            the number of jobs, bounds the memory.
        seed: of numpy's global generator (np.random), which libraries draw from: each job has a state of its own that
            starts here, so that what it draws depends on no other job. While the classifier answers, and in the end,
            the caller's state stands; see `RANDOM_LOCK`.

    What a job or `answer` raises ends all jobs and is passed on.
    """
    begun: list[UnderWay[Result]] = []
    waiting: list[UnderWay[Result]] = []
    try:
        while waiting or len(begun) < len(jobs):
            open_tokens = sum(job.question.tokens for job in waiting)
            while len(begun) < len(jobs) and open_tokens < window_tokens:
                job = UnderWay(jobs[len(begun)], seed)
                begun.append(job)
                job.go_on()
                if not job.over:
                    waiting.append(job)
                    open_tokens += job.question.tokens
            if not waiting:
                continue
            questions = [job.question for job in waiting]
            start = time.perf_counter()
            answers = answer(questions)
            a_token = (time.perf_counter() - start) / max(1, sum(question.tokens for question in questions))
            for job, logits in zip(waiting, answers, strict=True):
                job.seconds += a_token * job.question.tokens
                job.go_on(logits)
            waiting = [job for job in waiting if not job.over]
        return begun
    finally:
        for job in begun:
            job.end()


class UnderWay(Generic[Result]):
    """A job in its greenlet: the question it waits with or its result, its numpy state, and its time so far.

    Attributes:
        seconds: its own time, and its share of the answers' time, by sub-tokens.
    """

    question: Inputs
    result: Result

    def __init__(self, job: Job[Result], seed: int) -> None:
        self.seconds = 0.0
        self._greenlet = greenlet(partial(job, _ask))
        self._random_state: Any = np.random.RandomState(seed).get_state(legacy=False)

    @property
    def over(self) -> bool:
        return bool(self._greenlet.dead)

    def go_on(self, *answer: Logits) -> None:
        """Run to the next question or to the end."""
        start = time.perf_counter()
        with RANDOM_LOCK:
            outside: Any = np.random.get_state(legacy=False)
            np.random.set_state(self._random_state)
            try:
                said = self._greenlet.switch(*answer)
                self._random_state = np.random.get_state(legacy=False)
            finally:
                np.random.set_state(outside)
        self.seconds += time.perf_counter() - start
        if self.over:
            self.result = said
            # Its arrays would stay until all jobs are over.
            self.__dict__.pop("question", None)
        else:
            self.question = said

    def end(self) -> None:
        """Unwind a job that is not over; its `finally` blocks run."""
        if not self.over:
            self._greenlet.throw(GreenletExit)


def _ask(question: Inputs) -> Logits:
    pool = getcurrent().parent
    assert pool is not None
    answer: Logits = pool.switch(question)
    return answer

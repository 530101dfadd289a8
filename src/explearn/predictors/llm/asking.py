"""Many questions to language models, several at a time and each at most once."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from explearn.core.errors import ExplearnError
from explearn.predictors.llm.budget import Meter
from explearn.predictors.llm.endpoint import Endpoint, NoAnswerError, RefusedError
from explearn.predictors.llm.store import AnswerStore

if TYPE_CHECKING:
    from explearn.predictors.llm.server.client import ChatClient, RequestFormat  # needs an extra


Result = TypeVar("Result")


def unanswered(questions: Iterable[Any], store: AnswerStore) -> list[Any]:
    """Return the questions that the store has no answer to, each `key` once."""
    return list({question.key: question for question in questions if question.key not in store}.values())


async def ask_all(
    questions: Collection[Any],
    answer: Callable[[Any, ChatClient], Awaitable[object]],
    endpoint: Endpoint,
    meter: Meter,
    stopped: Event,
    *,
    accepted: dict[str, RequestFormat] | None = None,
    most_failures: int = 1,
    progress: Callable[[], object] = lambda: None,
) -> list[ExplearnError]:
    """Ask questions, as many at a time as the server may have; where one fails, those on their way are finished.

    Args:
        questions: the questions, each with the name of its `model`.
        answer: asks one of them, and keeps the answer.
        endpoint: the server.
        meter: the budget.
        stopped: set when no further question may be asked.
        accepted: as for `ChatClient`.
        most_failures: consecutive questions without an answer after which the server is taken to be down. It is, too,
            if the model has answered nothing yet.
        progress: called after each question.

    Returns:
        The errors of questions without an answer.

    Raises:
        ParamsError: a price that the budget needs is missing.
        MissingExtraError: `explearn[annotate]` is not installed.
        EndpointError: the server cannot be used.
        BudgetError: the budget does not cover the next request.
        NoAnswerError: the server is down.
        RefusedError: the server refuses everything.
    """
    from explearn.predictors.llm.server.client import ChatClient

    for model in {question.model for question in questions}:
        meter.price(model)
    waiting = iter(questions)
    failures: list[ExplearnError] = []
    failures_in_row = 0
    ends: list[Exception] = []

    async def work() -> None:
        nonlocal failures_in_row
        for question in waiting:
            if ends or stopped.is_set():
                return
            try:
                await answer(question, client)
                failures_in_row = 0
            except (NoAnswerError, RefusedError) as error:
                failures.append(error)
                failures_in_row += 1
                down = isinstance(error, NoAnswerError) and question.model not in client.accepted
                if down or failures_in_row >= most_failures:
                    ends.append(error)
            except (ExplearnError, sqlite3.Error) as error:
                ends.append(error)
            progress()

    # Workers share one iterator, so that there are no more tasks than concurrent requests.
    async with ChatClient(endpoint, meter, accepted) as client, asyncio.TaskGroup() as group:
        for _ in range(min(endpoint.concurrency, len(questions))):
            group.create_task(work())
    if ends:
        raise ends[0]
    return failures


def run(gather: Callable[[Event], Coroutine[Any, Any, Result]]) -> Result:
    """Run a coroutine, which gets an event that is set when no further question may be asked."""
    stopped = Event()
    # In a thread of its own, since a notebook has a running event loop already.
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(asyncio.run, gather(stopped))
        try:
            return running.result()
        finally:
            # Ctrl+C: no further request is sent, and those on their way are kept.
            stopped.set()

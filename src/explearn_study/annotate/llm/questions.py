"""Questions to language models, sent concurrently and each at most once: cached answers are reused.

Used by the stage rationalise and `explearn annotate`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tqdm import tqdm

from explearn.core.errors import ExplearnError
from explearn.core.examples import Example
from explearn.predictors.llm.budget import Meter, Spent
from explearn.predictors.llm.endpoint import Endpoint
from explearn.predictors.llm.server.client import ChatClient, NoAnswerError, RefusedError
from explearn_study.annotate.llm.answers import InvalidAnswerError, parse_answer
from explearn_study.annotate.llm.cache import AnswerCache, CachedAnswer, answer_key, read_answers
from explearn_study.annotate.llm.prompts import BoundPrompt
from explearn_study.annotate.task import TaskMarks

ASKS = 2
"""Most times a question is asked: an unreadable answer is asked for once more, and the second answer is kept."""

MOST_FAILURES = 10
"""Consecutive texts without an answer after which a run stops, assuming that the server is down."""


@dataclass(frozen=True, slots=True)
class Question:
    """One text, one prompt, one model."""

    model: str
    prompt: BoundPrompt
    example: Example

    @property
    def key(self) -> str:
        return answer_key(self.model, self.prompt.version, self.example)


def ask(questions: Sequence[Question], marks: TaskMarks, meter: Meter) -> None:
    """Ask the questions that the task's cache does not answer; if there are none, no server is needed.

    Every answer is cached before it is used.

    Args:
        questions: the questions.
        marks: the task, with its cache.
        meter: the budget.

    Raises:
        ParamsError: the server's address, or a price that the budget needs, is missing.
        EndpointError: the server cannot be used.
        BudgetError: the budget is spent; running requests have been answered and cached.
        NoAnswerError: a text has no answer at the end, or many in a row have none.
    """
    path = marks.store.answers
    waiting = {question.key: question for question in questions}  # texts with the same words are one question
    if waiting.keys() <= {answer.key for answer in read_answers(path)}:
        return
    endpoint = Endpoint.from_environment()
    for model in {question.model for question in questions}:
        meter.price(model)
    with AnswerCache(path) as cache:
        unknown = [question for key, question in waiting.items() if key not in cache]
        with tqdm(total=len(unknown), desc="ask", unit="text", disable=None, file=sys.stderr) as bar:
            failures = asyncio.run(_ask_all(unknown, endpoint, cache, meter, bar.update))
    if failures:
        raise NoAnswerError(
            f"{len(failures):,} of {len(unknown):,} texts have no answer; the last error was: {failures[-1]}; run "
            "again for them: answers so far are kept"
        )


async def _ask_all(
    questions: Collection[Question],
    endpoint: Endpoint,
    cache: AnswerCache,
    meter: Meter,
    progress: Callable[[], object],
) -> list[ExplearnError]:
    """Return the errors of questions without an answer; raise an error that ends the run."""
    waiting = iter(questions)
    failures: list[ExplearnError] = []
    failures_in_row = 0
    stop: ExplearnError | None = None

    async def work() -> None:
        nonlocal failures_in_row, stop
        for question in waiting:
            try:
                cache.append(await _answer(question, client))
                failures_in_row = 0
            except (NoAnswerError, RefusedError) as error:
                failures.append(error)
                failures_in_row += 1
                down = isinstance(error, NoAnswerError) and question.model not in client.accepted
                if down or failures_in_row >= MOST_FAILURES:
                    stop = stop or error
            except ExplearnError as error:
                stop = stop or error
            progress()
            if stop is not None:
                return

    # Workers share one iterator, so that there are no more tasks than concurrent requests.
    async with ChatClient(endpoint, meter) as client, asyncio.TaskGroup() as group:
        for _ in range(min(endpoint.concurrency, len(questions))):
            group.create_task(work())
    if stop is not None:
        raise stop
    return failures


async def _answer(question: Question, client: ChatClient) -> CachedAnswer:
    prompt = question.prompt
    spent = Spent()
    content = ""
    finish = "refused"
    for _ in range(ASKS):
        try:
            answer = await client.complete(
                question.model,
                prompt.messages(question.example),
                prompt.schema,
                max_tokens=prompt.max_tokens,
                temperature=prompt.temperature,
            )
        except RefusedError:
            # If the server answers other requests, a refusal is about the text, and final.
            if question.model not in client.accepted:
                raise
            spent.add(Spent(1))
            break
        content = answer.content
        finish = answer.finish
        spent.add(answer.spent)
        try:
            parse_answer(content, finish, prompt.labels)
        except InvalidAnswerError:
            continue
        break
    return CachedAnswer(
        key=question.key,
        model=question.model,
        prompt=prompt.name,
        version=prompt.version,
        id=question.example.id,
        content=content,
        finish=finish,
        requests=spent.requests,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
    )

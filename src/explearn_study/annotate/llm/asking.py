"""Put questions to language models, many at a time, each at most once: what the cache has is not asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from explearn.core.errors import ExplearnError
from explearn.core.records import Example
from explearn_study.annotate.llm.answers import InvalidAnswerError, parse_answer
from explearn_study.annotate.llm.budget import BudgetError, Meter, Price, Spent
from explearn_study.annotate.llm.cache import AnswerCache, CachedAnswer
from explearn_study.annotate.llm.client import (
    PATIENCE,
    ChatClient,
    NoAnswerError,
    RefusedError,
    UnreachableError,
    worst_input_tokens,
)
from explearn_study.annotate.llm.endpoint import Endpoint, EndpointError
from explearn_study.annotate.llm.prompts import BoundPrompt

ASKS = 2
"""An answer that cannot be read is asked for once more; the second is kept as it is."""

MOST_FAILURES = 10
"""Texts in a row without an answer after which a run ends: the server is down."""

CHARS_PER_TOKEN = 4.0
"""Of English under common tokenizers; for estimates only."""

TYPICAL_OUTPUT_TOKENS = 90
"""An answer of three quotes and one sentence; for estimates where no earlier answer says better."""


@dataclass(frozen=True, slots=True)
class Question:
    """One text, one prompt, one model."""

    model: str
    prompt: BoundPrompt
    example: Example

    @property
    def key(self) -> str:
        return self.prompt.key(self.model, self.example)


@dataclass(frozen=True, slots=True)
class Options:
    """How to ask; nothing here changes an answer.

    Attributes:
        concurrency: requests under way at once.
        timeout: seconds for one request.
        attempts: most requests for one answer, where the server fails for the moment.
        patience: seconds without any answer after which the run ends.
    """

    concurrency: int = 8
    timeout: float = 60.0
    attempts: int = 6
    patience: float = PATIENCE


@dataclass(slots=True)
class Outcome:
    """What became of a run's questions.

    Attributes:
        asked: answers got from the server.
        known: questions that the cache, or another question of the run with the same words, answered.
        failed: questions without an answer; asking again may help.
        last_failure: why, of the last one.
    """

    asked: int = 0
    known: int = 0
    failed: int = 0
    last_failure: str = ""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run would take; tokens and money are estimates, `worst_money` a bound (None: no price is known)."""

    texts: int
    known: int
    requests: int
    input_tokens: int
    output_tokens: int
    money: float | None
    worst_money: float | None


@dataclass(slots=True)
class _Run:
    questions: Iterator[Question]
    cache: AnswerCache
    clients: dict[str, ChatClient]
    outcome: Outcome
    progress: Callable[[], object]
    asked: set[bytes] = field(default_factory=set)
    failures_in_row: int = 0
    stop: ExplearnError | None = None


def ask_all(
    questions: Sequence[Question],
    endpoint: Endpoint,
    cache: AnswerCache,
    meter: Meter,
    options: Options,
    progress: Callable[[], object] = lambda: None,
) -> Outcome:
    """Ask what the cache does not know; every answer is in the cache when it counts.

    `progress` is called after each question. Raises EndpointError, BudgetError (after the requests under way have been
    answered and kept), or NoAnswerError where many texts in a row went without an answer.
    """
    with endpoint.redacted_logs():
        return asyncio.run(_ask_all(questions, endpoint, cache, meter, options, progress))


async def _ask_all(
    questions: Sequence[Question],
    endpoint: Endpoint,
    cache: AnswerCache,
    meter: Meter,
    options: Options,
    progress: Callable[[], object],
) -> Outcome:
    clients: dict[str, ChatClient] = {}
    try:
        for question in questions:
            if question.model not in clients:
                meter.price(question.model)
                clients[question.model] = ChatClient(
                    endpoint,
                    question.model,
                    meter,
                    timeout=options.timeout,
                    attempts=options.attempts,
                    patience=options.patience,
                )
        run = _Run(iter(questions), cache, clients, Outcome(), progress)
        # Workers draw from one iterator: no more tasks, and no more memory, than requests under way.
        async with asyncio.TaskGroup() as group:
            for _ in range(min(options.concurrency, len(questions))):
                group.create_task(_work(run))
        if run.stop is not None:
            raise run.stop
        return run.outcome
    finally:
        for client in clients.values():
            await client.__aexit__(None, None, None)


async def _work(run: _Run) -> None:
    for question in run.questions:
        key = question.key
        if key in run.cache or bytes.fromhex(key) in run.asked:
            run.outcome.known += 1
            run.progress()
            continue
        run.asked.add(bytes.fromhex(key))
        try:
            await run.cache.append(await _answer(question, run.clients[question.model]))
        except (NoAnswerError, RefusedError) as error:
            run.outcome.failed += 1
            run.outcome.last_failure = str(error)
            run.failures_in_row += 1
            never = isinstance(error, NoAnswerError) and not run.clients[question.model].settled
            if never or isinstance(error, UnreachableError) or run.failures_in_row >= MOST_FAILURES:
                run.stop = run.stop or error
        except ExplearnError as error:
            run.stop = run.stop or error
        else:
            run.outcome.asked += 1
            run.failures_in_row = 0
        run.progress()
        if run.stop is not None:
            return


async def _answer(question: Question, client: ChatClient) -> CachedAnswer:
    prompt = question.prompt
    messages = prompt.messages(question.example)
    spent = Spent()
    content, finish = "", "refused"
    for _ in range(ASKS):
        try:
            found = await client.complete(
                messages, prompt.schema, max_tokens=prompt.max_tokens, temperature=prompt.temperature
            )
        except RefusedError:
            # From a server that answers others, a refusal is about the text, and final.
            if not client.settled:
                raise
            spent.add(Spent(1))
            break
        content, finish = found.content, found.finish
        spent.add(found.spent)
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


def estimate(
    questions: Sequence[Question], answers: Iterator[CachedAnswer], price: Callable[[str], Price | None]
) -> Estimate:
    """What asking would take, from the texts' lengths and the answers there are; asks nothing."""
    known: set[str] = set()
    written: list[int] = []
    versions = {(question.model, question.prompt.version) for question in questions}
    for answer in answers:
        known.add(answer.key)
        if (answer.model, answer.version) in versions and answer.requests:
            written.append(answer.output_tokens // answer.requests)
    output_each = round(sum(written) / len(written)) if written else TYPICAL_OUTPUT_TOKENS
    new = {question.key: question for question in questions if question.key not in known}
    inputs = outputs = 0
    money: float | None = 0.0
    worst: float | None = 0.0
    for question in new.values():
        messages = question.prompt.messages(question.example)
        read = round(sum(len(message["content"]) for message in messages) / CHARS_PER_TOKEN)
        inputs, outputs = inputs + read, outputs + output_each
        found = price(question.model)
        if found is None or money is None or worst is None:
            money = worst = None
            continue
        money += found.cost(read, output_each)
        worst += found.cost(worst_input_tokens(messages, question.prompt.schema), question.prompt.max_tokens)
    return Estimate(
        texts=len(questions),
        known=sum(question.key in known for question in questions),
        requests=len(new),
        input_tokens=inputs,
        output_tokens=outputs,
        money=money,
        worst_money=worst,
    )


__all__ = [
    "BudgetError",
    "EndpointError",
    "Estimate",
    "NoAnswerError",
    "Options",
    "Outcome",
    "Question",
    "ask_all",
    "estimate",
]

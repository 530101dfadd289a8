"""Questions to language models, sent concurrently and each at most once: answers are kept in a file.

Used by the stage rationalise and `explearn annotate`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

from tqdm import tqdm

from explearn.core.examples import Example
from explearn.predictors.llm.asking import ask_all, run, unanswered
from explearn.predictors.llm.budget import Meter
from explearn.predictors.llm.endpoint import Endpoint, NoAnswerError, RefusedError
from explearn.predictors.llm.server.client import ChatClient
from explearn.predictors.llm.store import AnswerStore, Spent, open_store
from explearn_study.annotate.llm.answers import InvalidAnswerError, parse_answer
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
        """SHA-256 over model, prompt version and the words of both segments, as hexadecimal digits."""
        parts = [self.model, self.prompt.version, list(self.example.words), list(self.example.pair)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer as received.

    Attributes:
        content: the model's output, with the server's key redacted.
        finish: why it stopped: `stop`, `length`, ..., or `refused` if the server would not answer for this text.
        requests: requests it took, including retries.
        input_tokens: tokens read for answered requests, as counted by the server.
        output_tokens: tokens written in answered requests.
    """

    content: str
    finish: str
    requests: int
    input_tokens: int
    output_tokens: int


def kept_answers(questions: Sequence[Question], marks: TaskMarks) -> list[KeptAnswer | None]:
    """Return the answers that the task's file has to questions, None where there is none.

    Raises:
        DataError: the file cannot be used.
    """
    with open_store(marks.store.answers) as store:
        answers = []
        for question in questions:
            answer = None
            if question.key in store:
                answer = KeptAnswer(**store[question.key])
            answers.append(answer)
        return answers


def ask(questions: Sequence[Question], marks: TaskMarks, meter: Meter) -> None:
    """Ask the questions that the task's file has no answer to; if there are none, no server is needed.

    Every answer is kept before it is used.

    Args:
        questions: the questions; texts with the same words are one question.
        marks: the task, with its file of answers.
        meter: the budget of all runs with this file.

    Raises:
        DataError: the file cannot be used.
        ParamsError: the server's address, or a price that the budget needs, is missing.
        EndpointError: the server cannot be used.
        BudgetError: the budget is spent; running requests have been answered and kept.
        NoAnswerError: a text has no answer at the end, or many in a row have none.
    """
    with open_store(marks.store.answers) as store:
        meter.keep(store)
        unknown = unanswered(questions, store)
        if not unknown:
            return
        endpoint = Endpoint.from_environment()
        answer = partial(_answer, store)
        with tqdm(total=len(unknown), desc="ask", unit="text", disable=None, file=sys.stderr) as bar:
            failures = run(
                lambda stopped: ask_all(
                    unknown, answer, endpoint, meter, stopped, most_failures=MOST_FAILURES, progress=bar.update
                )
            )
    if failures:
        raise NoAnswerError(
            f"{len(failures):,} of {len(unknown):,} texts have no answer; the last error was: {failures[-1]}; run "
            "again for them: answers so far are kept"
        )


async def _answer(store: AnswerStore, question: Question, client: ChatClient) -> None:
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
            spent += Spent(1)
            break
        content = answer.content
        finish = answer.finish
        spent += answer.spent
        try:
            parse_answer(content, finish, prompt.labels)
        except InvalidAnswerError:
            continue
        break
    kept = KeptAnswer(content, finish, spent.requests, spent.input_tokens, spent.output_tokens)
    store[question.key] = asdict(kept)

"""Asking one model of an OpenAI-compatible server: retries, rate limits, and what servers do not take.

Servers differ in what they accept. The first request is put in the richest form; a refusal (HTTP 400, 415, 422 or 501)
leads to the next one, and the first form that is accepted holds for the rest of the run:

1. a refusal that speaks of `max_tokens`: the bound goes as `max_completion_tokens` from there on;
2. one that speaks of `temperature`: it is left out, and the server's own is used;
3. any other: the answer's structure is asked for by `response_format` json_schema, then json_object, then by the prompt
   alone.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal

import httpx2
import openai
import tenacity
from openai.types.chat import ChatCompletion

from explearn.core.errors import ExplearnError
from explearn.core.visible import visible
from explearn_study.annotate.llm.budget import Meter, Spent
from explearn_study.annotate.llm.endpoint import API_KEY, BASE_URL, Endpoint, EndpointError
from explearn_study.annotate.llm.transport import ReplyError, make_client

Message = Mapping[str, str]

OVERHEAD_TOKENS = 64
"""Bound on what a chat template adds to a request, for each message."""

FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
"""Seconds before the first repeat, doubled for each further one up to the second figure."""

PATIENCE = 120.0
"""Seconds without any answer after which a run ends."""

SHOWN_CHARS = 200
"""Most characters of a server's words repeated in an error."""

MAX_ANSWER_CHARS = 20_000
"""What a server writes beyond this is not kept; answers have some hundred characters."""

MOST_TOKENS = 10**9
"""A count of tokens beyond this is none."""

_REFUSALS = (400, 413, 415, 422, 501)
_TRANSIENT = (408, 409, 425, 429)


class RefusedError(ExplearnError):
    """The server will not answer this one request; `words` are its own, in full."""

    def __init__(self, message: str, words: str) -> None:
        super().__init__(message)
        self.words = words


class NoAnswerError(ExplearnError):
    """No answer after all repeats: time-outs, errors of the server, a broken connection."""


class UnreachableError(NoAnswerError):
    """The server does not answer at all: nobody listens, or it has been silent for too long. It ends the run."""


class _TransientError(Exception):
    """A failure that may pass. `refused`: no connection came about at all."""

    def __init__(self, reason: str, retry_after: float | None = None, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.retry_after, self.refused = retry_after, refused


@dataclass(frozen=True, slots=True)
class Form:
    """How a request is put."""

    structure: Literal["json_schema", "json_object", "prompt"] = "json_schema"
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: bool = True

    def after(self, refusal: str) -> Form | None:
        """The form to try after a refusal in these words; None when none is left."""
        if self.limit == "max_tokens" and "max_tokens" in refusal and "max_completion_tokens" in refusal:
            return replace(self, limit="max_completion_tokens")
        if self.temperature and "temperature" in refusal:
            return replace(self, temperature=False)
        following: dict[str, Literal["json_object", "prompt"]] = {"json_schema": "json_object", "json_object": "prompt"}
        return replace(self, structure=following[self.structure]) if self.structure in following else None

    def options(self, schema: Mapping[str, Any], max_tokens: int, temperature: float) -> dict[str, Any]:
        options: dict[str, Any] = {self.limit: max_tokens}
        if self.temperature:
            options["temperature"] = temperature
        if self.structure == "json_schema":
            named = {"name": "rationale", "strict": True, "schema": schema}
            options["response_format"] = {"type": "json_schema", "json_schema": named}
        elif self.structure == "json_object":
            options["response_format"] = {"type": "json_object"}
        return options


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model wrote, why it stopped, and the requests and tokens that took, repeats included."""

    content: str
    finish: str
    spent: Spent


class ChatClient:
    """One model of one server; an async context manager.

    Args:
        endpoint: the server.
        model: name of the model there.
        meter: counts and bounds what is spent; shared by the clients of a run.
        timeout: seconds for one request.
        attempts: most requests for one answer.
        patience: seconds in which no request at all is answered, repeats and pauses included, after which all give up;
            at least `timeout`.

    Repeats wait 0.5 s, 1 s, 2 s, ... with up to as much again at random, or as long as Retry-After says; that pause
    holds for every request to the model.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        meter: Meter,
        *,
        timeout: float = 60.0,
        attempts: int = 6,
        patience: float = PATIENCE,
    ) -> None:
        self.endpoint, self.model, self.meter = endpoint, model, meter
        self.timeout, self.attempts, self.patience = timeout, attempts, max(patience, timeout)
        self.form = Form()
        self._settled = False
        self._negotiation = asyncio.Lock()
        self._resume_at = 0.0
        self._under_way = 0
        self._silent_since: float | None = None  # monotonic; None where nothing is asked for and nothing failed
        self._reached = False
        # The library's own retries know neither the budget nor the other requests; "-" where no key is needed.
        self._client = openai.AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.key.get_secret_value() or "-",
            timeout=timeout,
            max_retries=0,
            http_client=make_client(endpoint, timeout),
        )
        # Taken from OPENAI_* variables, which are for another server.
        self._client.organization = self._client.project = None

    async def __aenter__(self) -> ChatClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    async def complete(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, max_tokens: int, temperature: float
    ) -> Completion:
        """Ask once, with repeats where the server fails for the moment.

        Raises:
            EndpointError: address, key or model are wrong.
            RefusedError: the server refuses this request in every form.
            NoAnswerError: nothing usable after `attempts` requests.
            UnreachableError: nobody listens at the address, or no request was answered for `patience` seconds.
            BudgetError: the budget does not cover the next request.
        No error shows the key, nor has the library's exception, which carries it, as its cause.
        """
        self._under_way += 1
        self._silent_since = self._silent_since or time.monotonic()
        try:
            return await self._negotiated(messages, schema, max_tokens, temperature)
        finally:
            self._under_way -= 1

    async def _negotiated(
        self, messages: Sequence[Message], schema: Mapping[str, Any], max_tokens: int, temperature: float
    ) -> Completion:
        if self._settled:
            return await self._complete(self.form, messages, schema, max_tokens, temperature)
        async with self._negotiation:
            form: Form | None = self.form
            while form is not None and not self._settled:
                try:
                    found = await self._complete(form, messages, schema, max_tokens, temperature)
                except RefusedError as error:
                    form = form.after(error.words)
                    if form is None:
                        raise
                else:
                    self.form, self._settled = form, True
                    return found
        return await self._complete(self.form, messages, schema, max_tokens, temperature)

    @property
    def settled(self) -> bool:
        """Whether the server has accepted a request."""
        return self._settled

    async def _complete(
        self, form: Form, messages: Sequence[Message], schema: Mapping[str, Any], max_tokens: int, temperature: float
    ) -> Completion:
        options = form.options(schema, max_tokens, temperature)
        worst_input = worst_input_tokens(messages, schema)
        spent = Spent()
        retrying = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(self.attempts),
            wait=self._wait,
            retry=tenacity.retry_if_exception(self._may_pass),
            reraise=True,
        )
        try:
            async for attempt in retrying:
                with attempt:
                    await self._pause()
                    if self._left() <= 0:
                        raise _TransientError("timed out")
                    return await self._request(messages, options, worst_input, max_tokens, spent)
        except _TransientError as error:
            raise self._no_answer(error) from None
        raise AssertionError("tenacity ends with a result or an exception")

    def _may_pass(self, error: BaseException) -> bool:
        """Whether to ask again: not where nobody has ever listened, nor when patience is at its end."""
        if not isinstance(error, _TransientError):
            return False
        return self._left() > 0 and (self._reached or not error.refused)

    def _no_answer(self, error: _TransientError) -> NoAnswerError:
        if error.refused:
            where = self._shown(self.endpoint.base_url)
            return UnreachableError(
                f"model {self.model!r}: nobody answers at {where} ({error}); start the server or check {BASE_URL} and "
                "run again: what was answered is kept"
            )
        if self._left() <= 0:
            return UnreachableError(
                f"model {self.model!r}: the server has answered nothing for {self.patience:,.0f} s ({error}); check "
                f"the server, or raise --patience, and run again: what was answered is kept"
            )
        times = "once" if self.attempts == 1 else f"{self.attempts} times"
        return NoAnswerError(f"model {self.model!r}: no answer, asked {times} ({error})")

    def _left(self) -> float:
        """Seconds for which a request may still wait."""
        silent = 0.0 if self._silent_since is None else time.monotonic() - self._silent_since
        return self.patience - silent

    def _heard(self) -> None:
        """The server has answered: its silence begins anew, if it is still being waited for."""
        self._reached = True
        self._silent_since = time.monotonic() if self._under_way > 1 else None

    def _wait(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, _TransientError) and error.retry_after is not None:
            return 0.0  # the pause for all requests to the model covers it
        base = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (state.attempt_number - 1))
        return max(0.0, min(base + random.uniform(0.0, base), self._left()))

    async def _pause(self) -> None:
        while (left := self._resume_at - time.monotonic()) > 0:
            await asyncio.sleep(left + random.uniform(0.0, min(1.0, 0.1 * left)))

    async def _request(
        self, messages: Sequence[Message], options: dict[str, Any], worst_input: int, max_tokens: int, spent: Spent
    ) -> Completion:
        worst = await self.meter.reserve(self.model, worst_input, max_tokens)
        actual = worst
        failure: Exception | None = None
        try:
            # What `chat.completions.create` comes to, less a walk through its typed parameters, which takes as long as
            # sending them.
            body = {"model": self.model, "messages": messages, **options}
            # The library's own bound starts anew with every piece that a slow server sends.
            async with asyncio.timeout(min(self.timeout, self._left())):
                reply = await self._client.post("/chat/completions", cast_to=ChatCompletion, body=body)
            content, finish, used = _read_reply(reply)
            self._heard()
            if used is not None:
                actual = Spent(1, *used, self.meter.cost(self.model, *used))
        except (openai.APITimeoutError, TimeoutError):
            failure = _TransientError("timed out")
        except EndpointError as error:
            actual, failure = Spent(1), EndpointError(f"model {self.model!r}: {error}")
        except ReplyError as error:
            failure = _TransientError(self._shown(str(error)))
        except openai.APIStatusError as error:
            actual, failure = Spent(1), self._failure(error)
        except openai.OpenAIError as error:
            # What stands behind a broken connection says more than "Connection error."
            refused = isinstance(error.__cause__, httpx2.ConnectError)
            failure = _TransientError(self._shown(str(error.__cause__ or error)), refused=refused)
        except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
            failure = _TransientError(f"not the protocol's reply: {self._shown(str(error))}")
        finally:
            await self.meter.settle(worst, actual)
            spent.add(actual)
        if failure is not None:
            raise failure
        # Halves of characters, which a server may send, cannot be written.
        clean = self.endpoint.redact(content)[:MAX_ANSWER_CHARS].encode("utf-8", "replace").decode()
        return Completion(clean, finish, spent)

    def _failure(self, error: openai.APIStatusError) -> Exception:
        status = error.status_code
        self._reached = True
        said = self.endpoint.redact(_server_words(error))
        words = self._shown(said)
        if status in _REFUSALS:
            self._heard()
            return RefusedError(f"model {self.model!r}: HTTP {status}, {words}", said)
        if status == 429 and error.code == "insufficient_quota":
            return EndpointError(f"model {self.model!r}: the account has no quota left ({words})")
        if status in _TRANSIENT or status >= 500:
            retry_after = _retry_after(error.response.headers)
            if retry_after is not None and retry_after > self._left():
                return EndpointError(
                    f"model {self.model!r}: the server asks for a pause of {retry_after:,.0f} s; "
                    "run again after it, or raise --patience: what was answered is kept"
                )
            if retry_after is not None:
                self._resume_at = max(self._resume_at, time.monotonic() + retry_after)
            return _TransientError(f"HTTP {status}, {words}", retry_after)
        hint = {401: f"; check {API_KEY}", 403: f"; check {API_KEY}", 404: f"; check {BASE_URL} and the model's name"}
        return EndpointError(f"model {self.model!r}: HTTP {status}, {words}{hint.get(status, '')}")

    def _shown(self, words: str) -> str:
        line = visible(" ".join(self.endpoint.redact(words).split())) or "without a reason"
        return line if len(line) <= SHOWN_CHARS else f"{line[:SHOWN_CHARS]}..."


def worst_input_tokens(messages: Sequence[Message], schema: Mapping[str, Any]) -> int:
    """Bound on the tokens of a request: its bytes, the schema's (a server may show it to the model), a template's."""
    sent = sum(len(message["content"].encode("utf-8", "replace")) + OVERHEAD_TOKENS for message in messages)
    return sent + len(json.dumps(schema))


def _read_reply(reply: Any) -> tuple[str, str, tuple[int, int] | None]:
    """Content, finish reason, and (input, output) tokens where the server counts them."""
    choices = getattr(reply, "choices", None)
    if not choices or choices[0].message is None:
        raise ValueError("no choices")
    content = choices[0].message.content
    if content is not None and not isinstance(content, str):
        raise ValueError(f"content of type {type(content).__name__}")
    usage = getattr(reply, "usage", None)
    counts = (getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None))
    known = all(isinstance(count, int) and 0 <= count <= MOST_TOKENS for count in counts)
    used = (int(counts[0] or 0), int(counts[1] or 0)) if known else None
    return content or "", str(choices[0].finish_reason or "stop"), used


def _server_words(error: openai.APIStatusError) -> str:
    """The server's own sentence: the field `message` of its error, or what there is."""
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        body = inner.get("message", inner) if isinstance(inner, dict) else inner
    return str(body) if body else error.message


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that Retry-After asks for, as a number or a date; None where it is missing or says nothing."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError):
            return None
    return max(0.0, seconds) if seconds == seconds else None

"""Asking the models of an OpenAI-compatible server, in a format that it accepts.

Retries, pauses and time-outs are the openai library's. Servers differ in what they accept: the first request has the
richest format; a refusal (HTTP 400, 413, 415, 422 or 501) leads to the next format, and the first accepted format is
used for the model for the rest of the run:

1. a refusal that mentions `max_completion_tokens`: the limit is sent as that from then on;
2. one that mentions `temperature`: it is left out, and the server's default is used;
3. one that mentions `logprobs`: fewer of them are asked for, as many as it allows; in the end none;
4. any other: the answer's structure is requested by `response_format` json_schema, then json_object, then only by the
   prompt.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import httpx2
import openai

from explearn.core.errors import ExplearnError
from explearn.predictors.llm.budget import Meter
from explearn.predictors.llm.endpoint import (
    API_KEY,
    BASE_URL,
    Endpoint,
    EndpointError,
    NoAnswerError,
    RefusedError,
)
from explearn.predictors.llm.server.transport import REPLY, SPENT, MeteredTransport, TokenPosition
from explearn.predictors.llm.store import Spent

Message = Mapping[str, str]

ATTEMPTS = 6
"""Most requests for one answer if the server fails temporarily."""
SHOWN_CHARS = 200
"""Most characters of a server's message repeated in an error."""

MAX_ANSWER_CHARS = 20_000
"""Most characters of an answer that are kept; answers usually have some hundred."""

REFUSALS = (400, 403, 413, 415, 422, 451, 501)
FINAL = (403, 451)
"""Refusals that no other format of the request changes."""

FEW_LOGPROBS = 5
"""Number of likeliest tokens that servers allow which do not say how many they allow."""

TRANSIENT = (408, 409, 425, 429)

HINTS = {401: f"; check {API_KEY}", 403: f"; check {API_KEY}", 404: f"; check {BASE_URL} and the model's name"}
REDIRECTED = f"; redirects are not followed: set {BASE_URL} to the address that answers, if you trust it"


@dataclass(frozen=True, slots=True)
class RequestFormat:
    """The format of a request."""

    structure: Literal["json_schema", "json_object", "prompt"] = "json_schema"
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: bool = True
    most_logprobs: int = 100

    def after(self, refusal: str, top_logprobs: int) -> RequestFormat | None:
        """Return the format to try after a refusal; None if none is left.

        Args:
            refusal: the server's message.
            top_logprobs: number of likeliest tokens that was asked for.
        """
        if self.limit == "max_tokens" and "max_completion_tokens" in refusal:
            return replace(self, limit="max_completion_tokens")
        if self.temperature and "temperature" in refusal:
            return replace(self, temperature=False)
        if self.most_logprobs and "logprobs" in refusal:
            asked = min(top_logprobs, self.most_logprobs)
            allowed = [int(number) for number in re.findall(r"\b\d{1,3}\b", refusal)]
            if "top_logprobs" in refusal and not any(0 < number < asked for number in allowed):
                allowed.append(FEW_LOGPROBS)
            return replace(self, most_logprobs=max((number for number in allowed if number < asked), default=0))
        if self.structure == "json_schema":
            return replace(self, structure="json_object")
        if self.structure == "json_object":
            return replace(self, structure="prompt")
        return None

    def options(
        self, schema: Mapping[str, Any], max_tokens: int, temperature: float, top_logprobs: int = 0
    ) -> dict[str, Any]:
        """Return the arguments of a request in this format; `ChatClient.complete` describes them."""
        options: dict[str, Any] = {self.limit: max_tokens}
        if top_logprobs and self.most_logprobs:
            options["logprobs"] = True
            options["top_logprobs"] = min(top_logprobs, self.most_logprobs)
        if self.temperature:
            options["temperature"] = temperature
        if not schema:
            return options
        if self.structure == "json_schema":
            named = {"name": "rationale", "strict": True, "schema": schema}
            options["response_format"] = {"type": "json_schema", "json_schema": named}
        elif self.structure == "json_object":
            options["response_format"] = {"type": "json_object"}
        return options


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """A model's output, why it stopped, the number of requests, and the tokens of the last one.

    Attributes:
        content: the output.
        finish: why it stopped.
        spent: the number of requests, and the tokens of the last one.
        positions: the likeliest tokens at each position of the output; none if they cannot be read; None if the server
            gives none.
    """

    content: str
    finish: str
    spent: Spent
    positions: Sequence[TokenPosition] | None = None


class ChatClient:
    """One server; an async context manager.

    Args:
        endpoint: the server.
        meter: counts and limits what is spent.
        accepted: model -> the format that it has accepted, from an earlier client of the same server.

    Attributes:
        endpoint: the server.
        accepted: model that has answered a request -> the format of the request.
    """

    def __init__(self, endpoint: Endpoint, meter: Meter, accepted: dict[str, RequestFormat] | None = None) -> None:
        self.endpoint = endpoint
        self.accepted = {} if accepted is None else accepted
        self._formats = dict(self.accepted)
        # These loggers write headers, in which a server may send the key back.
        for library in ("openai", "httpx2", "httpcore2"):
            logging.getLogger(library).setLevel(logging.WARNING)
        self._client = openai.AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.key.get_secret_value() or "-",  # "-" where none is needed
            timeout=endpoint.timeout,
            max_retries=ATTEMPTS - 1,
            http_client=httpx2.AsyncClient(
                transport=MeteredTransport(endpoint, meter),
                trust_env=False,
                follow_redirects=False,
                timeout=endpoint.timeout,
            ),
        )
        # Otherwise taken from OPENAI_* variables, which are for another server.
        self._client.organization = self._client.project = None

    async def __aenter__(self) -> ChatClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.close()

    async def complete(
        self,
        model: str,
        messages: Sequence[Message],
        schema: Mapping[str, Any],
        *,
        max_tokens: int,
        temperature: float,
        top_logprobs: int = 0,
    ) -> ChatAnswer:
        """Ask once, with retries if the server fails temporarily.

        No error shows the key, nor has the library's exception, which contains it, as its cause.

        Args:
            model: name of the model.
            messages: the messages.
            schema: JSON schema of the answer; empty: the answer is free text.
            max_tokens: longest answer, in tokens.
            temperature: temperature of sampling.
            top_logprobs: number of tokens whose log-probabilities are asked for at each position; not every server
                gives them.

        Raises:
            EndpointError: address, key or model are wrong, or no server is listening.
            RefusedError: the server refuses this request in every format.
            NoAnswerError: nothing usable after ATTEMPTS requests.
            BudgetError: the budget does not cover the next request.
        """
        create: Any = self._client.chat.completions.with_raw_response.create
        while True:
            sent = self._formats.setdefault(model, RequestFormat("json_schema" if schema else "prompt"))
            options = sent.options(schema, max_tokens, temperature, top_logprobs)
            try:
                answer = await create(model=model, messages=messages, **options)
            except openai.APIStatusError as error:
                words = self.endpoint.redact(_message(error))
                if error.status_code not in REFUSALS:
                    raise self._failure(model, error, words) from None
                if sent == self._formats[model]:  # otherwise another request has already been refused
                    following = None
                    if model not in self.accepted and error.status_code not in FINAL:
                        following = sent.after(words, top_logprobs)
                    if following is None:
                        raise RefusedError(self._status(model, error, words)) from None
                    self._formats[model] = following
            except openai.OpenAIError as error:
                # The cause of a broken connection says more than "Connection error."
                reason = self._shown(str(error.__cause__ or error))
                if isinstance(error, openai.APITimeoutError):
                    reason = "timed out"
                raise self._no_answer(model, reason) from None
            else:
                if model not in self.accepted:
                    self.accepted[model] = sent
                    self._formats[model] = sent
                extensions = answer.http_response.extensions
                choice = extensions[REPLY].choices[0]
                content = self.endpoint.redact(choice.message.content or "")[:MAX_ANSWER_CHARS]
                spent = replace(extensions[SPENT], requests=answer.retries_taken + 1)
                return ChatAnswer(content, choice.finish_reason or "stop", spent, choice.positions)

    def _failure(self, model: str, error: openai.APIStatusError, words: str) -> ExplearnError:
        status = error.status_code
        shown = self._shown(words)
        if status == 429 and error.code == "insufficient_quota":
            return EndpointError(f"model {model!r}: the account has no quota left ({shown})")
        if status in TRANSIENT or status >= 500:
            pause = error.response.headers.get("retry-after")
            if pause:
                shown += f"; it asks for a pause of {self._shown(pause)} s"
            return self._no_answer(model, f"HTTP {status}, {shown}")
        if 300 <= status < 400:
            where = self._shown(error.response.headers.get("location", "nowhere"))
            return EndpointError(f"model {model!r}: HTTP {status}, sent on to {where}{REDIRECTED}")
        return EndpointError(self._status(model, error, words))

    def _status(self, model: str, error: openai.APIStatusError, words: str) -> str:
        hint = HINTS.get(error.status_code, "")
        return f"model {model!r}: HTTP {error.status_code}, {self._shown(words)}{hint}"

    def _no_answer(self, model: str, reason: str) -> NoAnswerError:
        return NoAnswerError(f"model {model!r}: no answer, asked {ATTEMPTS} times ({reason})")

    def _shown(self, words: str) -> str:
        line = " ".join(self.endpoint.redact(words).split()) or "without a reason"
        if len(line) > SHOWN_CHARS:
            line = f"{line[:SHOWN_CHARS]}..."
        return line


def _message(error: openai.APIStatusError) -> str:
    """Return the server's message: the field `message` of its error, or the whole error."""
    body = error.body
    if isinstance(body, dict):
        body = body.get("message", body)
    return str(body or error.message)

"""HTTP transport to the language model's server, within the budget and with limited replies.

Every request of the openai library passes through it, including retries.
"""

from __future__ import annotations

import asyncio
import builtins
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import httpx2
import openai
from pydantic import BeforeValidator, Field

from explearn.core.validation import Shape
from explearn.predictors.llm.budget import Meter
from explearn.predictors.llm.endpoint import BASE_URL, Endpoint, EndpointError
from explearn.predictors.llm.store import Spent

OVERHEAD_TOKENS = 64
"""Most tokens that a chat template adds per message."""

MAX_REPLY_BYTES = 4 * 2**20
"""Largest reply accepted. Replies usually have a few kilobytes."""

REPLY = "explearn_reply"
"""Extension of a response: the reply as checked."""
SPENT = "explearn_spent"
"""Extension of a response: what the request took."""


ESCAPED_BYTE = re.compile(r"(?:\\x|<0x)([0-9A-Fa-f]{2})>?")
ESCAPED = re.compile(rf"(?:bytes:)?(?:{ESCAPED_BYTE.pattern})+")
"""A token that is part of a character, as servers write it: `bytes:\\xe5\\xa5`, `<0xE5>`."""


def _mended(text: Any) -> Any:
    """Replace lone surrogates, which a server may send but no file can hold."""
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else text


class _Message(Shape):
    content: Annotated[str | None, BeforeValidator(_mended)] = None


class TokenLogprob(Shape):
    """A token with the natural logarithm of its probability; `bytes` are null where the server does not give them."""

    token: str
    logprob: Annotated[float, Field(le=0.001)]
    bytes: list[Annotated[int, Field(ge=0, le=255)]] | None = None

    @property
    def piece(self) -> builtins.bytes:
        """Its UTF-8, which may be a part of a character."""
        if self.bytes is not None:
            return builtins.bytes(self.bytes)
        if ESCAPED.fullmatch(self.token):
            return builtins.bytes.fromhex("".join(ESCAPED_BYTE.findall(self.token)))
        return self.token.encode("utf-8", "replace")


class TokenPosition(TokenLogprob):
    """A token of the output, and the likeliest ones in its place."""

    top_logprobs: list[TokenLogprob] | None = None

    def likeliest(self) -> list[tuple[builtins.bytes, float]]:
        """Return the likeliest tokens and their probabilities, that of the output first."""
        listed = [(token.piece, math.exp(min(0.0, token.logprob))) for token in [self, *(self.top_logprobs or ())]]
        pieces = [piece for piece, _ in listed[1:]]
        if self.piece in pieces:
            del listed[1 + pieces.index(self.piece)]
        return listed


class Logprobs(Shape):
    """Log-probabilities of an answer."""

    content: list[TokenPosition]


class _Choice(Shape):
    message: _Message
    logprobs: Logprobs | Any = None  # invalid ones do not invalidate the answer
    finish_reason: str | None = None

    @property
    def positions(self) -> Sequence[TokenPosition] | None:
        """The likeliest tokens at each position; none if they cannot be read; None if the server gives none."""
        if isinstance(self.logprobs, Logprobs):
            listed = self.logprobs.content
            # Without any, the server knows only of the tokens that it took.
            return None if listed and not any(position.top_logprobs for position in listed) else listed
        if isinstance(self.logprobs, dict) and self.logprobs.get("content") is not None:
            return ()
        return None


class _Usage(Shape):
    prompt_tokens: Annotated[int, Field(ge=0, le=10**9)]
    completion_tokens: Annotated[int, Field(ge=0, le=10**9)]


class ChatReply(Shape):
    """The fields of a chat-completions reply that are used."""

    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: _Usage | Any = None  # an invalid token count does not invalidate the answer


class MeteredTransport(httpx2.AsyncHTTPTransport):
    """A transport that sends a request once the budget covers its worst case, and returns the whole reply.

    Its errors are BudgetError, EndpointError if no server is listening, and errors of httpx2, on which the openai
    library retries: for a reply that takes too long, is too large or violates the protocol.
    """

    def __init__(self, endpoint: Endpoint, meter: Meter) -> None:
        # trust_env only affects certificates here (SSL_CERT_FILE, SSL_CERT_DIR).
        super().__init__(
            trust_env=True, proxy=endpoint.proxy.get_secret_value() or None, limits=openai.DEFAULT_CONNECTION_LIMITS
        )
        self.endpoint = endpoint
        self.meter = meter
        self._reached = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        model = body["model"]
        longest = body.get("max_tokens") or body["max_completion_tokens"]
        worst_input = worst_input_tokens(body["messages"], body.get("response_format"))
        worst = await self.meter.reserve(model, worst_input, longest)
        spent = worst  # the cost of a request without an answer is unknown
        request.headers["accept-encoding"] = "identity"
        extensions: dict[str, Any] = {}
        try:
            # httpx2's time-out restarts with every chunk that a slow server sends.
            async with asyncio.timeout(self.endpoint.timeout):
                response = await super().handle_async_request(request)
                self._reached = True
                content = await _read(response, request)
            if response.is_success:
                try:
                    extensions[REPLY] = reply = ChatReply.model_validate(json.loads(content))
                except (ValueError, RecursionError):  # whose message may repeat what the server sent
                    raise httpx2.RemoteProtocolError("a reply that violates the protocol", request=request) from None
                if isinstance(reply.usage, _Usage):
                    read = reply.usage.prompt_tokens
                    written = reply.usage.completion_tokens
                    spent = Spent(1, read, written, self.meter.cost(model, read, written))
            else:
                spent = Spent(1)
        except TimeoutError:
            raise httpx2.ReadTimeout("timed out", request=request) from None
        except httpx2.ConnectError as error:
            if self._reached:
                raise
            raise EndpointError(
                f"no server answers at {self.endpoint.redact(self.endpoint.base_url)} ({error}); start the server or "
                f"check {BASE_URL}"
            ) from None
        finally:
            await self.meter.settle(worst, spent)
        extensions[SPENT] = spent
        headers = [(key, value) for key, value in response.headers.raw if key.lower() != b"content-length"]
        return httpx2.Response(
            response.status_code, headers=headers, content=content, extensions=extensions, request=request
        )


def worst_input_tokens(messages: Sequence[Mapping[str, str]], structure: object) -> int:
    """Return an upper bound on a request's tokens: its bytes (no tokenizer makes more) and what a template adds.

    Args:
        messages: the messages.
        structure: the requested structure of the answer, which a server may show to the model.
    """
    sent = json.dumps([messages, structure], ensure_ascii=False).encode("utf-8", "replace")
    return len(sent) + OVERHEAD_TOKENS * len(messages)


async def _read(response: httpx2.Response, request: httpx2.Request) -> bytes:
    """Return the body, never holding more than the limit in memory."""
    content = b""
    try:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.RemoteProtocolError("a compressed reply; expected a plain one", request=request)
        async for piece in response.aiter_raw():
            content += piece
            if len(content) > MAX_REPLY_BYTES:
                raise httpx2.RemoteProtocolError(f"a reply of more than {MAX_REPLY_BYTES:,} bytes", request=request)
    finally:
        await response.aclose()
    return content

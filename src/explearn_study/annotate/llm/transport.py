"""How requests reach the language model's server: no redirects, no proxy but the one named, and bounded replies.

What an HTTP library does by default would send texts and the key elsewhere: it takes proxies from HTTP_PROXY, passwords
from .netrc, and unpacks whatever a server sends, however large it becomes.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import httpx2

from explearn.core.documents import MAX_DEPTH, parse_json
from explearn.core.errors import DataError
from explearn_study.annotate.llm.endpoint import BASE_URL, Endpoint, EndpointError

MAX_REPLY_BYTES = 4 * 2**20
"""Largest reply, unpacked. Answers have some hundred characters, replies a few kilobytes."""

CONNECTIONS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
"""As the openai library sets them."""

_PACKINGS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
"""Content-Encoding -> zlib's window bits."""

_ACCEPTED = "gzip, deflate"


class ReplyError(DataError):
    """A reply that is too large, packed in an unknown way, damaged, or nested too deeply."""


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Sends each request to its server, and gives the whole reply or an error.

    Raises EndpointError for a redirect, naming the host it leads to, and ReplyError.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, endpoint: Endpoint) -> None:
        self.inner, self.endpoint = inner, endpoint

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = _ACCEPTED
        reply = await self.inner.handle_async_request(request)
        try:
            if 300 <= reply.status_code < 400:
                raise EndpointError(_redirected(reply.headers.get("location", ""), self.endpoint))
            body = await _bounded(reply)
        finally:
            await reply.aclose()
        headers = [(k, v) for k, v in reply.headers.raw if k.lower() not in (b"content-encoding", b"content-length")]
        return httpx2.Response(reply.status_code, headers=headers, content=body, request=request)

    async def aclose(self) -> None:
        await self.inner.aclose()


def make_client(endpoint: Endpoint, timeout: float) -> httpx2.AsyncClient:
    """An HTTP client for one server."""
    # trust_env is for certificates alone here (SSL_CERT_FILE, SSL_CERT_DIR): with a transport of its own, the client
    # takes no proxy from the environment.
    inner = httpx2.AsyncHTTPTransport(trust_env=True, proxy=endpoint.proxy_url, limits=CONNECTIONS)
    return httpx2.AsyncClient(
        transport=BoundedTransport(inner, endpoint), trust_env=False, follow_redirects=False, timeout=timeout
    )


def _redirected(location: str, endpoint: Endpoint) -> str:
    try:
        host = urlsplit(location).hostname or "another path of its own"
    except ValueError:
        host = "an address that cannot be read"
    return (
        f"the server sends requests on to {endpoint.redact(host)[:100]}; redirects are not followed: set {BASE_URL} to "
        "the address that answers, if you trust it"
    )


async def _bounded(reply: httpx2.Response) -> bytes:
    """The body, unpacked piece by piece, so that no more than the bound is ever in memory."""
    packing = reply.headers.get("content-encoding", "identity").strip().lower() or "identity"
    if packing != "identity" and packing not in _PACKINGS:
        raise ReplyError(f"a reply packed as {packing[:40]!r}; expected one of {_ACCEPTED}, or none")
    stream = reply.stream
    assert isinstance(stream, httpx2.AsyncByteStream)
    body = b""
    pieces = stream.__aiter__() if packing == "identity" else _unpacked(stream, _PACKINGS[packing])
    async for piece in pieces:
        body += piece
        if len(body) > MAX_REPLY_BYTES:
            raise ReplyError(f"a reply of more than {MAX_REPLY_BYTES:,} bytes; expected at most that")
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        try:
            parse_json(body)
        except ValueError as error:
            if "not valid JSON" not in str(error):  # what is no JSON is the protocol's to judge
                raise ReplyError(f"a reply that cannot be read ({error})") from None
    return body


async def _unpacked(stream: httpx2.AsyncByteStream, window: int) -> AsyncIterator[bytes]:
    unpacker = zlib.decompressobj(window)
    try:
        async for piece in stream:
            while piece:
                yield unpacker.decompress(piece, MAX_REPLY_BYTES + 1)
                piece = unpacker.unconsumed_tail
        yield unpacker.flush()
    except zlib.error as error:
        raise ReplyError(f"a damaged reply ({error})") from None

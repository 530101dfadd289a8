"""What stands before the application: bounds on bodies, on clients and on the work taken at once."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import OrderedDict
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from explearn.core.visible import visible
from explearn_apps.serve.limits import Limits
from explearn_apps.serve.metrics import Metrics
from explearn_apps.serve.refusals import JSON, RefusedError, busy

FORM = "application/x-www-form-urlencoded"

SECURITY_HEADERS = {
    # Styles in attributes are the strengths of words, numbers of our own.
    "content-security-policy": "default-src 'none'; style-src 'self'; style-src-attr 'unsafe-inline'; "
    "script-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

ALWAYS = frozenset({"/health", "/ready"})
"""Answered however busy the service is."""

CLIENTS = 10_000
"""Clients whose allowance is remembered; the one not seen for longest is forgotten first, and starts anew."""


class Allowance:
    """Token buckets: how many texts each client may still have explained.

    A bucket fills by `rate` a second up to `burst`. A request is let through while there is something in it, and may
    leave it in debt, so that one large request is never too large.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # client -> (tokens, when)

    def take(self, client: str, cost: float, now: float) -> float:
        """Take from a client's bucket. Returns 0, or where it is empty the seconds until it no longer is."""
        if self._rate <= 0:
            return 0.0
        tokens, seen = self._left.pop(client, (float(self._burst), now))
        tokens = min(self._burst, tokens + (now - seen) * self._rate)
        allowed = tokens > 0
        self._left[client] = (tokens - cost if allowed else tokens, now)
        if len(self._left) > CLIENTS:
            self._left.popitem(last=False)
        return 0.0 if allowed else (1 - tokens) / self._rate

    def charge(self, client: str, cost: float) -> None:
        """Take what a request that was let through turned out to cost beyond."""
        if client in self._left:
            tokens, seen = self._left[client]
            self._left[client] = (tokens - cost, seen)


def client_of(scope: Scope) -> str:
    """Whom a request comes from: an IPv4 address, or the /64 network of an IPv6 address, which one customer has."""
    found = scope.get("client")
    name = str(found[0]) if found else ""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return name


class Guard:
    """ASGI middleware: refuses what is too large, too slow, too much or of another kind, before the application.

    A body is counted while it arrives, and refused as soon as it is too large. What the application reads is whole.

    Args:
        app: what answers.
        limits, metrics: of the service.
        hosts: names that requests may give as their Host; None: any. On a loopback address it keeps out pages of other
            sites whose name was made to lead here.
        paths: of the application, for the metrics.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        metrics: Metrics,
        allowance: Allowance,
        hosts: Collection[str] | None,
        paths: Collection[str],
    ) -> None:
        self._app, self._limits, self._metrics, self._allowance = app, limits, metrics, allowance
        self._hosts = None if hosts is None else frozenset(hosts)
        self._paths = frozenset(paths)
        self.in_work = 0
        metrics.in_work.set_function(lambda: self.in_work)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        loop = asyncio.get_running_loop()
        start, status = loop.time(), 0
        path = scope["path"] if scope["path"] in self._paths else "other"

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        self.in_work += 1
        try:
            await self._admit(scope, receive, answer)
        except RefusedError as refusal:
            self._metrics.refused.labels(refusal.reason).inc()
            await refusal.response(close=True)(scope, receive, answer)
        except Exception:
            # The answer to a fault is given outside of this.
            status = status or 500
            raise
        finally:
            self.in_work -= 1
            if status:
                self._metrics.requests.labels(path, str(status)).inc()
                self._metrics.seconds.labels(path).observe(loop.time() - start)
            else:
                self._metrics.aborted.inc()

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer. Raises RefusedError for a request that it is not to see."""
        headers = Headers(scope=scope)
        if scope["path"] not in ALWAYS:
            wait = self._allowance.take(client_of(scope), 1, asyncio.get_running_loop().time())
            if wait > 0:
                raise busy(f"more than {self._limits.rate:g} texts or requests a second; try again later", "rate", wait)
            if self.in_work > self._limits.requests:
                raise busy(f"{self._limits.requests} requests are in work already; try again in a moment")
        address = len(scope.get("raw_path") or scope["path"].encode()) + len(scope["query_string"])
        if address > self._limits.head_bytes:
            raise RefusedError(414, "size", f"address: expected at most {self._limits.head_bytes:,} bytes")
        if sum(len(name) + len(value) for name, value in headers.raw) > self._limits.head_bytes:
            raise RefusedError(431, "size", f"headers: expected at most {self._limits.head_bytes:,} bytes")
        self._check_host(headers)
        self._check_kind(scope, headers)
        body = await self._body(headers, receive)
        if body is None:
            return
        given = False

        async def replay() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)

    def _check_host(self, headers: Headers) -> None:
        if self._hosts is None:
            return
        host = headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if name.lower() not in self._hosts:
            raise RefusedError(
                400, "host", f"Host: got {visible(host)[:100]!r}; expected {' or '.join(sorted(self._hosts))}"
            )

    def _check_kind(self, scope: Scope, headers: Headers) -> None:
        if scope["method"] != "POST" or scope["path"] not in self._paths:
            return
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise RefusedError(403, "site", "sent by a page of another site; expected the service's own")
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise RefusedError(415, "kind", "Content-Encoding: got a compressed body; expected one that is not")
        expected = FORM if scope["path"] == "/" else JSON
        got = headers.get("content-type", "").partition(";")[0].strip().lower()
        if got != expected:
            raise RefusedError(415, "kind", f"Content-Type: got {visible(got)[:100]!r}; expected {expected}")

    async def _body(self, headers: Headers, receive: Receive) -> bytes | None:
        """The whole body, None where the client goes away before its end."""
        most = self._limits.body_bytes
        too_large = RefusedError(413, "size", f"body: got more than {most:,} bytes; expected at most that")
        said = headers.get("content-length", "0")
        if not (said.isascii() and said.isdigit()) or len(said) > 18 or int(said) > most:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise too_large
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise RefusedError(
                408, "slow", f"body: got no end of it in {self._limits.body_seconds:g} seconds; expected it faster"
            ) from None

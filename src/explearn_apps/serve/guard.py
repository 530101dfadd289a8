"""Middleware before the application: checks of host, origin, content type and size, and metrics of requests."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from explearn_apps.serve.engine import Metrics
from explearn_apps.serve.limits import MOST_BODY_BYTES, Limits
from explearn_apps.serve.responses import JSON, error_response

logger = logging.getLogger(__name__)

CLOSE = {"connection": "close"}

FORM = "application/x-www-form-urlencoded"

SECURITY_HEADERS = {
    # Style attributes hold only the strengths of words, which are our own numbers.
    "content-security-policy": "default-src 'none'; style-src 'self'; style-src-attr 'unsafe-inline'; "
    "script-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """ASGI middleware that refuses requests that no proper client sends, and limits bodies while they arrive.

    Args:
        app: the application.
        limits: `body_bytes`.
        metrics: counts the requests.
        hosts: allowed Host headers. None: any. On a loopback address this keeps out pages of other sites whose name
            resolves to it (DNS rebinding).
        paths: the application's paths, for the metrics.
        embedders: origins whose pages may show the service in a frame.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        metrics: Metrics,
        hosts: Collection[str] | None,
        paths: Collection[str],
        embedders: Collection[str] = (),
    ) -> None:
        self._app = app
        self._limits = limits
        self._too_large = f"body: got more than {limits.body_bytes:,} bytes; expected no more"
        self._metrics = metrics
        self._hosts = hosts
        self._paths = paths
        ancestors = " ".join(embedders) or "'none'"
        policy = SECURITY_HEADERS["content-security-policy"].replace(
            "frame-ancestors 'none'", f"frame-ancestors {ancestors}"
        )
        self._headers = SECURITY_HEADERS | {"content-security-policy": policy}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        size = 0
        whole = False
        status = 500

        async def read() -> Message:
            nonlocal size, whole
            message = await receive()
            size += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if size > self._limits.body_bytes:
                raise HTTPException(413, self._too_large, CLOSE)
            return message

        async def answer(message: Message) -> None:
            nonlocal status, whole, size
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            elif status >= 400 and not whole:
                # A client may send its whole request before it reads: closed now, the connection would be reset, and
                # the answer lost. What still comes is dropped, until the connection's time is over.
                await send({**message, "more_body": True})
                while not whole and size <= MOST_BODY_BYTES:
                    dropped = await receive()
                    size += len(dropped.get("body", b""))
                    whole = not dropped.get("more_body", False)
                message = {"type": "http.response.body"}
            await send(message)

        with self._metrics.in_work.track_inprogress():
            try:
                await (self._refusal(scope) or self._app)(scope, read, answer)
            finally:
                path = scope["path"]
                if path not in self._paths:
                    path = "other"
                self._metrics.requests.labels(path, str(status)).inc()
                seconds = time.perf_counter() - start
                self._metrics.seconds.labels(path).observe(seconds)
                # Without the query, which may hold a text.
                logger.info("%s %s %d %.3f s", scope["method"], path, status, seconds)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the response to a request that must not reach the application, else None."""
        headers = Headers(scope=scope)
        host = re.sub(r":\d*$", "", headers.get("host", "")).lower()
        if self._hosts is not None and host not in self._hosts:
            return error_response(400, f"Host: got {host[:100]!r}; expected {' or '.join(sorted(self._hosts))}", CLOSE)
        if int(headers.get("content-length", 0)) > self._limits.body_bytes:
            return error_response(413, self._too_large, CLOSE)
        expected = {"/": FORM, "/explain": JSON}.get(scope["path"])
        if scope["method"] != "POST" or expected is None:
            return None  # for other paths the application answers 404 or 405
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return error_response(403, "sent by a page of another site; expected the service's own page", CLOSE)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != expected:
            return error_response(415, f"Content-Type: got {kind[:100]!r}; expected {expected}", CLOSE)
        return None

"""The service on a port: binding, serving, and orderly shutdown."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from explearn.core.errors import ParamsError
from explearn_apps.serve.limits import Limits

if TYPE_CHECKING:
    from starlette.types import ASGIApp


GONE_SECONDS = 0.5
"""Time after which a client that sends no more is found to have gone away."""


class TimedProtocol(H11Protocol):
    """A connection with a time limit. uvicorn itself limits only the time from an answer to the next first byte.

    A whole request must arrive within `limits.seconds` of the connection or of the answer before it. Its answer must be
    made and read within twice that time.

    A client that opens more than `client_connections`, or anyone once there are `connections`, takes the place of the
    oldest of these connections that is without a whole request. If all have one, a request gets status 503.

    Args:
        limits: the limits.
        options: uvicorn's.
    """

    def __init__(self, limits: Limits, **options: Any) -> None:
        super().__init__(**options)
        self.limits = limits
        self.has_request = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.clock = self.loop.call_later(self.limits.seconds, transport.abort)
        others = [other for other in self.connections if isinstance(other, TimedProtocol) and other is not self]
        same_client = [other for other in others if other.address == self.address]
        if len(same_client) >= self.limits.client_connections:
            self._replace_one(same_client)
        elif len(others) >= self.limits.connections:
            self._replace_one(others)

    @property
    def address(self) -> str | None:
        return self.client[0] if self.client else None

    def _replace_one(self, others: Collection[TimedProtocol]) -> None:
        waiting = [other for other in others if not other.has_request]
        if waiting:
            min(waiting, key=lambda other: other.clock.when()).transport.abort()
        else:
            self.limit_concurrency = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.has_request:
            self._check_request()

    def on_response_complete(self) -> None:
        self.has_request = False
        self.clock.cancel()
        self.clock = self.loop.call_later(self.limits.seconds, self.transport.abort)
        super().on_response_complete()
        self._check_request()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection of a client that sends no more but waits for its answer.

        One that has gone altogether looks the same until something is sent to it: 100 (Continue), which clients skip.
        """
        if not self.has_request:
            return False
        self.cycle.keep_alive = False
        self._ask_whether_gone()
        return True

    def _ask_whether_gone(self) -> None:
        if not (self.transport.is_closing() or self.cycle.response_started):
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.loop.call_later(GONE_SECONDS, self._ask_whether_gone)

    def _check_request(self) -> None:
        """Give the answer its time once the whole request is here."""
        if self.conn.their_state in (h11.DONE, h11.MUST_CLOSE):
            self.has_request = True
            self.clock.cancel()
            self.clock = self.loop.call_later(2 * self.limits.seconds, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self.clock.cancel()
        super().connection_lost(exc)


LOCAL = ("127.0.0.1", "localhost", "[::1]")
"""Names of a service on a loopback address."""


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket, so that no other process gets the port while the model is loaded.

    Raises:
        ParamsError: the port is in use or not allowed, or the host is empty or not an address of this machine.
    """
    if not host:
        raise ParamsError("--host: got an empty address; expected one, such as 0.0.0.0 for all networks")
    family = socket.AF_INET
    if ":" in host:
        family = socket.AF_INET6
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ParamsError(
            f"--host {host}, --port {port}: cannot be used ({reason}); expected an address of this machine and a free "
            "port"
        ) from error


def address_of(listening: socket.socket) -> str:
    """Return the service's URL."""
    host, port = listening.getsockname()[:2]
    if ":" in host:
        host = f"[{host}]"
    return f"http://{host}:{port}"


def hosts_of(listening: socket.socket) -> Collection[str] | None:
    """Return the allowed Host names of the service; None for any, if other machines can reach it."""
    host = str(listening.getsockname()[0]).partition("%")[0]
    if not ipaddress.ip_address(host).is_loopback:
        return None
    return {*LOCAL, address_of(listening).removeprefix("http://").rpartition(":")[0]}


def server_of(app: ASGIApp, limits: Limits) -> uvicorn.Server:
    """Return a server for an application."""
    config = uvicorn.Config(
        app,
        http=partial(TimedProtocol, limits),  # type: ignore[arg-type]
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        # Client errors are answered; only faults are logged.
        log_level="error",
        access_log=False,
        # A client's statement of its address is not trusted.
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=max(1, int(limits.seconds)),
    )
    return uvicorn.Server(config)


def serve(app: ASGIApp, listening: socket.socket, limits: Limits) -> None:
    """Serve until SIGINT or SIGTERM. Running requests are answered first, within `limits.seconds`."""
    logging.getLogger("explearn.methods").setLevel(logging.ERROR)
    # uvicorn raises the signal again when it has finished; this makes for an orderly exit.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server_of(app, limits).run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

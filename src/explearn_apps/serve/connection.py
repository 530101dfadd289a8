"""Connections that must send their requests in time, and that make room for others."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from explearn_apps.serve.limits import Limits


class TimedProtocol(H11Protocol):
    """A connection on a clock. uvicorn itself only limits the time between an answer and the first byte after it.

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

    def _check_request(self) -> None:
        """Give the answer its time once the whole request is here."""
        if self.conn.their_state in (h11.DONE, h11.MUST_CLOSE):
            self.has_request = True
            self.clock.cancel()
            self.clock = self.loop.call_later(2 * self.limits.seconds, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self.clock.cancel()
        super().connection_lost(exc)

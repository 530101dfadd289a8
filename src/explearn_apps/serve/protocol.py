"""HTTP/1.1 as uvicorn reads it, with bounds on connections and on the time that a head and the reading may take."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from explearn_apps.serve.limits import Limits


def bounded_protocol(limits: Limits) -> type[H11Protocol]:
    """uvicorn's protocol within `connections`, `head_seconds` and `read_seconds` of `limits`; its errors are JSON."""

    class Bounded(H11Protocol):
        _head_timer: asyncio.TimerHandle | None = None
        _read_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            # Writing pauses as soon as the client is behind: closing a transport waits for what it still holds.
            transport.set_write_buffer_limits(high=0)
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                self._refuse(429, f"{limits.connections} connections are open already; try again in a moment")
            else:
                self._watch_head()

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            try:
                super().data_received(data)
            except h11.LocalProtocolError:
                # An error of the client in what follows its own request, which has its answer.
                self.transport.close()
            self._watch_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            self._stop_read_timer()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._stop_read_timer()
            self._read_timer = self.loop.call_later(limits.read_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            self._stop_read_timer()
            super().resume_writing()

        def _stop_read_timer(self) -> None:
            if self._read_timer is not None:
                self._read_timer.cancel()
                self._read_timer = None

        def send_400_response(self, msg: str) -> None:
            self._refuse(400, "not a request of HTTP/1.1, or one with headers that are too long")

        def _watch_head(self) -> None:
            """Let a timer run while the head of a request is not whole."""
            if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
                self._stop_timer()
            elif self._head_timer is None:
                self._head_timer = self.loop.call_later(limits.head_seconds, self._too_slow)

        def _stop_timer(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _too_slow(self) -> None:
            self._head_timer = None
            if not self.transport.is_closing() and self.conn.their_state is h11.IDLE:
                self._refuse(408, f"got no whole request in {limits.head_seconds:g} seconds; expected it faster")

        def _refuse(self, status: int, sentence: str) -> None:
            # Of a request whose body is still read, this is the answer; one that is being answered keeps its own.
            if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
                body = json.dumps({"error": sentence})
                self.transport.write(
                    f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
                    f"content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode("ascii")
                )
            self.transport.close()

    return Bounded

"""The service on a port: binding it, serving, and an orderly end."""

from __future__ import annotations

import ipaddress
import logging
import os
import signal
import socket
from collections.abc import Collection
from typing import TYPE_CHECKING

import uvicorn

from explearn.core.errors import ParamsError
from explearn_apps.serve.limits import Limits
from explearn_apps.serve.protocol import bounded_protocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp

LOCAL = ("127.0.0.1", "localhost", "[::1]")
"""Names by which a service on a loopback address is called."""

BACKLOG = 2048
"""Connections that may wait to be taken up."""


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens, so that no other process gets the port while the model is loaded.

    Raises ParamsError for a port that is in use or not allowed, and a host that is not of this machine.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise ParamsError(f"--host: got {host!r}; expected a name or an address of this machine") from error
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise ParamsError(f"--port: {host} port {port} cannot be used ({reason}); expected one that is free") from error
    found.setblocking(False)
    return found


def address_of(listening: socket.socket) -> str:
    """The service's address, as a browser takes it."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(listening: socket.socket) -> bool:
    """Whether none but this machine reaches it."""
    return ipaddress.ip_address(str(listening.getsockname()[0]).partition("%")[0]).is_loopback


def hosts_of(listening: socket.socket) -> Collection[str] | None:
    """Names by which requests may call the service; None: any, where other machines reach it."""
    if not is_loopback(listening):
        return None
    return {*LOCAL, address_of(listening).removeprefix("http://").rpartition(":")[0]}


def server_of(app: ASGIApp, limits: Limits) -> uvicorn.Server:
    """The server of an application, within some limits."""
    config = uvicorn.Config(
        app,
        http=bounded_protocol(limits),
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        # A client may not say who it is.
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=limits.head_bytes,
        timeout_graceful_shutdown=max(1, int(limits.seconds)),
    )
    return uvicorn.Server(config)


def serve(app: ASGIApp, listening: socket.socket, limits: Limits) -> None:
    """Serve until SIGINT or SIGTERM. Requests in work are answered first, within `limits.seconds`."""
    # What is wrong with a request is told to its client; what is logged are faults.
    for noisy in ("uvicorn.error", "explearn.methods"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    # uvicorn raises a signal again when it is done; the end is then an orderly one.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server_of(app, limits).run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

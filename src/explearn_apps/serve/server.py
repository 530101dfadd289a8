"""The service on a port: binding, serving, and orderly shutdown."""

from __future__ import annotations

import ipaddress
import logging
import signal
import socket
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

import uvicorn

from explearn.core.errors import ParamsError
from explearn_apps.serve.connection import TimedProtocol
from explearn_apps.serve.limits import Limits

if TYPE_CHECKING:
    from starlette.types import ASGIApp

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

"""Where the language model is, and the key to it, which nothing may repeat."""

from __future__ import annotations

import ipaddress
import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from pydantic import SecretStr

from explearn.core.errors import ExplearnError, ParamsError

BASE_URL, MODEL, API_KEY = "EXPLEARN_LLM_BASE_URL", "EXPLEARN_LLM_MODEL", "EXPLEARN_LLM_API_KEY"
"""Environment variables. Only the model is an option besides; the key is none, for command lines are public."""

PROXY = "EXPLEARN_LLM_PROXY"
"""Environment variable: the proxy, http(s)://HOST:PORT. HTTP_PROXY and its like are not heeded: what they name would
see every text."""

PLAIN_HTTP = "EXPLEARN_LLM_PLAIN_HTTP"
"""Environment variable: 1 sends the key over plain http to another machine, where anybody on the way can read it."""

LEAST_KEY_CHARS = 4
"""A shorter key could not be blacked out without harm to ordinary words."""

REDACTED = "[key]"

_LOGGERS = ("openai", "httpx", "httpcore")


class EndpointError(ExplearnError):
    """The server cannot be used: the address, the key or the model is wrong, or it asks for too long a pause."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible server.

    Attributes:
        base_url: address that `/chat/completions` is added to.
        key: sent as bearer token; empty where the server asks for none.
        proxy: what stands between, with its password if it asks for one; a server on this machine is asked directly.
        plain_http: send the key over plain http to another machine, too.
    """

    base_url: str
    key: SecretStr = field(default_factory=lambda: SecretStr(""))
    proxy: SecretStr = field(default_factory=lambda: SecretStr(""))
    plain_http: bool = False

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.base_url)
            parts.port  # noqa: B018 (raises ValueError where it is no number)
        except ValueError as error:
            raise ParamsError(f"{BASE_URL}: not an address ({error}); expected http(s)://HOST/PATH") from None
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ParamsError(
                f"{BASE_URL}: got an address with a user name, a password, a query or a fragment; expected "
                f"http(s)://HOST/PATH alone, and the key in {API_KEY}"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ParamsError(f"{BASE_URL}: got {self.base_url!r}; expected http(s)://HOST/PATH")
        key = self.key.get_secret_value()
        if key and not (len(key) >= LEAST_KEY_CHARS and key.isascii() and key.isprintable() and " " not in key):
            raise ParamsError(
                f"{API_KEY}: got a key with white space or characters outside ASCII, or of fewer than "
                f"{LEAST_KEY_CHARS} characters; expected the key as the server's owner gave it (unset: none is sent)"
            )
        if key and parts.scheme == "http" and not self.plain_http and not self.loopback:
            raise ParamsError(
                f"{BASE_URL}: got plain http to {parts.hostname}, where anybody on the way can read the key; expected "
                f"https, or {PLAIN_HTTP}=1"
            )
        if self.proxy.get_secret_value():
            _check_proxy(self.proxy.get_secret_value())

    @property
    def loopback(self) -> bool:
        """Whether the server is on this machine."""
        host = (urlsplit(self.base_url).hostname or "").rstrip(".")
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost" or host.endswith(".localhost")  # RFC 6761, 6.3

    @property
    def proxy_url(self) -> str | None:
        """The proxy to the server; None for one that is asked directly."""
        return None if self.loopback else self.proxy.get_secret_value() or None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Endpoint:
        """Raises ParamsError where the address is missing, or address or key cannot be used; never shows the key."""
        base_url = environment.get(BASE_URL, "").strip()
        if not base_url:
            raise ParamsError(
                f"{BASE_URL}: not set; expected the address of an OpenAI-compatible server, such as "
                "http://localhost:11434/v1"
            )
        plain = environment.get(PLAIN_HTTP, "").strip()
        if plain not in ("", "0", "1"):
            raise ParamsError(f"{PLAIN_HTTP}: got {plain[:40]!r}; expected 1, or 0")
        key, proxy = (SecretStr(environment.get(name, "").strip()) for name in (API_KEY, PROXY))
        return cls(base_url, key, proxy, plain == "1")

    def redact(self, text: str) -> str:
        """`text` with the key blacked out, also as JSON and addresses write it."""
        key = self.key.get_secret_value()
        if not key:
            return text
        for form in (key, json.dumps(key)[1:-1], quote(key, safe="")):
            text = text.replace(form, REDACTED)
        return text

    @contextmanager
    def redacted_logs(self) -> Iterator[None]:
        """Black the key out of what the HTTP libraries log, at any level: a server may send it back in a header."""

        make = logging.getLogRecordFactory()

        def redacted(*values: Any, **named: Any) -> logging.LogRecord:
            record = make(*values, **named)
            if record.name.startswith(_LOGGERS):
                record.msg, record.args = self.redact(record.getMessage()), ()
            return record

        logging.setLogRecordFactory(redacted)
        try:
            yield
        finally:
            logging.setLogRecordFactory(make)


def _check_proxy(proxy: str) -> None:
    """Raise ParamsError for what is no proxy's address; it may hold a password, and is not shown."""
    try:
        parts = urlsplit(proxy)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 0) >= 0
    except ValueError:
        usable = False
    if not usable or parts.path.strip("/") or parts.query or parts.fragment:
        raise ParamsError(f"{PROXY}: not a proxy's address; expected http(s)://HOST:PORT")


def environment_model(environment: Mapping[str, str] = os.environ) -> str | None:
    """The model's name from the environment, None where there is none."""
    return environment.get(MODEL, "").strip() or None

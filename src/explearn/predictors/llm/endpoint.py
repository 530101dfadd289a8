"""The address of the language model, and the key to it, which is never shown or logged."""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, urlsplit

from pydantic import SecretStr

from explearn.core.errors import ExplearnError, ParamsError

BASE_URL = "EXPLEARN_LLM_BASE_URL"
"""Environment variable: the server's address."""

MODEL = "EXPLEARN_LLM_MODEL"
"""Environment variable: the model's name, which may also be an option."""

API_KEY = "EXPLEARN_LLM_API_KEY"
"""Environment variable: the key. It is never an option, because command lines are public."""

PROXY = "EXPLEARN_LLM_PROXY"
"""Environment variable: the proxy, http(s)://HOST:PORT. HTTP_PROXY and the like are not used: such a proxy would see
every text."""

PLAIN_HTTP = "EXPLEARN_LLM_PLAIN_HTTP"
"""Environment variable: 1 sends the key over plain http to another machine, where anybody on the way can read it."""

CONCURRENCY = "EXPLEARN_LLM_CONCURRENCY"
"""Environment variable: number of requests at the same time, 1 to 256."""

TIMEOUT = "EXPLEARN_LLM_TIMEOUT"
"""Environment variable: seconds for one request."""

LEAST_KEY_CHARS = 4
"""A shorter key could not be blacked out without harm to ordinary words."""

REDACTED = "[key]"

_NONE = SecretStr("")


class EndpointError(ExplearnError):
    """The server cannot be used: the address, the key or the model is wrong, or nobody listens."""


class RefusedError(ExplearnError):
    """The server refuses this request."""


class NoAnswerError(ExplearnError):
    """No answer after all retries: time-outs, server errors, a broken connection."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible server.

    Attributes:
        base_url: address that `/chat/completions` is added to.
        key: bearer token; empty if the server needs none.
        proxy: proxy to the server, with its password if it needs one; empty for none.
        concurrency: number of requests at the same time.
        timeout: seconds for one request.
    """

    base_url: str
    key: SecretStr = _NONE
    proxy: SecretStr = _NONE
    concurrency: int = 8
    timeout: float = 60.0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Endpoint:
        """Return the server that the environment names.

        Raises:
            ParamsError: the address is missing, or a variable cannot be used; never shows address, key or proxy.
        """
        base_url, key, proxy = (environment.get(name, "").strip() for name in (BASE_URL, API_KEY, PROXY))
        if not base_url:
            raise ParamsError(
                f"{BASE_URL}: not set; expected the address of an OpenAI-compatible server, such as "
                "http://localhost:11434/v1"
            )
        parts = _parsed_address(BASE_URL, base_url)
        if parts.username or parts.password:
            raise ParamsError(f"{BASE_URL}: got a user name or a password; expected the key in {API_KEY} instead")
        if key and not (len(key) >= LEAST_KEY_CHARS and key.isascii() and key.isprintable() and " " not in key):
            raise ParamsError(
                f"{API_KEY}: got a key with white space or characters outside ASCII, or of fewer than "
                f"{LEAST_KEY_CHARS} characters; expected the key as the server's owner gave it (unset: none is sent)"
            )
        host = (parts.hostname or "").rstrip(".")
        try:
            local = ipaddress.ip_address(host).is_loopback
        except ValueError:
            local = host == "localhost" or host.endswith(".localhost")  # RFC 6761, 6.3
        if key and parts.scheme == "http" and not local and environment.get(PLAIN_HTTP, "").strip() != "1":
            raise ParamsError(
                f"{BASE_URL}: got plain http to {parts.hostname}, where anybody on the way can read the key; expected "
                f"https, or {PLAIN_HTTP}=1"
            )
        if proxy:
            _parsed_address(PROXY, proxy)
        if local:
            proxy = ""
        try:
            concurrency = int(environment.get(CONCURRENCY) or 8)
            timeout = float(environment.get(TIMEOUT) or 60)
        except ValueError:
            concurrency = 0
            timeout = 0.0
        if not (1 <= concurrency <= 256 and 0 < timeout < float("inf")):
            raise ParamsError(f"{CONCURRENCY}, {TIMEOUT}: expected a whole number from 1 to 256, and seconds above 0")
        return cls(base_url, SecretStr(key), SecretStr(proxy), concurrency, timeout)

    def redact(self, text: str) -> str:
        """Return a text without the key, also as JSON and addresses write it."""
        key = self.key.get_secret_value()
        if not key:
            return text
        for form in (key, json.dumps(key)[1:-1], quote(key, safe="")):
            text = text.replace(form, REDACTED)
        return text


def _parsed_address(name: str, address: str) -> SplitResult:
    """Return the parts of an address, which may have a password and is not shown.

    Raises:
        ParamsError: it is not an address.
    """
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 0) >= 0
        usable = usable and address.isprintable() and " " not in address
    except ValueError:  # a port that is no number, brackets that are not closed
        usable = False
    if not usable or parts.query or parts.fragment:
        raise ParamsError(f"{name}: not an address; expected http(s)://HOST:PORT/PATH, without a query")
    return parts

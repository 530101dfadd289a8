"""Where the language model is, and the key to it, which nothing may repeat."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from pydantic import SecretStr

from explearn.core.errors import ParamsError

BASE_URL, MODEL, API_KEY = "EXPLEARN_LLM_BASE_URL", "EXPLEARN_LLM_MODEL", "EXPLEARN_LLM_API_KEY"
"""Environment variables. Only the model is an option besides; the key is none, for command lines are public."""

LEAST_KEY_CHARS = 4
"""A shorter key could not be blacked out without harm to ordinary words."""

REDACTED = "[key]"

_LOGGERS = ("openai", "httpx", "httpcore")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible server.

    Attributes:
        base_url: address that `/chat/completions` is added to.
        key: sent as bearer token; empty where the server asks for none.
    """

    base_url: str
    key: SecretStr = field(default_factory=lambda: SecretStr(""))

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

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Endpoint:
        """Raises ParamsError where the address is missing, or address or key cannot be used; never shows the key."""
        base_url = environment.get(BASE_URL, "").strip()
        if not base_url:
            raise ParamsError(
                f"{BASE_URL}: not set; expected the address of an OpenAI-compatible server, such as "
                "http://localhost:11434/v1"
            )
        return cls(base_url, SecretStr(environment.get(API_KEY, "").strip()))

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


def environment_model(environment: Mapping[str, str] = os.environ) -> str | None:
    """The model's name from the environment, None where there is none."""
    return environment.get(MODEL, "").strip() or None

"""Why a request is not answered, as a status and one sentence."""

from __future__ import annotations

import math

from starlette.responses import Response

from explearn.core.visible import visible_json

JSON = "application/json"


class RefusedError(Exception):
    """A request that is not answered.

    Attributes:
        status: HTTP status, 4xx.
        sentence: for the client.
        reason: one word, for the metrics.
        retry_seconds: after which to try again; None: not at all as it is.
    """

    def __init__(self, status: int, reason: str, sentence: str, retry_seconds: float | None = None) -> None:
        super().__init__(sentence)
        self.status, self.reason, self.sentence, self.retry_seconds = status, reason, sentence, retry_seconds

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry_seconds is None else {"retry-after": str(max(1, math.ceil(self.retry_seconds)))}

    def response(self, close: bool = False) -> Response:
        """The answer; `close`: the connection ends with it, for the rest of the request is not read."""
        headers = self.headers | ({"connection": "close"} if close else {})
        return error_response(self.status, self.sentence, headers)


class ClientGoneError(Exception):
    """The client closed the connection before its answer; nobody reads one."""


def error_response(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    """An error as JSON: `{"error": sentence}`."""
    body = visible_json({"error": " ".join(sentence.split())})
    return Response(body.encode(), status, headers, JSON)


def busy(sentence: str, reason: str = "overload", retry_seconds: float = 1.0) -> RefusedError:
    """The service has as much work as it takes."""
    return RefusedError(429, reason, sentence, retry_seconds)

"""JSON responses; every error is `{"error": one sentence}`."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.responses import Response

from explearn.core.escape import printable_json

JSON = "application/json"


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(printable_json(value).encode(), status, headers, JSON)


def error_response(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    return json_response({"error": " ".join(sentence.split())}, status, headers)


def busy(sentence: str, retry_seconds: int = 1) -> HTTPException:
    """Return the error for a service at its limit."""
    return HTTPException(429, sentence, {"retry-after": str(retry_seconds)})

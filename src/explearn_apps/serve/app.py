"""The service as an ASGI application: the JSON API, health and metrics, and the page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from explearn.core.errors import ExplearnError
from explearn.core.visible import visible
from explearn.methods.base.explainer import Explainer
from explearn.model.classifier import Classifier
from explearn_apps.serve.api import add_api
from explearn_apps.serve.engine import Engine
from explearn_apps.serve.guard import SECURITY_HEADERS, Allowance, Guard
from explearn_apps.serve.limits import Limits
from explearn_apps.serve.metrics import Metrics
from explearn_apps.serve.page import add_page
from explearn_apps.serve.refusals import ClientGoneError, RefusedError, error_response
from explearn_apps.serve.service import Service, problem_sentence, service_of

PATHS = ("/", "/explain", "/methods", "/health", "/ready", "/metrics", "/openapi.json", "/page.css", "/page.js")


def make_app(
    classifier: Classifier,
    explainers: Sequence[Explainer],
    limits: Limits | None = None,
    *,
    hosts: Collection[str] | None = None,
    threads: int | None = None,
) -> FastAPI:
    """The service of a classifier and some methods.

    Args:
        classifier: what is explained; not a model that answers questions.
        explainers: the methods, each under its name.
        limits: what it takes.
        hosts: names by which requests may call it; None: any.
        threads: of torch's operators.

    Raises as `Engine` does.
    """
    limits, metrics = limits or Limits(), Metrics()
    allowance = Allowance(limits.rate, limits.burst)
    engine = Engine(classifier, explainers, limits, metrics, threads)
    metrics.waiting.set_function(lambda: engine.waiting)

    @asynccontextmanager
    async def running(_app: FastAPI) -> AsyncIterator[None]:
        await engine.start()
        try:
            yield
        finally:
            await engine.close()

    # The interactive pages of FastAPI load scripts from elsewhere.
    app = FastAPI(title="Explearn", lifespan=running, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.service = Service(engine, limits, metrics, allowance)
    add_api(app)
    add_page(app)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(RefusedError, _refused)
    app.add_exception_handler(ExplearnError, _bad_input)
    app.add_exception_handler(ClientGoneError, _gone)
    app.add_exception_handler(Exception, _fault)
    app.add_middleware(Guard, limits=limits, metrics=metrics, allowance=allowance, hosts=hosts, paths=PATHS)
    return app


# ---- errors ----------------------------------------------------------------------------------------------------------


async def _http_error(request: Request, error: Any) -> Response:
    said = str(error.detail)
    path = visible(request.url.path)[:100]
    if error.status_code == 404:
        said = f"{path}: no such page; expected one of {', '.join(PATHS)}"
    elif error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        said = f"{visible(request.method)[:20]} {path}: not allowed; expected {allowed}"
    return error_response(error.status_code, said, dict(error.headers or {}))


async def _invalid(_request: Request, error: Any) -> Response:
    return error_response(422, problem_sentence(error.errors()[0]))


async def _refused(request: Request, error: Any) -> Response:
    service_of(request).metrics.refused.labels(error.reason).inc()
    response: Response = error.response()
    return response


async def _bad_input(_request: Request, error: Any) -> Response:
    return error_response(422, str(error))


async def _gone(request: Request, _error: Any) -> Response:
    service_of(request).metrics.aborted.inc()
    # Nobody reads it: the connection is closed.
    return error_response(408, "the client went away")


async def _fault(_request: Request, _error: Any) -> Response:
    # The traceback goes to the log. The guard, inside of which this is not, has not set the headers.
    return error_response(500, "the service failed; its log says why", dict(SECURITY_HEADERS))

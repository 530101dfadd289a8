"""The JSON API, health and metrics."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.responses import Response

from explearn.core.documents import parse_json
from explearn.core.visible import visible_json
from explearn_apps.serve.refusals import JSON
from explearn_apps.serve.schemas import (
    Bounds,
    ExplainRequest,
    ExplainResponse,
    MethodAnswer,
    Problem,
    Served,
    State,
    results,
)
from explearn_apps.serve.service import service_of, summary_of

REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "No JSON, or beyond what JSON may hold."},
    408: {"model": Problem, "description": "The request arrives too slowly."},
    413: {"model": Problem, "description": "Too large, or too many of something."},
    415: {"model": Problem, "description": "Not application/json."},
    422: {"model": Problem, "description": "A field, a name or a text that cannot be used."},
    429: {"model": Problem, "description": "Too many requests, or the service is busy; see Retry-After."},
}


def add_api(app: FastAPI) -> None:
    """Add the API's paths. Its JSON is read within the bounds of `parse_json`."""
    app.router.route_class = _BoundedRoute

    @app.post("/explain", response_model=ExplainResponse, responses=REFUSALS)
    async def explain(request: Request, wanted: ExplainRequest) -> Response:
        """Explain some texts by some methods: a score for each word, larger meaning more evidence for the label."""
        service = service_of(request)
        wanted.check(service.limits)
        methods = [next(iter(service.engine.explainers))] if wanted.methods is None else wanted.methods
        probabilities = wanted.probabilities or not methods
        found, given = await service.explain(request, wanted.segments, methods, wanted.label or [], probabilities)
        return _json(results(found, given, len(wanted.texts)))

    @app.get("/methods", response_model=Served)
    async def methods(request: Request) -> Response:
        """The classifier, its labels, the methods, and the limits of a request."""
        service = service_of(request)
        engine = service.engine
        told = [
            MethodAnswer(name=name, family=e.about.family, cost=e.about.cost, summary=summary_of(e))
            for name, e in engine.explainers.items()
        ]
        served = Served(
            classifier=engine.name,
            problem=str(engine.classifier.problem),
            labels=engine.classifier.labels,
            methods=told,
            limits=Bounds.of(service.limits),
        )
        return _json(served.model_dump())

    @app.get("/health", response_model=State)
    async def health() -> Response:
        """Whether the process answers."""
        return _json({"status": "ok"})

    @app.get("/ready", response_model=State, responses={503: {"model": State}})
    async def ready(request: Request) -> Response:
        """Whether requests would be worked on: 200, otherwise 503."""
        there = service_of(request).engine.ready
        return _json({"status": "ready" if there else "not ready"}, 200 if there else 503)

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics(request: Request) -> Response:
        """Counters for Prometheus."""
        content = generate_latest(service_of(request).metrics.registry)
        return Response(content, headers={"content-type": CONTENT_TYPE_LATEST})


def _json(value: object, status: int = 200) -> Response:
    return Response(visible_json(value).encode(), status, media_type=JSON)


class _BoundedRequest(Request):
    """A request whose JSON is read within the bounds of `parse_json`."""

    async def json(self) -> Any:
        try:
            return parse_json(await self.body())
        except ValueError as error:
            raise HTTPException(400, f"body: {error}") from error


class _BoundedRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def bounded(request: Request) -> Response:
            return await handler(_BoundedRequest(request.scope, request.receive))

        return bounded

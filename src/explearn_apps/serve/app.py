"""The service as an ASGI application: the JSON API, health, metrics, errors, and the page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from explearn.core.documents import parse_json
from explearn.core.errors import DataError, ExplearnError
from explearn.core.escape import printable, printable_json
from explearn.core.validation import check
from explearn.methods.base.explainer import Explainer
from explearn.predictors.predictor import Predictor
from explearn_apps.serve.engine import Engine, TextAnswer
from explearn_apps.serve.guard import SECURITY_HEADERS, Guard
from explearn_apps.serve.limits import Limits
from explearn_apps.serve.page import add_page
from explearn_apps.serve.responses import JSON, error_response, json_response
from explearn_apps.serve.schemas import ErrorResponse, ExplainRequest, ExplainResponse, MethodSummary, Served, result

REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorResponse, "description": "Not JSON, or beyond the limits of JSON."},
    413: {"model": ErrorResponse, "description": "Too large, or too many items."},
    415: {"model": ErrorResponse, "description": "Not application/json."},
    422: {"model": ErrorResponse, "description": "A field, name or text that cannot be used."},
    429: {"model": ErrorResponse, "description": "The service is busy; see Retry-After."},
}


def make_app(
    classifier: Predictor,
    explainers: Sequence[Explainer],
    limits: Limits | None = None,
    *,
    hosts: Collection[str] | None = None,
    embedders: Collection[str] = (),
    verdict: str | None = None,
    pairs: bool = False,
) -> FastAPI:
    """Make the service for a classifier and some methods.

    Args:
        classifier: the classifier, of texts.
        explainers: the methods, served under their names.
        limits: limits of requests.
        hosts: allowed names of the service in requests. None: any.
        embedders: origins whose pages may show the service in a frame.
        verdict: verdict of a comparison of the methods (`Comparison.verdict`).
        pairs: whether the page asks for a second text. It always does where a prompt has a place for one.

    Returns:
        The application.

    Raises:
        ParamsError: a method is repeated, or there is none.
        UnsupportedError: a method cannot explain the classifier, or it classifies no texts.
    """
    engine = Engine(classifier, explainers, limits or Limits(), verdict, pairs)

    @asynccontextmanager
    async def running(_app: FastAPI) -> AsyncIterator[None]:
        engine.batcher.start()
        try:
            yield
        finally:
            await engine.close()

    app = FastAPI(title="Explearn", lifespan=running, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.engine = engine
    add_api(app, engine)
    add_page(app, engine)
    paths = sorted({str(getattr(route, "path", "")) for route in app.routes})

    async def http_error(request: Request, error: Any) -> Response:
        sentence = str(error.detail)
        if error.status_code in (404, 405):
            address = f"{printable(request.method)[:20]} {printable(request.url.path)[:100]}"
            sentence = f"{address}: {sentence.lower()}; expected one of {', '.join(paths)}"
        return error_response(error.status_code, sentence, error.headers)

    async def bad_input(_request: Request, error: Any) -> Response:
        return error_response(422, str(error))

    async def gone(_request: Request, _error: Any) -> Response:
        # The client does not read it; 499 is nginx's status, counted by the metrics.
        return error_response(499, "the client went away")

    async def fault(_request: Request, _error: Any) -> Response:
        # The traceback goes to the log. This runs outside the guard, which sets the headers.
        return error_response(500, "the service failed; see its log", SECURITY_HEADERS)

    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(ExplearnError, bad_input)
    app.add_exception_handler(ClientDisconnect, gone)
    app.add_exception_handler(Exception, fault)
    app.add_middleware(
        Guard, limits=engine.limits, metrics=engine.metrics, hosts=hosts, paths=paths, embedders=embedders
    )
    return app


def _request_in(body: bytes) -> ExplainRequest:
    """Read a request's body, with the limits of `parse_json`.

    Raises:
        HTTPException: it is not JSON.
        DataError: a field cannot be used.
    """
    try:
        document = parse_json(body)
    except ValueError as error:
        raise HTTPException(400, f"body: {error}") from error
    wanted: ExplainRequest = check(ExplainRequest, document, DataError)
    return wanted


def _response_of(answers: Sequence[TextAnswer]) -> Response:
    """Return a JSON response, made text by text: making it at once would keep other threads from running."""
    texts = [printable_json(result(answer.probabilities, answer.attributions)) for answer in answers]
    return Response(f'{{"results": [{", ".join(texts)}]}}'.encode(), media_type=JSON)


def add_api(app: FastAPI, engine: Engine) -> None:
    """Add the API's paths."""
    schema = {"requestBody": {"required": True, "content": {JSON: {"schema": ExplainRequest.model_json_schema()}}}}

    @app.post("/explain", response_model=ExplainResponse, responses=REFUSALS, openapi_extra=schema)
    async def explain(request: Request) -> Response:
        """Explain texts: score each word by each method; larger scores mean more evidence for the label."""
        wanted = await engine.aside(request, _request_in, await request.body())
        answers = await engine.answer(request, wanted)
        return await engine.aside(request, _response_of, answers)

    @app.get("/methods", response_model=Served)
    async def methods() -> Response:
        """Return the classifier, its labels, the methods and the limits."""
        summaries = []
        for name, explainer in engine.explainers.items():
            about = explainer.about
            summary = engine.summaries[name]
            summaries.append(MethodSummary(name=name, family=about.family, cost=about.cost, summary=summary))
        served = Served(
            classifier=engine.classifier.name,
            problem=str(engine.classifier.problem),
            labels=engine.classifier.labels,
            methods=summaries,
            verdict=engine.verdict,
            limits=engine.limits,
        )
        return json_response(served.model_dump())

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Say whether the process is alive."""
        return {"status": "ok"}

    @app.get("/ready", responses={503: {"description": "The service does not accept requests."}})
    async def ready() -> Response:
        """Say whether the service accepts requests: 200, otherwise 503."""
        if engine.batcher.working:
            return json_response({"status": "ready"})
        return json_response({"status": "not ready"}, 503)

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Return counters for Prometheus."""
        return Response(generate_latest(engine.metrics.registry), headers={"content-type": CONTENT_TYPE_LATEST})

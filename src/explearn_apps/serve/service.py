"""What all requests of the service share, and how one is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request

from explearn.core.records import Attribution
from explearn.core.visible import visible
from explearn.methods.base.explainer import Explainer
from explearn.methods.info import first_sentence
from explearn.model.encoding import as_segments
from explearn_apps.serve.engine import Engine, Segments
from explearn_apps.serve.guard import Allowance, client_of
from explearn_apps.serve.limits import Limits
from explearn_apps.serve.metrics import Metrics
from explearn_apps.serve.refusals import ClientGoneError, RefusedError, busy
from explearn_apps.serve.schemas import ExplainRequest

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Service:
    """What all requests share."""

    engine: Engine
    limits: Limits
    metrics: Metrics
    allowance: Allowance

    async def explain(
        self,
        request: Request,
        texts: Sequence[Segments],
        methods: Sequence[str],
        labels: Sequence[str],
        probabilities: bool,
    ) -> tuple[list[list[list[Attribution]]], list[dict[str, float]] | None]:
        """For each method, of each text its attributions; and of each text its probabilities, if asked for.

        Raises UnknownNameError and DataError for names and texts that cannot be used, RefusedError for more scores than
        an answer may hold, when the service is busy and when the time is over, ClientGoneError.
        """
        engine = self.engine
        engine.check_names(methods, labels)
        words = 0
        for number, text in enumerate(texts, start=1):
            first, second, _ = as_segments(text, number)
            words += len(first.split()) + len((second or "").split())
        scores = words * len(methods) * max(1, len(labels))
        if scores > self.limits.scores:
            raise RefusedError(
                413,
                "size",
                f"texts: {words:,} words by {len(methods)} methods for {max(1, len(labels))} labels are {scores:,} "
                f"scores; expected at most {self.limits.scores:,}",
            )
        asked = probabilities and engine.has_probabilities
        # The guard took one.
        each = len(methods) * max(1, len(labels)) + asked
        self.allowance.charge(client_of(request.scope), max(0, len(texts) * each - 1))
        work: list[Coroutine[Any, Any, Any]] = [engine.explain(method, texts, labels) for method in methods]
        if asked:
            work.append(engine.probabilities(texts))
        tasks = [asyncio.ensure_future(one) for one in work]
        try:
            found = await unless_gone(request, asyncio.gather(*tasks), self.limits.seconds)
        finally:
            # Where one fails, the others would go on.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        names = engine.classifier.labels
        given = [dict(zip(names, row, strict=True)) for row in found[len(methods)]] if asked else None
        return found[: len(methods)], given


async def unless_gone(request: Request, work: Awaitable[Found], seconds: float) -> Found:
    """What `work` gives; it is cancelled when the client goes away (ClientGoneError) or time is over (RefusedError)."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if gone.done():
            raise ClientGoneError
        raise busy(f"no answer within {seconds:g} seconds; send fewer texts, or try again later", "timeout", 5.0)
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def problem_sentence(problem: Any) -> str:
    """What is wrong with a field, without repeating its value."""
    place = [str(part)[:60] for part in problem["loc"] if part != "body"]
    where = visible(".".join(place))[:200] or "body"
    said = str(problem["msg"])
    if problem["type"] == "extra_forbidden":
        return f"{where}: no such field; expected {', '.join(ExplainRequest.model_fields)}"
    return f"{where}: not valid ({said[:1].lower()}{said[1:200]})"


def summary_of(explainer: Explainer) -> str:
    """The first sentence of a method's documentation."""
    return first_sentence(type(explainer).__doc__ or "")

"""The classifier and the methods of the service, used by one thread, and its counters for Prometheus."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from explearn.core.attribution import Attribution
from explearn.core.documents import public_name
from explearn.core.errors import ParamsError, UnknownNameError
from explearn.methods.base.explainer import Explainer
from explearn.methods.info import first_sentence
from explearn.methods.registry import get_info
from explearn.predictors.labelled import Problem, check_use
from explearn.predictors.predictor import Predictor, named, reads_single_texts
from explearn.text.encoding import as_segments
from explearn_apps.serve.batching import SHUTTING_DOWN, Batcher
from explearn_apps.serve.limits import Limits
from explearn_apps.serve.responses import busy
from explearn_apps.serve.schemas import ExplainRequest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 30.0)
_TEXTS = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """Counters and histograms of one service."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter("explearn_requests", "Answered requests.", ["path", "status"], registry=registry)
        self.seconds = Histogram(
            "explearn_request_seconds", "Time to answer.", ["path"], registry=registry, buckets=_SECONDS
        )
        self.in_work = Gauge("explearn_requests_in_work", "Requests in progress or waiting.", registry=registry)
        self.texts = Counter("explearn_texts", "Texts explained.", ["method"], registry=registry)
        self.batches = Histogram(
            "explearn_batch_texts", "Texts per batch.", ["method"], registry=registry, buckets=_TEXTS
        )
        self.waiting = Gauge("explearn_texts_waiting", "Texts waiting for the model.", registry=registry)
        self.model_seconds = Counter("explearn_model_seconds", "Time in the model.", ["method"], registry=registry)


PROBABILITIES = "probabilities"
"""Stands for a method where probabilities are asked for."""

Result = TypeVar("Result")

WARM_UP = "One text before the first."


class TextAnswer(NamedTuple):
    """Answer for one text.

    Attributes:
        probabilities: by label; None if not requested, and for a regression.
        by_method: for each method the attributions, one per class.
    """

    probabilities: dict[str, float] | None
    by_method: list[list[Attribution]]

    @property
    def attributions(self) -> list[Attribution]:
        """All attributions, by method, then by class."""
        return list(chain.from_iterable(self.by_method))


class Engine:
    """Explains texts, joining requests into batches (`Batcher`).

    Attributes:
        classifier: the classifier, named without the path of a local folder.
        explainers: by name, in the order of the arguments.
        summaries: the first sentence about each method, by name.
        asks_pairs: whether the page asks for a second segment; the API takes pairs wherever the classifier reads them.
        seconds: by method, time for a short text; empty before `warm_up`.
        verdict: verdict of a comparison of the methods, if any.

    Raises:
        ParamsError: a method is repeated, or there is none.
        UnsupportedError: a method cannot explain the classifier, or it classifies no texts.
    """

    def __init__(
        self,
        classifier: Predictor,
        explainers: Sequence[Explainer],
        limits: Limits,
        verdict: str | None = None,
        pairs: bool = False,
    ) -> None:
        check_use(classifier, "service")
        # Errors name the classifier.
        classifier = named(classifier, public_name(classifier.name))
        self.classifier = classifier
        self.limits = limits
        self.metrics = Metrics()
        self.verdict = verdict
        self.asks_pairs = pairs or not reads_single_texts(classifier)
        self.explainers: dict[str, Explainer] = {}
        self.summaries: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        for explainer in explainers:
            if explainer.name in self.explainers:
                raise ParamsError(f"methods: got {explainer.name!r} twice; expected each once")
            explainer.check_explains(classifier)
            self.explainers[explainer.name] = explainer
            try:
                self.summaries[explainer.name] = get_info(explainer.name).summary
            except UnknownNameError:
                self.summaries[explainer.name] = first_sentence(type(explainer).__doc__ or "")
        if not self.explainers:
            raise ParamsError("methods: got none; expected at least one")
        self.batcher = Batcher(self._run, limits)
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="explearn-texts")
        self.metrics.waiting.set_function(lambda: self.batcher.waiting)

    @property
    def has_probabilities(self) -> bool:
        return self.classifier.problem is not Problem.REGRESSION

    def warm_up(self) -> None:
        """Explain one text with every method, so that the first request does not wait, then again to time it.

        Raises:
            ExplearnError: a method cannot explain it.
        """
        text: str | tuple[str, str] = WARM_UP
        if self.asks_pairs:
            text = WARM_UP, WARM_UP
        for name in self.explainers:
            for _ in range(2):
                start = time.perf_counter()
                self._run((name, (), "word"), [text])
                self.seconds[name] = time.perf_counter() - start

    async def close(self) -> None:
        """End after the work in progress."""
        await self.batcher.close()
        self._aside.shutdown(cancel_futures=True)

    async def aside(self, request: Request, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call a function that reads or writes whole texts in a thread of its own; other requests go on meanwhile.

        Raises:
            HTTPException: the service is busy, or time has run out.
            ClientDisconnect: the client has gone away.
        """
        if not self.batcher.working:
            raise busy(SHUTTING_DOWN)
        called = asyncio.get_running_loop().run_in_executor(self._aside, function, *arguments)
        (made,) = await _unless_gone(request, [called], self.limits.seconds)
        return made  # type: ignore[no-any-return]

    async def answer(self, request: Request, wanted: ExplainRequest) -> list[TextAnswer]:
        """Answer for each text of a request.

        Raises:
            UnknownNameError: there is no such method or label.
            DataError: a text cannot be used.
            HTTPException: the request is beyond the limits, the service is busy, or time has run out.
            ClientDisconnect: the client has gone away.
        """
        wanted.check(self.limits)
        methods = wanted.methods
        if methods is None:
            methods = list(self.explainers)[:1]
        for method in methods:
            if method not in self.explainers:
                raise UnknownNameError("method", method[:100], self.explainers)
        labels = wanted.label or []
        for label in labels:
            self.classifier.label_index(label)
        texts: list[Any] = wanted.texts
        if wanted.pairs is not None:
            texts = list(zip(wanted.texts, wanted.pairs, strict=True))
        words = await self.aside(request, _count_words, texts)
        scores = words * len(methods) * (len(labels) or 1)
        if scores > self.limits.scores:
            raise HTTPException(
                413,
                f"texts: {words:,} words by {len(methods)} methods for {len(labels) or 1} labels are {scores:,} scores;"
                f" expected at most {self.limits.scores:,}",
            )
        work = [self.batcher.submit((method, tuple(labels), wanted.unit), texts) for method in methods]
        with_probabilities = (wanted.probabilities or not methods) and self.has_probabilities
        if with_probabilities:
            work.append(self.batcher.submit((PROBABILITIES, (), "word"), texts))
        columns = await _unless_gone(request, work, self.limits.seconds)
        probabilities = [None] * len(texts)
        if with_probabilities:
            probabilities = columns.pop()
        answers = []
        for number, row in enumerate(probabilities):
            answers.append(TextAnswer(row, [column[number] for column in columns]))
        return answers

    def _run(self, key: tuple[str, tuple[str, ...], str], texts: Sequence[Any]) -> Sequence[Any]:
        """Process a batch in the model's thread.

        Args:
            key: method or PROBABILITIES, the labels to explain, if any, and the unit that is scored.
            texts: the texts, or pairs.
        """
        start = time.perf_counter()
        name, labels, unit = key
        results: list[Any] = []
        if name == PROBABILITIES:
            for row in self.classifier.predict_proba(texts).tolist():
                results.append(dict(zip(self.classifier.labels, row, strict=True)))
        else:
            targets = [labels] * len(texts) if labels else None
            results += self.explainers[name].iter_explain(self.classifier, texts, targets, unit=unit)
        self.metrics.texts.labels(name).inc(len(texts))
        self.metrics.batches.labels(name).observe(len(texts))
        self.metrics.model_seconds.labels(name).inc(time.perf_counter() - start)
        return results


def _count_words(texts: Sequence[Any]) -> int:
    """Return the number of words of some texts. Raises DataError if one cannot be used."""
    words = 0
    for number, text in enumerate(texts, start=1):
        words += sum(len(segment.spans) for segment in as_segments(text, number)[0])
    return words


async def _unless_gone(request: Request, work: Sequence[Awaitable[Any]], seconds: float) -> list[Any]:
    """Return the results of some work; cancel all of it if a part fails, the client disconnects or time runs out."""

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = list(map(asyncio.ensure_future, work))
    together: asyncio.Future[Any] = asyncio.gather(*tasks)
    gone: asyncio.Future[Any] = asyncio.ensure_future(disconnected())
    try:
        await asyncio.wait({together, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if together.done():
            return list(together.result())
        if gone.done():
            raise ClientDisconnect
        raise busy(f"no answer within {seconds:g} seconds; send fewer texts, or try again later", 5)
    finally:
        for task in (*tasks, gone):
            task.cancel()
        await asyncio.gather(*tasks, gone, together, return_exceptions=True)

"""The classifier and the methods of the service, used by one thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from explearn.core.attribution import Attribution
from explearn.core.documents import is_folder
from explearn.core.errors import ExplearnError, ParamsError, UnknownNameError, UnsupportedError
from explearn.methods.base.explainer import Explainer
from explearn.predictors.heads.question_answering import QuestionPredictor
from explearn.predictors.heads.token_classification import TokenPredictor
from explearn.predictors.labelled import Problem
from explearn.predictors.predictor import Predictor
from explearn.text.encoding import as_segments
from explearn_apps.serve.batching import Batcher
from explearn_apps.serve.limits import Limits
from explearn_apps.serve.metrics import Metrics
from explearn_apps.serve.responses import busy
from explearn_apps.serve.schemas import ExplainRequest

Item = tuple[str | tuple[str, str], list[str] | None]
"""A text, or a text with its second segment, and the labels to explain; None for the method's default."""

WARM_UP = "One text before the first."


@dataclass(frozen=True, slots=True)
class TextAnswer:
    """Answer for one text.

    Attributes:
        probabilities: by label; None if not requested, and for a regression.
        by_method: for each method the attributions, one per class.
    """

    probabilities: dict[str, float] | None
    by_method: list[list[Attribution]]


class Engine:
    """Explains texts, joining requests into batches (`Batcher`).

    Attributes:
        classifier: the classifier, named without the path of a local folder.
        explainers: by name, in the order given.
        takes_pairs: whether the classifier reads a second segment.
        seconds: by method, time for a short text; empty before `warm_up`.
        verdict: verdict of a comparison of the methods, if any.

    Raises ParamsError for a repeated method or none, UnsupportedError for a method that cannot explain this classifier,
    and for a model that answers questions.
    """

    def __init__(
        self,
        classifier: Predictor,
        explainers: Sequence[Explainer],
        limits: Limits,
        verdict: str | None = None,
    ) -> None:
        if isinstance(classifier, QuestionPredictor | TokenPredictor):
            raise UnsupportedError(f"{classifier.name}: {classifier.does}; expected a classifier of texts")
        if is_folder(classifier.name):
            # The folder's path is private, but errors name the classifier.
            folder = Path(classifier.name)
            classifier = classifier.named(folder.resolve().name)
        self.classifier = classifier
        self.limits = limits
        self.metrics = Metrics()
        self.verdict = verdict
        self.takes_pairs = True
        try:
            classifier.logits(classifier.batch(classifier.encode([(WARM_UP, WARM_UP)])))
        except ExplearnError:  # prompts and functions may be for single texts
            self.takes_pairs = False
        self.explainers: dict[str, Explainer] = {}
        self.seconds: dict[str, float] = {}
        for explainer in explainers:
            if explainer.name in self.explainers:
                raise ParamsError(f"methods: got {explainer.name!r} twice; expected each once")
            explainer.check_explains(classifier)
            self.explainers[explainer.name] = explainer
        if not self.explainers:
            raise ParamsError("methods: got none; expected at least one")
        self.batcher: Batcher[tuple[str, bool, str], Item, Any] = Batcher(self._run, limits)
        self.metrics.waiting.set_function(lambda: self.batcher.waiting)

    @property
    def has_probabilities(self) -> bool:
        return self.classifier.problem is not Problem.REGRESSION

    def warm_up(self) -> None:
        """Explain one text with every method, so that the first request does not wait, then again to time it.

        Raises ExplearnError if a method cannot.
        """
        completion = getattr(self.classifier, "completion", None)
        takes_pairs = completion is not None and completion.params.takes_pairs
        for name in self.explainers:
            for _ in range(2):
                start = time.perf_counter()
                self.batcher.run_alone((name, False, "word"), [((WARM_UP, WARM_UP) if takes_pairs else WARM_UP, None)])
                self.seconds[name] = time.perf_counter() - start

    async def answer(self, request: Request, wanted: ExplainRequest) -> list[TextAnswer]:
        """Answer for each text of a request.

        Raises UnknownNameError and DataError for names and texts that cannot be used, HTTPException beyond the limits,
        if the service is busy and if time runs out, and ClientDisconnect.
        """
        wanted.check(self.limits)
        methods = [next(iter(self.explainers))] if wanted.methods is None else wanted.methods
        for method in methods:
            if method not in self.explainers:
                raise UnknownNameError("method", method[:100], self.explainers)
        for label in wanted.label or ():
            self.classifier.label_index(label)
        texts: list[Any] = list(wanted.texts)
        if wanted.pairs is not None:
            texts = list(zip(wanted.texts, wanted.pairs, strict=True))
        words, labels = 0, len(wanted.label or ()) or 1
        for number, text in enumerate(texts, start=1):
            words += sum(len(segment.spans) for segment in as_segments(text, number)[0])
        if (scores := words * len(methods) * labels) > self.limits.scores:
            raise HTTPException(
                413,
                f"texts: {words:,} words by {len(methods)} methods for {labels} labels are {scores:,} scores; expected "
                f"at most {self.limits.scores:,}",
            )
        items = [(text, wanted.label or None) for text in texts]
        work = [self.batcher.submit((method, bool(wanted.label), wanted.unit), items) for method in methods]
        with_probabilities = (wanted.probabilities or not methods) and self.has_probabilities
        if with_probabilities:
            work.append(self.batcher.submit(("probabilities", False, "word"), items))
        columns = await _unless_gone(request, work, self.limits.seconds)
        rows = columns.pop() if with_probabilities else [None] * len(texts)
        names = self.classifier.labels
        return [
            TextAnswer(None if row is None else dict(zip(names, row, strict=True)), [of[place] for of in columns])
            for place, row in enumerate(rows)
        ]

    def _run(self, key: tuple[str, bool, str], items: Sequence[Item]) -> Sequence[Any]:
        """Process a batch in the model's thread.

        Args:
            key: method or "probabilities", whether labels are chosen, and the unit that is scored.
            items: texts with their labels.
        """
        (name, chosen, unit), start = key, time.perf_counter()
        texts = [text for text, _ in items]
        results: list[Any]
        if name in self.explainers:
            targets = [labels or () for _, labels in items] if chosen else None
            results = list(self.explainers[name].iter_explain(self.classifier, texts, targets, unit=unit))
        else:
            results = self.classifier.predict_proba(self.classifier.encode(texts)).tolist()
        self.metrics.texts.labels(name).inc(len(items))
        self.metrics.batches.labels(name).observe(len(items))
        self.metrics.model_seconds.labels(name).inc(time.perf_counter() - start)
        return results


async def _unless_gone(request: Request, work: Sequence[Coroutine[Any, Any, Any]], seconds: float) -> list[Any]:
    """Return the results of some work; cancel all of it if a part fails, the client disconnects or time runs out."""

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.ensure_future(one) for one in work]
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

"""The classifier and the methods of the service, used by one thread."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from explearn.core.documents import is_folder
from explearn.core.errors import ParamsError, UnknownNameError, UnsupportedError
from explearn.core.records import Attribution
from explearn.methods.base.explainer import Explainer
from explearn.model.classifier import Classifier
from explearn.model.problems import Problem
from explearn.model.question_answering import QuestionAnswerer
from explearn_apps.serve.batching import Batcher
from explearn_apps.serve.limits import Limits
from explearn_apps.serve.metrics import Metrics

Segments = str | tuple[str, str]
"""A text, or a text with its second segment."""

WARM_UP = "One text before the first."


@dataclass(frozen=True, slots=True)
class _Task:
    """What a batch is of. method: None: the classifier's probabilities. chosen: whether the classes are given."""

    method: str | None
    chosen: bool


class Engine:
    """Explains texts, joining requests into batches (`Batcher`).

    Attributes:
        classifier: that is explained. name: of it; both without the place of a local folder.
        explainers: by name, in the order given.

    Args:
        threads: of torch's operators; None: as torch is set.

    Raises ParamsError for two methods of one name or none, UnsupportedError for a method that cannot explain this
    classifier, and for a model that answers questions.
    """

    def __init__(
        self,
        classifier: Classifier,
        explainers: Sequence[Explainer],
        limits: Limits,
        metrics: Metrics,
        threads: int | None = None,
    ) -> None:
        if isinstance(classifier, QuestionAnswerer):
            raise UnsupportedError(f"{classifier.name}: answers questions; expected a classifier")
        if is_folder(classifier.name):
            # Where it is on this machine is nobody's business, and errors name it, too.
            place, classifier = Path(classifier.name), copy.copy(classifier)
            classifier.name = place.resolve().name
        self.classifier, self.name = classifier, classifier.name
        self.explainers: dict[str, Explainer] = {}
        for explainer in explainers:
            if explainer.name in self.explainers:
                raise ParamsError(f"method {explainer.name!r} comes twice; expected each once")
            explainer.check_explains(classifier)
            self.explainers[explainer.name] = explainer
        if not self.explainers:
            raise ParamsError("methods: got none; expected at least one")
        self._metrics = metrics
        self._batcher: Batcher[_Task, tuple[Segments, Any], Any] = Batcher(
            self._run, limits, lambda: self._begin(threads)
        )

    @property
    def ready(self) -> bool:
        return self._batcher.working

    @property
    def waiting(self) -> int:
        """Texts that wait for the model, each counted once a method."""
        return self._batcher.waiting

    @property
    def has_probabilities(self) -> bool:
        return self.classifier.problem is not Problem.REGRESSION

    def warm_up(self) -> None:
        """Explain one text by every method, before there are requests, so that the first one does not wait.

        Raises ExplearnError where a method cannot.
        """
        for name in self.explainers:
            self._batcher.run_alone(_Task(name, False), [(WARM_UP, WARM_UP if self._takes_pairs else None)])

    @property
    def _takes_pairs(self) -> bool:
        """Whether the classifier's prompt has a place for a second segment, which then every text must have."""
        completion = getattr(self.classifier, "completion", None)
        return completion is not None and completion.params.takes_pairs

    async def start(self) -> None:
        """Begin to work, in the running event loop."""
        self._batcher.start()

    async def close(self) -> None:
        await self._batcher.close()

    def check_names(self, methods: Sequence[str], labels: Sequence[str]) -> None:
        """Raise UnknownNameError for a method that is not served or a label that the classifier does not have."""
        for method in methods:
            if method not in self.explainers:
                raise UnknownNameError("method", method[:100], self.explainers)
        for label in labels:
            self.classifier.label_index(label)

    async def explain(
        self, method: str, texts: Sequence[Segments], labels: Sequence[str] = ()
    ) -> list[list[Attribution]]:
        """Of each text its attributions, one for each of `labels`; none: for what `Explainer.explain` chooses."""
        wanted = list(labels) or None
        return await self._batcher.submit(_Task(method, bool(wanted)), [(text, wanted) for text in texts])

    async def probabilities(self, texts: Sequence[Segments]) -> list[list[float]]:
        """Probabilities of the classifier's labels for each text."""
        return await self._batcher.submit(_Task(None, False), [(text, None) for text in texts])

    # ---- in the thread of the model ------------------------------------------------------------------------------

    def _begin(self, threads: int | None) -> None:
        if threads is not None:
            torch.set_num_threads(threads)

    def _run(self, task: _Task, items: Sequence[tuple[Segments, Any]]) -> Sequence[Any]:
        start = time.perf_counter()
        texts = [text for text, _ in items]
        found: Sequence[Any]
        if task.method is None:
            found = self.classifier.predict_proba(self.classifier.encode(texts)).tolist()
        else:
            targets = [wanted for _, wanted in items] if task.chosen else None
            found = list(self.explainers[task.method].explain_each(self.classifier, texts, targets))
        name = task.method or "probabilities"
        self._metrics.texts.labels(name).inc(len(items))
        self._metrics.batches.labels(name).observe(len(items))
        self._metrics.model_seconds.labels(name).inc(time.perf_counter() - start)
        return found

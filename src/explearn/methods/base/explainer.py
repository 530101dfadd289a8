"""The one interface of every method: (classifier, texts, targets) -> attributions.

A method says how to score the sub-tokens of some texts; the base class does the rest, the same for all: encoding,
targets, word scores from sub-token scores and progress. Most methods score one batch at a time (BatchExplainer) and
get batches of similar length within the token budget.
"""

from __future__ import annotations

import inspect
import os
import re
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch

from explearn.core.arguments import PATH, TEXT, arguments, or_none
from explearn.core.errors import ModelError, UnsupportedError
from explearn.core.records import Aggregation, Attribution
from explearn.core.settings import Section, check_section
from explearn.methods.base.asking import (
    Question,
    Target,
    check_classifier,
    encodings_of,
    parts_of,
    questions,
    targets_of,
)
from explearn.methods.base.attributing import attributions_of, joined_windows, with_windows
from explearn.methods.base.files import State, read_trained, told_as_model_error, write_trained
from explearn.methods.base.progress import Progress
from explearn.methods.base.scores import BatchScores, TextScores, resolve_targets
from explearn.methods.base.unread import tell_unread
from explearn.methods.info import About
from explearn.model.batching import run_batches
from explearn.model.encoding import Batch, Encoding
from explearn.model.problems import Problem
from explearn.model.windows import Windowed

if TYPE_CHECKING:
    # transformers takes seconds to import, and not every stage needs it.
    from explearn.methods.base.task_data import TaskData
    from explearn.model.classifier import Classifier
    from explearn.model.reading import Text

__all__ = [
    "BatchExplainer",
    "BatchScores",
    "Explainer",
    "LearnedExplainer",
    "TextScores",
    "resolve_targets",
]

CHUNK_TEXTS = 512
"""Texts held at a time: enough to find batches of similar length, few enough for streams of any length."""


class Explainer(ABC):
    """Base of all methods.

    Class attributes:
        Options: the declaration of the constructor's arguments: names, types, ranges, defaults and, below each field,
            what it means. The default is a method without options.
        about: what the method is, for the registry, the documentation and the report.
        aggregation: how the scores of a word's sub-tokens make its score: `max`, or `sum` where pieces add up.
        signed: whether scores below zero are evidence against the target; where training decides, an instance's own.
    """

    Options: ClassVar[type[Section]] = Section
    options: Any
    """What the constructor's arguments made of `Options`."""
    about: ClassVar[About]
    aggregation: ClassVar[Aggregation] = "max"
    signed: bool = False
    name: str = ""
    """Registry name; set by `explearn.methods.base.registry.get_explainer`."""
    threshold: float | None = None
    """Score from which a word counts as chosen, for methods whose own rule is a threshold."""
    needs_model: ClassVar[bool] = True
    """Whether the method looks inside the model; without, it explains any function of texts."""
    reads_weights: ClassVar[bool] = False
    """Whether the method computes with the model's weights by themselves: none may then be offloaded."""
    problems: frozenset[Problem] = frozenset(Problem)
    """Kinds of outputs that the method is defined for."""
    any_classifier: bool = False
    """Let a method that explains one classifier alone explain others, for checks of what explanations depend on."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "Options" in cls.__dict__:
            # What help, the command line and the registry read.
            cls.__signature__ = inspect.signature(cls.Options)  # type: ignore[attr-defined]

    def __init__(self, **options: Any) -> None:
        """Raises ParamsError, naming the option, for one that there is not or that has a bad value."""
        self.options = check_section(self.Options, options)

    @abstractmethod
    def score_texts(
        self, classifier: Classifier, encodings: Sequence[Encoding], targets: Sequence[int] | None
    ) -> list[TextScores]:
        """Score every sub-token of some texts, for `targets` or, if None, for the predicted classes; in order.

        `encodings` holds up to CHUNK_TEXTS texts; batches within `classifier.max_tokens` are the method's own affair.
        """

    def prepare(self) -> None:  # noqa: B027 (most have nothing to prepare)
        """Import and compile what takes seconds once a process; it is not counted in the time of any text."""

    def check(self, classifier: Classifier) -> None:  # noqa: B027 (accepting all is a default, not a gap)
        """Raise UnsupportedError if this method cannot explain this classifier. The default accepts all."""

    def notes(self) -> dict[str, Any]:
        """What a reader of the last explanations should know; JSON values. The default has nothing to say."""
        return {}

    def check_problem(self, classifier: Classifier) -> None:
        """Raise UnsupportedError for a classifier whose kind of outputs, or lack of a model, the method cannot take."""
        name = self.name or self.about.name
        check_classifier(classifier, name if self.reads_weights else "")
        if self.needs_model and not classifier.has_model:
            raise UnsupportedError(
                f"{name}: looks inside a model, which {classifier.name} does not show; use a method that asks for "
                "predictions alone, such as occlusion, lime, shap, kernel_shap or solvex"
            )
        if classifier.problem not in self.problems:
            raise UnsupportedError(f"{name}: {classifier.why_not(self.problems)}")

    def check_explains(self, classifier: Classifier) -> None:
        """Raise UnsupportedError, naming the method, for a classifier that it cannot explain.

        It asks `check_problem` and `check`, and raises what else they raise.
        """
        self.check_problem(classifier)
        try:
            self.check(classifier)
        except UnsupportedError as error:
            if not self.name or re.search(rf"\b{self.name}\b", str(error)):
                raise
            raise UnsupportedError(f"{self.name}: {error}") from error

    def explain(
        self,
        classifier: Classifier,
        texts: Iterable[Text],
        targets: Iterable[Target] | None = None,
        description: str | None = None,
        windows: int | None = None,
    ) -> Iterator[Attribution]:
        """Yield one attribution for each text and class asked for, in order.

        Words that the classifier did not read have no score; one line of the log says how many there were.

        Args:
            texts: strings, pairs of strings, or examples.
            targets: class to explain for each text, by name or index, or a list of several (default: the predicted
                class; of a multi-label classifier each label that holds, at least the most probable one; of a
                regression each value).
            description: what a progress bar should say (default: no bar).
            windows: read texts that are longer than the classifier takes through windows, this many sub-tokens apart,
                and join their scores (`explearn.model.windows`). The answer explained is then the mean of the windows'
                (default: longer texts are cut).

        Raises:
            DataError: a text without usable words; its number is named.
            ParamsError: not as many targets as texts, a string instead of texts, or a stride below 1.
            UnknownNameError: a target that is no class of the classifier.
            UnsupportedError: this method cannot explain this classifier.
        """
        return chain.from_iterable(self.explain_each(classifier, texts, targets, description, windows))

    @arguments(description=or_none(TEXT))
    def explain_each(
        self,
        classifier: Classifier,
        texts: Iterable[Text],
        targets: Iterable[Target] | None = None,
        description: str | None = None,
        windows: int | None = None,
    ) -> Iterator[list[Attribution]]:
        """As `explain`, but the attributions of each text together, one a class."""
        self.check_explains(classifier)
        texts_read = texts_cut = words_lost = 0
        with Progress(description, windows is not None, classifier.max_length) as progress:
            for chunk in questions(classifier, texts, targets, CHUNK_TEXTS, windows, progress.texts_read):
                found = self._explain_chunk(classifier, chunk, progress, windows is not None)
                for question in chunk:
                    of_text = list(islice(found, len(question.targets or (None,))))
                    lost = of_text[-1].unaligned
                    yield of_text
                    texts_read, texts_cut, words_lost = texts_read + 1, texts_cut + (lost > 0), words_lost + lost
                    if windows is None:
                        progress.advance(1)
        tell_unread(self.name or self.about.name, words_lost, texts_cut, texts_read, classifier.max_length)

    def _explain_chunk(
        self, classifier: Classifier, asked: Sequence[Question], progress: Progress, windowed: bool
    ) -> Iterator[Attribution]:
        """The attributions of some texts, each as soon as its windows are scored."""
        encodings, targets = encodings_of(asked), targets_of(asked)
        waiting = deque(question.text for question in asked for _ in question.targets or (None,))
        scored: deque[TextScores] = deque()
        progress.begin(len(encodings))
        costly = windowed and self.about.costly
        for part in parts_of(classifier, encodings, CHUNK_TEXTS, windowed, costly):
            with classifier.gathered():
                scored += self.score_texts(classifier, encodings[part], None if targets is None else targets[part])
            if windowed:
                progress.advance(part.stop - part.start)
            # Of each text and class what its windows were given.
            whole: list[tuple[Windowed, list[TextScores]]] = []
            while waiting and len(scored) >= len(waiting[0].windows):
                text = waiting.popleft()
                whole.append((text, [scored.popleft() for _ in text.windows]))
            joined = [windows[0] if len(windows) == 1 else joined_windows(text, windows) for text, windows in whole]
            found = self._attributions(classifier, [text.whole for text, _ in whole], joined)
            for attribution, (_, windows) in zip(found, whole, strict=True):
                yield attribution if len(windows) == 1 else with_windows(classifier, attribution, windows)

    def _attributions(
        self, classifier: Classifier, encodings: Sequence[Encoding], scored: Sequence[TextScores]
    ) -> list[Attribution]:
        """Attributions of texts that are read at once, in order."""
        method = self.name or self.about.name
        return attributions_of(classifier, encodings, scored, method, self.aggregation, self.signed)


class BatchExplainer(Explainer):
    """Base of methods that score the sub-tokens of a batch from passes over that batch, as most do."""

    passes: ClassVar[int] = 1
    """Copies of the text that a method holds in memory at once; the batches are smaller by this factor."""

    @abstractmethod
    def score_batch(self, classifier: Classifier, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        """Score every sub-token of a batch for `targets` (int64, (batch,)), or for the predicted classes if None."""

    def score_texts(
        self, classifier: Classifier, encodings: Sequence[Encoding], targets: Sequence[int] | None
    ) -> list[TextScores]:
        results: dict[int, TextScores] = {}

        def score(indices: list[int]) -> None:
            start = time.perf_counter()
            batch = classifier.batch([encodings[i] for i in indices])
            wanted = None
            if targets is not None:
                wanted = torch.tensor([targets[i] for i in indices], device=classifier.device)
            scored = self.score_batch(classifier, batch, wanted)
            scores = scored.scores.detach().float().cpu().numpy()
            logits = scored.logits.detach().double().cpu().numpy()
            chosen = scored.targets.tolist()
            errors = [None] * len(indices)
            if scored.completeness_error is not None:
                errors = scored.completeness_error.detach().double().cpu().tolist()
            unread = scored.unread or [0] * len(indices)
            seconds = (time.perf_counter() - start) / len(indices)
            for row, index in enumerate(indices):
                results[index] = TextScores(scores[row], logits[row], chosen[row], seconds, errors[row], unread[row])

        run_batches([len(e) for e in encodings], classifier, score, self.passes)
        return [results[i] for i in range(len(encodings))]


class LearnedExplainer(Explainer):
    """A method that is trained: `fit` it, or take a trained one from a folder.

    Class attributes:
        weights_file: name of the safetensors file in its folder.
        title: what messages call it (default: the name of the class).

    A subclass says what training made of it (`_state`) and rebuilds itself from that (`_restore`).
    """

    weights_file: ClassVar[str]
    title: ClassVar[str] = ""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if not cls.__dict__.get("title"):
            cls.title = cls.__name__

    @abstractmethod
    def fit(self, task: TaskData, *, description: str | None = None) -> Self:
        """Train for one task.

        Args:
            task: what to learn from; `explearn.methods.base.listed_task.ListedTask` makes one from lists of texts.
            description: what a progress bar should say (default: no bar).

        Raises DataError, ParamsError, ModelError or UnsupportedError, before training starts, where something it needs
        is missing or does not suit it.
        """

    @abstractmethod
    def _state(self) -> State:
        """What is to be saved. Raises ModelError where it was not trained."""

    @abstractmethod
    def _restore(self, state: State, folder: Path) -> None:
        """Become what `_state` was taken from; `folder` holds what `_save_beside` wrote."""

    def _save_beside(self, folder: Path) -> None:
        """Write what is neither configuration nor weights of its own."""

    @arguments(folder=PATH)
    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write configuration (JSON) and weights (safetensors) to a folder, atomically.

        The folder takes the place of an earlier one of a trained explainer. Raises ParamsError for a folder that holds
        anything else, ModelError where it was not trained.
        """
        write_trained(
            folder, self.weights_file, type(self).__name__, self.options.model_dump(), self._state(), self._save_beside
        )

    @classmethod
    @arguments(folder=PATH)
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> Self:
        """Read what `save_pretrained` wrote; raises ModelError for a missing or damaged file."""
        folder = Path(folder)
        with told_as_model_error(folder, cls.title):
            options, state = read_trained(folder, cls.weights_file, cls.__name__)
            explainer = cls(**options)
            explainer._restore(state, folder)
        return explainer

    def _untrained(self) -> ModelError:
        """What to raise where an untrained one is asked to explain."""
        return ModelError(
            f"this {self.title} is not trained; load a trained one with get_explainer(name, path=FOLDER), "
            "or --explainer FOLDER on the command line"
        )

    def _nothing_to_save(self) -> ModelError:
        """What `_state` is to raise where there was no training."""
        return ModelError(f"this {self.title} is not trained; there is nothing to save")

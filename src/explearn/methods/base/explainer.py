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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm.auto import tqdm

from explearn.core.batching import budget_batches
from explearn.core.errors import ModelError, ParamsError, UnsupportedError
from explearn.core.method_info import About
from explearn.core.records import Aggregation, Attribution
from explearn.core.settings import Section, check_section
from explearn.data.alignment import aggregate
from explearn.methods.base.files import State, read_trained, told_as_model_error, write_trained
from explearn.models.encoding import Batch, Encoding

if TYPE_CHECKING:
    # transformers takes seconds to import, and not every stage needs it.
    from explearn.methods.base.task_data import TaskData
    from explearn.models.classifier import Classifier, Text

SEED = 13
"""Of a learned method that is given none."""

CHUNK_TEXTS = 512
"""Texts held at a time: enough to find batches of similar length, few enough for streams of any length."""


@dataclass(frozen=True, slots=True)
class BatchScores:
    """What a method returns for a batch.

    scores: (batch, tokens), one number a position; those of special tokens and padding are ignored.
    logits: (batch, C), of the same forward pass, so that classification is not paid twice.
    targets: int64, (batch,), the classes explained.
    completeness_error: (batch,), for methods whose scores should add up to a known number: by how much they miss it.
        The scores of special tokens count towards the sum. None where the method makes no such promise.
    unread: of each text how many words the classifier reads and a model of the method's own does not. None: no word.
    """

    scores: torch.Tensor
    logits: torch.Tensor
    targets: torch.Tensor
    completeness_error: torch.Tensor | None = None
    unread: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class TextScores:
    """What a method returns for one text.

    scores: float, (tokens,) of the text's encoding; those of special tokens are ignored.
    logits: float, (C,). target: index of the class explained. seconds: this text's share of the time.
    completeness_error, unread: as in BatchScores.
    """

    scores: NDArray[Any]
    logits: NDArray[Any]
    target: int
    seconds: float
    completeness_error: float | None = None
    unread: int = 0


class Explainer(ABC):
    """Base of all methods. Subclasses store their options as given and set the class attributes.

    Class attributes:
        about: what the method is, for the registry, the documentation and the report.
        aggregation: how the scores of a word's sub-tokens make its score: `max`, or `sum` where pieces add up.
        signed: whether scores below zero are evidence against the target; where training decides, an instance's own.
    """

    about: ClassVar[About]
    aggregation: ClassVar[Aggregation] = "max"
    signed: bool = False
    name: str = ""
    """Registry name; set by `explearn.methods.base.registry.get_explainer`."""
    threshold: float | None = None
    """Score from which a word counts as chosen, for methods whose own rule is a threshold."""
    any_classifier: bool = False
    """Let a method that explains one classifier alone explain others, for checks of what explanations depend on."""

    @abstractmethod
    def score_texts(
        self, classifier: Classifier, encodings: Sequence[Encoding], targets: Sequence[int] | None
    ) -> list[TextScores]:
        """Score every sub-token of some texts, for `targets` or, if None, for the predicted classes; in order.

        `encodings` holds up to CHUNK_TEXTS texts; batches within `classifier.max_tokens` are the method's own affair.
        """

    def check(self, classifier: Classifier) -> None:  # noqa: B027 (accepting all is a default, not a gap)
        """Raise UnsupportedError if this method cannot explain this classifier. The default accepts all."""

    def notes(self) -> dict[str, Any]:
        """What a reader of the last explanations should know; JSON values. The default has nothing to say."""
        return {}

    def explain(
        self,
        classifier: Classifier,
        texts: Iterable[Text],
        targets: Iterable[int | str] | None = None,
        description: str | None = None,
    ) -> Iterator[Attribution]:
        """Yield one attribution for each text, in order.

        Args:
            texts: strings, pairs of strings, or examples.
            targets: class to explain for each text, by name or index (default: the predicted class).
            description: what a progress bar should say (default: no bar).

        Raises:
            DataError: a text without usable words; its number is named.
            ParamsError: not as many targets as texts, or a string instead of texts.
            UnknownNameError: a target that is no class of the classifier.
            UnsupportedError: this method cannot explain this classifier.
        """
        self._check_named(classifier)
        if isinstance(texts, str):
            raise ParamsError("texts: got one string; expected a list of texts")
        remaining, first = iter(texts), 1
        wanted = None if targets is None else iter(targets)
        with tqdm(desc=description, unit="text", disable=None if description else True) as bar:
            while chunk := list(islice(remaining, CHUNK_TEXTS)):
                indices = None
                if wanted is not None:
                    indices = [classifier.label_index(target) for target in islice(wanted, len(chunk))]
                    if len(indices) != len(chunk):
                        raise ParamsError("targets: fewer than texts; expected one for each text")
                for attribution in self._explain_chunk(classifier, classifier.encode(chunk, first), indices):
                    yield attribution
                    bar.update(1)
                first += len(chunk)
            if wanted is not None and next(wanted, None) is not None:
                raise ParamsError("targets: more than texts; expected one for each text")

    def _check_named(self, classifier: Classifier) -> None:
        """`check`, with the method's name in the refusal."""
        try:
            self.check(classifier)
        except UnsupportedError as error:
            if not self.name or re.search(rf"\b{self.name}\b", str(error)):
                raise
            raise UnsupportedError(f"{self.name}: {error}") from error

    def _explain_chunk(
        self, classifier: Classifier, encodings: Sequence[Encoding], targets: Sequence[int] | None
    ) -> list[Attribution]:
        found = self.score_texts(classifier, encodings, targets)
        return [self._attribution(classifier, e, scored) for e, scored in zip(encodings, found, strict=True)]

    def _attribution(self, classifier: Classifier, encoding: Encoding, scored: TextScores) -> Attribution:
        scores = np.asarray(scored.scores, dtype=np.float32)
        probabilities = torch.as_tensor(scored.logits, dtype=torch.float64).softmax(-1)
        target = scored.target
        word_scores, unaligned = aggregate(scores, encoding.word_ids, len(encoding.words), self.aggregation)
        return Attribution(
            words=encoding.words,
            scores=word_scores,
            tokens=classifier.tokens(encoding),
            token_scores=scores[encoding.positions],
            target=classifier.labels[target],
            method=self.name,
            probability=float(probabilities[target]),
            predicted=classifier.labels[int(probabilities.argmax())],
            aggregation=self.aggregation,
            signed=self.signed,
            # The words of an answer have no score, and were not lost.
            unaligned=unaligned + scored.unread - (encoding.answer[1] - encoding.answer[0] if encoding.answer else 0),
            seconds=scored.seconds,
            completeness_error=scored.completeness_error,
            example_id=encoding.example_id,
        )


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
        for indices in budget_batches([len(e) for e in encodings], max(1, classifier.max_tokens // self.passes)):
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
        return [results[i] for i in range(len(encodings))]


class WithOptions(Explainer):
    """Base of methods whose options are declared by a section of the parameters.

    Class attribute:
        section: the declaration: names, types, ranges, defaults and, below each field, what it means.

    Attributes:
        options: the section that the constructor's arguments made.
        seed: of all that is random.
    """

    section: ClassVar[type[Section]]
    options: Section

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "section" in cls.__dict__:
            # What help, the command line and the registry read.
            fields = [*inspect.signature(cls.section).parameters.values()]
            seed = inspect.Parameter("seed", inspect.Parameter.KEYWORD_ONLY, default=SEED)
            cls.__signature__ = inspect.Signature([*fields, seed])  # type: ignore[attr-defined]

    def __init__(self, *, seed: int = SEED, **options: Any) -> None:
        """Raises ParamsError, naming the option, for one that there is not or that has a bad value."""
        self.options = check_section(self.section, options)
        self.seed = seed

    def all_options(self) -> dict[str, Any]:
        """Every option by name, the seed among them; JSON values."""
        return {**self.options.model_dump(), "seed": self.seed}


class LearnedExplainer(WithOptions):
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

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write configuration (JSON) and weights (safetensors) to a folder, atomically.

        Raises ModelError where it was not trained.
        """
        write_trained(
            folder, self.weights_file, type(self).__name__, self.all_options(), self._state(), self._save_beside
        )

    @classmethod
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


class RefiningExplainer(WithOptions):
    """A method that starts from another, trained one and goes on with it on every text it explains."""

    @classmethod
    @abstractmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], **options: Any) -> Self:
        """Make the method, with constructor arguments `options`, from the folder of the trained one it starts from.

        Raises ModelError for a missing or damaged file, ParamsError for an option's bad value.
        """


def resolve_targets(logits: torch.Tensor, targets: torch.Tensor | None) -> torch.Tensor:
    """The given classes, or the predicted ones."""
    return logits.argmax(-1) if targets is None else targets

"""The one interface of every method: (classifier, texts, targets) -> attributions.

A method scores the sub-tokens of some texts; the base class does the rest, the same for all: encoding, targets, word
scores from sub-token scores and progress. Most methods score one batch at a time (BatchExplainer) and get batches of
similar length within the token budget.
"""

from __future__ import annotations

import inspect
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar, cast

import torch
from tqdm.auto import tqdm

from explearn.core.errors import UnsupportedError, located
from explearn.core.records import Aggregation, Attribution
from explearn.core.validation import Section, check_section
from explearn.methods.base.attributions import BatchScores, TextScores, attribution_of, resolve_targets
from explearn.methods.base.targets import Target, TargetedText, check_classifier, targeted_texts, windows_of
from explearn.methods.info import About, Variant
from explearn.model.batching import run_batches
from explearn.model.encoding import Batch, Encoding
from explearn.model.problems import Problem
from explearn.text.units import Unit, unit_name

if TYPE_CHECKING:
    # transformers takes seconds to import, and not every stage needs it.
    from explearn.model.classifier import Classifier, ZeroShotClassifier
    from explearn.model.encoding import Text

__all__ = ["BatchExplainer", "BatchScores", "Explainer", "TextScores", "resolve_targets", "unread_words_known"]

logger = logging.getLogger(__name__)

CHUNK_TEXTS = 512
"""Texts held at a time: enough to find batches of similar length, few enough for streams of any length."""

CHUNK_LONG_TEXTS = 16
"""The same where texts are read through windows, all of which are held."""

_unread_known: ContextVar[bool] = ContextVar("unread words are known", default=False)


@contextmanager
def unread_words_known() -> Iterator[None]:
    """Within it no method warns of unread words: for a caller that explains the same texts again and again."""
    before = _unread_known.set(True)
    try:
        yield
    finally:
        _unread_known.reset(before)


class Explainer(ABC):
    """Base of all methods.

    Class attributes:
        Options: the declaration of the constructor's arguments: names, types, ranges, defaults and, below each field,
            their meaning. The default is a method without options.
        about: what the method is, for the registry, the documentation and the report.
        variants: other names of the method with some options, by name.
        aggregation: how the scores of a word's sub-tokens make its score: `max`, or `sum` where pieces add up.
        signed: whether scores below zero are evidence against the target; where training decides, an instance's own.
    """

    Options: ClassVar[type[Section]] = Section
    options: Any
    """The constructor's arguments, checked against `Options`."""
    about: ClassVar[About]
    variants: ClassVar[Mapping[str, Variant]] = {}
    aggregation: Aggregation = "max"
    signed: bool = False
    name: str = ""
    """Name of the method, or of the variant that the object was made as."""
    threshold: float | None = None
    """Score from which a word counts as chosen, for methods whose own rule is a threshold."""
    needs_model: bool = True
    """Whether it looks inside the model; without, it explains any function of texts. `l2e` decides in training."""
    perturbs: ClassVar[bool] = False
    """Whether the method leaves parts of the text out: the units that are scored, whatever they are."""
    reads_weights: ClassVar[bool] = False
    """Whether the method computes with the model's weights by themselves: none may then be offloaded."""
    problems: frozenset[Problem] = frozenset(Problem)
    """Kinds of outputs that the method is defined for."""
    any_classifier: bool = False
    """Let a method that explains one classifier alone explain others, for checks of what explanations depend on."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "about" in cls.__dict__:
            cls.name = cls.about.name
        if "Options" in cls.__dict__:
            # For `help` and notebooks.
            cls.__signature__ = inspect.signature(cls.Options)  # type: ignore[attr-defined]

    def __init__(self, **options: Any) -> None:
        """Raises ParamsError, naming the option, for one that the method does not have or that has a bad value."""
        with located(f"{self.name}: "):
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
        """Return what a reader of the last explanations should know; JSON values. The default is nothing."""
        return {}

    def check_problem(self, classifier: Classifier) -> None:
        """Raise UnsupportedError for a classifier whose kind of outputs, or lack of a model, the method cannot take."""
        check_classifier(classifier, self.name if self.reads_weights else "")
        if self.needs_model and not classifier.has_model:
            raise UnsupportedError(
                f"{self.name}: looks inside a model, which {classifier.name} does not show; use a method that needs "
                "predictions alone, such as occlusion, lime, shap, kernel_shap or solvex, or train l2e for it"
            )
        if classifier.problem not in self.problems:
            raise UnsupportedError(f"{self.name}: {classifier.why_not(self.problems)}")

    def check_explains(self, classifier: Classifier) -> None:
        """Raise UnsupportedError, naming the method, for a classifier that it cannot explain."""
        self.check_problem(classifier)
        if self.needs_model and classifier.nli is not None:
            classifier = classifier.nli
            self.check_problem(classifier)
        try:
            self.check(classifier)
        except UnsupportedError as error:
            if str(error).startswith(self.name):
                raise
            raise UnsupportedError(f"{self.name}: {error}") from error

    def explain(
        self,
        classifier: Classifier,
        texts: Iterable[Text],
        targets: Iterable[Target] | None = None,
        description: str | None = None,
        windows: int | None = None,
        unit: Unit = "word",
    ) -> Iterator[Attribution]:
        """Yield one attribution for each text and class to explain, in order.

        Words that the classifier did not read have no score; one line of the log says how many there were.

        Args:
            texts: strings, pairs of strings, or examples.
            targets: class to explain for each text, by name or index, or a list of several (default: the predicted
                class; of a multi-label classifier each label that holds, at least the most probable one; of a
                regression each value).
            description: text of a progress bar (default: no bar).
            windows: read texts that are longer than the classifier takes through windows, this many sub-tokens apart,
                and join their scores (`explearn.model.windows`). The answer explained is then the mean of the windows'
                (default: longer texts are cut).
            unit: what is scored: `word`, `token`, `phrase`, `sentence`, the matches of a compiled pattern, or what a
                function finds in a text, [start, end) in characters. Methods that perturb texts leave out units; of
                all others, and of phrases, which are found from the words' scores (`explearn.text.units`), the scores
                of a unit's sub-tokens are put together as those of a word's (`aggregation`).

        Raises:
            DataError: a text without usable words, or without a unit; its number is named.
            ParamsError: not as many targets as texts, a string instead of texts, a stride below 1, or what is no unit.
            UnknownNameError: a target that is no class of the classifier.
            UnsupportedError: this method cannot explain this classifier.
        """
        return chain.from_iterable(self.explain_each(classifier, texts, targets, description, windows, unit))

    def explain_each(
        self,
        classifier: Classifier,
        texts: Iterable[Text],
        targets: Iterable[Target] | None = None,
        description: str | None = None,
        windows: int | None = None,
        unit: Unit = "word",
    ) -> Iterator[list[Attribution]]:
        """Do as `explain`, but yield the attributions of each text together, one a class."""
        self.check_explains(classifier)
        texts_read = texts_cut = words_unread = 0
        chunk_texts = CHUNK_TEXTS if windows is None else CHUNK_LONG_TEXTS
        name = unit_name(unit)
        with tqdm(desc=description, unit="text", disable=None if description else True) as bar:
            for chunk in targeted_texts(classifier, texts, targets, windows, chunk_texts, unit):
                with torch.inference_mode(False), classifier.gathered():
                    scores = iter(self._score_chunk(classifier, chunk))
                for one in chunk:
                    of_windows = [list(islice(scores, len(one.text.windows))) for _ in one.targets]
                    attributions = [
                        attribution_of(classifier, one.units, rows, self.name, self.aggregation, self.signed, name)
                        for rows in of_windows
                    ]
                    unread = attributions[-1].unaligned
                    yield attributions
                    texts_read += 1
                    texts_cut += unread > 0
                    words_unread += unread
                    bar.update()
        if words_unread and not _unread_known.get():
            logger.warning(
                "%s: %s %ss of %s of %s texts were not read, being beyond %s sub-tokens or of no known characters; "
                "they have no score",
                self.name,
                f"{words_unread:,}",
                name,
                *(f"{number:,}" for number in (texts_cut, texts_read, classifier.max_length)),
            )

    def _score_chunk(self, classifier: Classifier, chunk: Sequence[TargetedText]) -> list[TextScores]:
        """Score some texts; what looks inside a zero-shot classifier sees each with the hypothesis of its target."""
        encodings, targets = windows_of(chunk, self.perturbs)
        if not self.needs_model or classifier.nli is None:
            return self.score_texts(classifier, encodings, targets)
        zero_shot = cast("ZeroShotClassifier", classifier)
        start = time.perf_counter()
        logits = zero_shot.logits_of(encodings)
        labels = logits.argmax(-1).tolist() if targets is None else targets
        seconds = (time.perf_counter() - start) / len(encodings)
        pairs = zero_shot.pairs(encodings, labels)
        scored = self.score_texts(zero_shot.nli, pairs, [zero_shot.entailment] * len(pairs))
        return [
            replace(one, logits=row, target=label, seconds=one.seconds + seconds)
            for one, row, label in zip(scored, logits, labels, strict=True)
        ]


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
        def score(indices: list[int]) -> list[TextScores]:
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
            certificates: Sequence[Any] = scored.certificates or [None] * len(indices)
            seconds = (time.perf_counter() - start) / len(indices)
            return [
                TextScores(scores[row], logits[row], chosen[row], seconds, errors[row], unread[row], certificates[row])
                for row in range(len(indices))
            ]

        return run_batches([len(e) for e in encodings], classifier, score, self.passes)

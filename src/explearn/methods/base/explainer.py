"""The one interface of every method: (classifier, texts, targets) -> attributions.

A method scores the sub-tokens of some texts; the base class does the rest: encoding, targets, word scores from
sub-token scores, and progress. Most methods score one batch at a time (BatchExplainer) and get batches of similar
length within the token budget.
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

from explearn.core.attribution import Aggregation, Attribution
from explearn.core.errors import UnsupportedError, located
from explearn.core.validation import Section, check_section
from explearn.methods.base.attributions import BatchScores, TextScores, attribution_of, resolve_targets
from explearn.methods.base.targets import Target, TargetedText, check_classifier, targeted_texts, windows_of
from explearn.methods.info import About, Variant
from explearn.predictors.batching import run_batches
from explearn.predictors.encoding import Batch, Encoding
from explearn.predictors.problems import Problem
from explearn.text.units import Unit, unit_name

if TYPE_CHECKING:
    # transformers takes seconds to import, and not every stage needs it.
    from explearn.predictors.encoding import Text
    from explearn.predictors.heads.zero_shot import ZeroShotPredictor
    from explearn.predictors.transformer import TransformerPredictor

__all__ = ["BatchExplainer", "BatchScores", "Explainer", "TextScores", "resolve_targets", "unread_words_known"]

logger = logging.getLogger(__name__)

CHUNK_TEXTS = 512
"""Texts buffered at a time: enough to form batches of similar length, few enough for streams of any length."""

CHUNK_LONG_TEXTS = 16
"""The same for texts read through windows, all of which are held."""

_unread_known: ContextVar[bool] = ContextVar("unread words are known", default=False)


@contextmanager
def unread_words_known() -> Iterator[None]:
    """Suppress warnings about unread words within the block, for callers that explain the same texts repeatedly."""
    before = _unread_known.set(True)
    try:
        yield
    finally:
        _unread_known.reset(before)


class Explainer(ABC):
    """Base of all methods.

    Class attributes:
        Options: declaration of the constructor's arguments: names, types, ranges, defaults and, below each field, their
            meaning. The default is no options.
        about: facts about the method, for the registry, the documentation and the report.
        variants: other names of the method with other options, by name.
        aggregation: how sub-token scores are combined to word scores: `max`, or `sum` for additive scores.
        signed: whether scores below zero are evidence against the target; an instance's own if training decides.
    """

    Options: ClassVar[type[Section]] = Section
    options: Any
    """The constructor's arguments, checked against `Options`."""
    about: ClassVar[About]
    variants: ClassVar[Mapping[str, Variant]] = {}
    aggregation: Aggregation = "max"
    signed: bool = False
    name: str = ""
    """Name of the method or variant."""
    threshold: float | None = None
    """Score from which a word is chosen, for methods whose own rule is a threshold."""
    needs_model: bool = True
    """Whether it looks inside the model; if not, it explains any function of texts. `l2e` decides in training."""
    perturbs: ClassVar[bool] = False
    """Whether the method leaves out the scored units of the text."""
    reads_weights: ClassVar[bool] = False
    """Whether the method reads the model's weights directly, so that none may be offloaded."""
    problems: frozenset[Problem] = frozenset(Problem)
    """Kinds of outputs that the method supports."""
    any_classifier: bool = False
    """Let a method that explains only its own classifier explain others, for sanity checks."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "about" in cls.__dict__:
            cls.name = cls.about.name
        if "Options" in cls.__dict__:
            # For `help` and notebooks.
            cls.__signature__ = inspect.signature(cls.Options)  # type: ignore[attr-defined]

    def __init__(self, **options: Any) -> None:
        """Raise ParamsError, naming the option, for an unknown option or a bad value."""
        with located(f"{self.name}: "):
            self.options = check_section(self.Options, options)

    @abstractmethod
    def score_texts(
        self, classifier: TransformerPredictor, encodings: Sequence[Encoding], targets: Sequence[int] | None
    ) -> list[TextScores]:
        """Score every sub-token of some texts, for `targets` or, if None, for the predicted classes; in order.

        `encodings` holds up to CHUNK_TEXTS texts; the method makes batches within `classifier.max_tokens`.
        """

    def check(self, classifier: TransformerPredictor) -> None:  # noqa: B027 (accepting all is a default, not a gap)
        """Raise UnsupportedError if this method cannot explain this classifier. The default accepts all."""

    def notes(self) -> dict[str, Any]:
        """Return notes on the last explanations, as JSON values. The default is none."""
        return {}

    def check_problem(self, classifier: TransformerPredictor) -> None:
        """Raise UnsupportedError for a classifier whose kind of outputs, or lack of a model, the method does not
        support."""
        check_classifier(classifier, self.name if self.reads_weights else "")
        if self.needs_model and not classifier.has_model:
            raise UnsupportedError(
                f"{self.name}: looks inside a model, which {classifier.name} does not expose; use a method that needs "
                "only predictions, such as occlusion, lime, shap, kernel_shap or solvex, or train l2e for it"
            )
        if classifier.problem not in self.problems:
            raise UnsupportedError(f"{self.name}: {classifier.why_not(self.problems)}")

    def check_explains(self, classifier: TransformerPredictor) -> None:
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
        classifier: TransformerPredictor,
        texts: Iterable[Text],
        targets: Iterable[Target] | None = None,
        description: str | None = None,
        windows: int | None = None,
        unit: Unit = "word",
    ) -> Iterator[Attribution]:
        """Yield one attribution for each text and class to explain, in order.

        Words that the classifier did not read have no score; their number is logged.

        Args:
            texts: strings, pairs of strings, or examples.
            targets: class to explain for each text, by name or index, or a list of several (default: the predicted
                class; for a multi-label classifier each label that applies, at least the most probable one; for a
                regression each value).
            description: text of a progress bar (default: no bar).
            windows: read texts that are too long for the classifier through windows, this many sub-tokens apart, and
                combine their scores (`explearn.predictors.windows`); the mean of the windows' outputs is then explained
                (default: longer texts are cut).
            unit: what is scored: `word`, `token`, `phrase`, `sentence`, the matches of a compiled pattern, or the
                [start, end) character spans that a function returns. Methods that perturb texts leave out whole units;
                other methods aggregate the scores of a unit's sub-tokens as for words (`aggregation`). Phrases are
                found from the words' scores (`explearn.text.units`).

        Raises:
            DataError: a text without usable words, or without a unit; the message names its number.
            ParamsError: not as many targets as texts, a string instead of texts, a stride below 1, an invalid unit.
            UnknownNameError: a target that is not a class of the classifier.
            UnsupportedError: this method cannot explain this classifier.
        """
        return chain.from_iterable(self.explain_each(classifier, texts, targets, description, windows, unit))

    def explain_each(
        self,
        classifier: TransformerPredictor,
        texts: Iterable[Text],
        targets: Iterable[Target] | None = None,
        description: str | None = None,
        windows: int | None = None,
        unit: Unit = "word",
    ) -> Iterator[list[Attribution]]:
        """Do as `explain`, but yield each text's attributions together, one per class."""
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

    def _score_chunk(self, classifier: TransformerPredictor, chunk: Sequence[TargetedText]) -> list[TextScores]:
        """Score some texts; methods that look inside a zero-shot classifier see each with its target's hypothesis."""
        encodings, targets = windows_of(chunk, self.perturbs)
        if not self.needs_model or classifier.nli is None:
            return self.score_texts(classifier, encodings, targets)
        zero_shot = cast("ZeroShotPredictor", classifier)
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
    """Base of methods that score the sub-tokens of one batch at a time, as most do."""

    passes: ClassVar[int] = 1
    """Copies of the text that the method holds in memory; batches are smaller by this factor."""

    @abstractmethod
    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        """Score every sub-token of a batch for `targets` (int64, (batch,)), or for the predicted classes if None."""

    def score_texts(
        self, classifier: TransformerPredictor, encodings: Sequence[Encoding], targets: Sequence[int] | None
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

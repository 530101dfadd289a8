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
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from copy import copy
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import torch

from explearn.core.attribution import Aggregation, Attribution
from explearn.core.errors import ModelError, UnansweredError, UnsupportedError, listed, located, shown
from explearn.core.validation import Section, check_section
from explearn.methods.base.attributions import (
    BatchScores,
    TextScores,
    attribution_of,
    check_scores,
    check_texts,
    resolve_targets,
)
from explearn.methods.base.targets import Target, TargetedText, check_classifier, targeted_texts, windows_of
from explearn.methods.info import About, Variant, blaming_package
from explearn.predictors.batching import progress, run_batches
from explearn.predictors.encoding import Batch, Encoding, Text
from explearn.predictors.labelled import Output, Problem, check_problem
from explearn.predictors.predictor import Predictor, transformer_of
from explearn.show.blocks import several
from explearn.text.encoding import name_of
from explearn.text.units import Unit, unit_name

if TYPE_CHECKING:
    from explearn.core.bundles import ClassifierFacts

__all__ = [
    "About",
    "Batch",
    "BatchExplainer",
    "BatchScores",
    "Encoding",
    "Explainer",
    "Text",
    "TextScores",
    "Variant",
    "resolve_targets",
    "unread_words_known",
]

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

    Attributes:
        Options: declaration of the constructor's arguments: names, types, ranges, defaults and, below each field, their
            meaning. The default is no options.
        about: facts about the method, for the registry, the documentation and the report.
        variants: other names of the method with other options, by name.
        aggregation: how sub-token scores are combined to word scores: `max`, or `sum` for additive scores.
        signed: whether scores below zero are evidence against the target; an instance's own if training decides.

    Example:
        >>> import numpy as np
        >>> from explearn import About, Explainer
        >>> from explearn.methods.base.explainer import TextScores
        >>> from explearn.testing import make_classifier
        >>> class Position(Explainer):
        ...     '''Position of each sub-token.'''
        ...
        ...     about = About(name="position", family="chance", cost="one forward pass")
        ...
        ...     def score_texts(self, classifier, encodings, targets):
        ...         rows = classifier.predict_logits(encodings)
        ...         return [
        ...             TextScores(np.arange(len(encoding)), row, int(row.argmax()), seconds=0.0)
        ...             for encoding, row in zip(encodings, rows)
        ...         ]
        >>> (attribution,) = Position().explain(make_classifier(), ["the quick fox"])
        >>> attribution.scores
        array([1., 2., 3.], dtype=float32)
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
    folder: Path | None = None
    """Folder of the trained explainer or bundle that it was loaded from."""
    made_for: ClassifierFacts | None = None
    """The only classifier that its bundle is for. None: any that the method supports."""
    classifier_folder: Path | None = None
    """Folder of the classifier that came with it, for `explearn.load_classifier`."""
    threshold: float | None = None
    """Score from which a word is chosen, for methods whose own rule is a threshold."""
    needs_model: bool = True
    """Whether it looks inside the model; if not, it explains any function of texts. `reader` decides in training."""
    perturbs: ClassVar[bool] = False
    """Whether the method leaves out the scored units of the text."""
    reads_weights: ClassVar[bool] = False
    """Whether the method reads the model's weights directly, so that none may be offloaded."""
    problems: frozenset[Problem] = frozenset(Problem)
    """Kinds of outputs that the method supports."""

    @property
    def output(self) -> Output | Literal[""]:
        """The output of the class that scores are parts of; empty: none. Of signed methods what their option says."""
        if not self.signed:
            return ""
        output: Output | Literal[""] = getattr(self.options, "output", "")
        return output

    def __repr__(self) -> str:
        """Return the method's name with the options that differ from its defaults."""
        own: Mapping[str, Any] = {}
        if self.name in self.variants:
            own = self.variants[self.name].options
        default = self.Options.model_construct(**own)
        changed = [f"{name}={value!r}" for name, value in self.options if value != getattr(default, name, None)]
        return f"{self.name}({', '.join(changed)})"

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "about" in cls.__dict__:
            cls.name = cls.about.name
        if "Options" in cls.__dict__:
            # For `help` and notebooks.
            cls.__signature__ = inspect.signature(cls.Options)  # type: ignore[attr-defined]

    def __init__(self, /, **options: Any) -> None:
        """Check the options and store them.

        Raises:
            ParamsError: an unknown option or a bad value; the message names the option.
        """
        with located(f"{self.name}: "):
            self.options = check_section(self.Options, options)

    @abstractmethod
    def score_texts(
        self, classifier: Any, encodings: Sequence[Encoding], targets: Sequence[int] | None
    ) -> list[TextScores]:
        """Score every sub-token of some texts.

        Args:
            classifier: a `TransformerPredictor` if `needs_model`, else any `Predictor`.
            encodings: up to CHUNK_TEXTS texts; the method makes batches within `classifier.max_tokens`.
            targets: index of the class to explain for each text. None: the predicted classes.

        Returns:
            The scores of each text, in order.
        """

    def check(self, classifier: Any) -> None:  # noqa: B027 (accepting all is a default, not a gap)
        """Raise UnsupportedError if this method cannot explain this classifier. The default accepts all.

        Args:
            classifier: the classifier.
        """

    def check_trained_for(self, classifier: Any) -> None:  # noqa: B027
        """Raise UnsupportedError if this method was trained for another classifier. The default accepts all.

        Args:
            classifier: the classifier.
        """

    def check_made_for(self, classifier: Predictor) -> None:
        """Check that it explains any classifier, or comes from a bundle for this one.

        Args:
            classifier: the classifier.

        Raises:
            ModelError: it comes from a bundle for another classifier.
        """
        if self.made_for is None:
            return
        check_classifier(classifier)
        if classifier.fingerprint != self.made_for.fingerprint:
            raise ModelError(
                f"{self.folder}: made for the classifier with fingerprint {self.made_for.fingerprint[:12]} "
                f"({self.made_for.name or 'without a name'}), but {classifier.name} has "
                f"{classifier.fingerprint[:12]}; expected the same weights and labels"
            )

    def for_view(self, classifier: Predictor) -> Self:
        """Return the explainer for views of a classifier, such as `versus`, which have fingerprints of their own.

        Args:
            classifier: the classifier.

        Raises:
            ModelError: it comes from a bundle for another classifier.
        """
        self.check_made_for(classifier)
        explainer = copy(self)
        explainer.made_for = None
        return explainer

    def settings(self) -> dict[str, Any]:
        """Return all that its scores depend on but the classifier, as JSON values."""
        return self.options.model_dump(mode="json")  # type: ignore[no-any-return]

    def notes(self) -> dict[str, Any]:
        """Return notes on the last explanations, as JSON values. The default is none."""
        return {}

    def check_problem(self, classifier: Predictor) -> Any:
        """Return what the method sees of a classifier: its transformer if the method looks inside, else itself.

        Args:
            classifier: the classifier.

        Raises:
            UnsupportedError: the method does not support the classifier's kind of outputs, or looks inside a model and
                there is none.
        """
        check_classifier(classifier)
        if self.reads_weights and classifier.transformer is not None:
            classifier.transformer.check_readable(self.name)
        seen = classifier
        if self.needs_model:
            try:
                seen = transformer_of(classifier)
            except UnsupportedError as error:
                raise UnsupportedError(f"{self.name}: {error}") from error
        for predictor in (classifier, seen):
            check_problem(predictor, self.problems, self.name)
        return seen

    def check_explains(self, classifier: Predictor, other_models: bool = False) -> None:
        """Raise UnsupportedError, naming the method, for a classifier that it cannot explain.

        Args:
            classifier: the classifier.
            other_models: accept also models that the method was not trained for.

        Raises:
            ModelError: it comes from a bundle for another classifier.
        """
        if not other_models:
            self.check_made_for(classifier)
        seen = self.check_problem(classifier)
        try:
            with blaming_package(type(self), self.name):
                self.check(seen)
                if not other_models:
                    self.check_trained_for(seen)
        except UnsupportedError as error:
            if str(error).startswith(self.name):
                raise
            raise UnsupportedError(f"{self.name}: {error}") from error

    def explain(
        self,
        classifier: Any,
        texts: Text | Iterable[Text],
        targets: Target | Iterable[Target] | None = None,
        description: str | None = None,
        windows: int | None = None,
        unit: Unit = "word",
        other_models: bool = False,
        aggregation: Aggregation | None = None,
    ) -> list[Attribution]:
        """Return one attribution for each text and class to explain, in order.

        Words that the classifier did not read have no score; their number is logged. A text is left out, and named in
        the log, if the classifier gives no answer to it or to a changed copy that the method asks about.

        Args:
            classifier: the classifier; `explearn.load_classifier` loads one.
            texts: strings, pairs of strings, or examples; or a single one.
            targets: class to explain, by name or index: one for all texts, or a list with an entry (a class, or a list
                of several) for each text; of a single text a class or a list of several. None: the predicted class;
                for a multi-label classifier each label that applies, at least the most probable one; for a regression
                each value.
            description: text of a progress bar. None: no bar.
            windows: read texts that are too long for the classifier through windows, this many sub-tokens apart, and
                combine their scores (`explearn.predictors.windows`); the mean of the windows' outputs is then
                explained. None: longer texts are cut.
            unit: what is scored: `word`, `token`, `phrase`, `sentence`, the matches of a compiled pattern, or the
                [start, end) character spans that a function returns. Methods that perturb texts leave out whole units;
                other methods aggregate the scores of a unit's sub-tokens as for words (`aggregation`). Phrases are
                found from the words' scores (`explearn.text.units`).
            other_models: explain also a model that a trained explainer was not trained for, as sanity checks do.
            aggregation: how sub-token scores are combined to word scores. None: in the method's own way.

        Raises:
            DataError: a text without usable words, or without a unit; the message names its number.
            ParamsError: not as many targets as texts, a stride below 1, an invalid unit.
            UnansweredError: no text has all the answers that the method needs.
            UnknownNameError: a target that is not a class of the classifier.
            UnsupportedError: this method cannot explain this classifier.

        Example:
            >>> import explearn
            >>> from explearn.testing import make_classifier
            >>> method = explearn.get_explainer("rollout")
            >>> attributions = method.explain(make_classifier(), ["the quick brown fox"])
            >>> attributions[0].words
            ('the', 'quick', 'brown', 'fox')
        """
        by_text = self.iter_explain(classifier, texts, targets, description, windows, unit, other_models, aggregation)
        return list(chain.from_iterable(by_text))

    def iter_explain(
        self,
        classifier: Any,
        texts: Text | Iterable[Text],
        targets: Target | Iterable[Target] | None = None,
        description: str | None = None,
        windows: int | None = None,
        unit: Unit = "word",
        other_models: bool = False,
        aggregation: Aggregation | None = None,
    ) -> Iterator[list[Attribution]]:
        """Do as `explain` for a stream of any length: yield each text's attributions, one for each class to explain.

        Args:
            classifier: as for `explain`.
            texts: as for `explain`; any iterable, which is read as needed.
            targets: as for `explain`; a list has an entry for each text.
            description: text of a progress bar. None: no bar.
            windows: as for `explain`.
            unit: as for `explain`.
            other_models: as for `explain`.
            aggregation: as for `explain`.
        """
        self.check_explains(classifier, other_models)
        aggregation = aggregation or self.aggregation
        chunk_texts = CHUNK_TEXTS
        if windows is not None:
            chunk_texts = CHUNK_LONG_TEXTS
        name = unit_name(unit)
        unread = 0
        first_unread = ""
        number = 0
        unanswered: list[str] = []
        total = len(texts) if isinstance(texts, list) else None
        with progress(description, total) as bar:
            for chunk in targeted_texts(classifier, texts, targets, windows, chunk_texts, unit):
                with torch.inference_mode(False), _gathered(classifier):
                    scored = self._score_answered(classifier, chunk)
                for targeted, scores in zip(chunk, scored, strict=True):
                    number += 1
                    bar.update()
                    if isinstance(scores, UnansweredError):
                        unanswered.append(name_of(targeted.text.whole.example_id, number))
                        last_error = scores
                        yield []
                        continue
                    attributions = []
                    for _ in targeted.targets:
                        by_window = list(islice(scores, len(targeted.text.windows)))
                        attribution = attribution_of(
                            classifier,
                            targeted.units,
                            by_window,
                            self.name,
                            aggregation,
                            self.signed,
                            name,
                            self.output,
                        )
                        attributions.append(attribution)
                    yield attributions
                    last = attributions[-1]
                    if last.unaligned and not unread:
                        # What only the method's own model has not read has a score; it is at the end.
                        lost = [word for word, read in zip(last.words, last.read, strict=True) if not read]
                        word = lost[0] if lost else last.words[-1]
                        first_unread = f"{shown(word)} of {name_of(last.example_id, number)}"
                    unread += last.unaligned
        if unanswered and len(unanswered) == number:
            raise last_error
        if unanswered:
            logger.warning(
                "%s: %s of %s left out, since the classifier gives no answer, or none without some words: %s",
                self.name,
                f"{len(unanswered):,}",
                several(number, "text"),
                listed(unanswered),
            )
        if unread and not _unread_known.get():
            logger.warning(
                "%s: %s not read, being beyond %s sub-tokens or of no known characters, and without a score (such "
                "as %s)",
                self.name,
                several(unread, name),
                f"{classifier.max_length:,}",
                first_unread,
            )

    def _score_answered(
        self, classifier: Predictor, chunk: Sequence[TargetedText]
    ) -> list[Iterator[TextScores] | UnansweredError]:
        """Return the scores of each text, by targets, then windows; an error where the classifier gives no answer."""
        try:
            scores = iter(self._score_chunk(classifier, chunk))
        except UnansweredError as error:
            if len(chunk) == 1:
                return [error]
            half = len(chunk) // 2
            return [*self._score_answered(classifier, chunk[:half]), *self._score_answered(classifier, chunk[half:])]
        by_text: list[Iterator[TextScores] | UnansweredError] = []
        for text in chunk:
            by_text.append(iter(list(islice(scores, len(text.targets) * len(text.text.windows)))))
        return by_text

    def _score_chunk(self, classifier: Predictor, chunk: Sequence[TargetedText]) -> list[TextScores]:
        """Score some texts; methods that look inside get the transformer, and the texts as it reads them."""
        encodings, targets = windows_of(chunk, self.perturbs)
        if not self.needs_model:
            return self._scores(classifier, encodings, targets)
        start = time.perf_counter()
        inside = classifier.inside(encodings, targets)
        seconds = (time.perf_counter() - start) / len(encodings)
        scored = self._scores(classifier.transformer, inside.encodings, inside.targets)
        if inside.answers is None:
            return scored
        answered = []
        for scores, logits, target in zip(scored, *inside.answers, strict=True):
            answered.append(replace(scores, logits=logits, target=target, seconds=scores.seconds + seconds))
        return answered

    def _scores(
        self, classifier: Any, encodings: Sequence[Encoding], targets: Sequence[int] | None
    ) -> list[TextScores]:
        """Return checked scores. Raises MethodError, naming the package, if a method of another package fails."""
        with blaming_package(type(self), self.name):
            scored = self.score_texts(classifier, encodings, targets)
            check_texts(scored, encodings, targets, len(classifier.labels))
        return scored


def _gathered(classifier: Predictor) -> AbstractContextManager[object]:
    """Return a context in which tensors of several layers can be combined, whatever devices they are on."""
    if classifier.transformer is None:
        return nullcontext()
    gathered: AbstractContextManager[object] = classifier.transformer.gathered()
    return gathered


class BatchExplainer(Explainer):
    """Base of methods that score the sub-tokens of one batch at a time, as most do.

    Example:
        >>> from explearn import About, BatchExplainer, BatchScores
        >>> from explearn.testing import make_classifier
        >>> class Ones(BatchExplainer):
        ...     '''The same score for each sub-token.'''
        ...
        ...     about = About(name="ones", family="chance", cost="one forward pass")
        ...
        ...     def score_batch(self, classifier, batch, targets):
        ...         return BatchScores(batch.attention_mask, classifier.logits(batch), targets)
        >>> (attribution,) = Ones().explain(make_classifier(), ["the quick fox"])
        >>> attribution.scores
        array([1., 1., 1.], dtype=float32)
    """

    passes: ClassVar[int] = 1
    """Copies of the text that the method holds in memory; batches are smaller by this factor."""

    @abstractmethod
    def score_batch(self, classifier: Any, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        """Score every sub-token of a batch.

        Args:
            classifier: the classifier, or its transformer if the method looks inside.
            batch: texts encoded to one length.
            targets: indices of the classes to explain, int64 (batch,). None: the predicted classes.
        """

    def score_texts(
        self, classifier: Any, encodings: Sequence[Encoding], targets: Sequence[int] | None
    ) -> list[TextScores]:
        def score(indices: list[int]) -> list[TextScores]:
            start = time.perf_counter()
            batch = classifier.batch([encodings[i] for i in indices])
            wanted = None
            if targets is not None:
                wanted = torch.tensor([targets[i] for i in indices], device=classifier.device)
            scored = self.score_batch(classifier, batch, wanted)
            check_scores("scores", scored.scores, tuple(batch.input_ids.shape))
            check_scores("logits", scored.logits, (len(indices), len(classifier.labels)))
            check_scores("targets", scored.targets, (len(indices),))
            none: list[Any] = [None] * len(indices)
            errors = none
            if scored.completeness_error is not None:
                errors = scored.completeness_error.detach().double().cpu().tolist()
            rows = scored.scores.detach().float().cpu().numpy()
            columns = zip(
                [row[: len(encoding)] for row, encoding in zip(rows, batch.encodings, strict=True)],
                scored.logits.detach().double().cpu().numpy(),
                scored.targets.tolist(),
                errors,
                scored.unread or [0] * len(indices),
                scored.certificates or none,
                strict=True,
            )
            seconds = (time.perf_counter() - start) / len(indices)
            return [TextScores(scores, logits, target, seconds, *more) for scores, logits, target, *more in columns]

        return run_batches([self.size(encoding) for encoding in encodings], classifier, score, self.passes)

    def size(self, encoding: Encoding) -> int:
        """Return how much of the budget of a batch a text takes, in sub-tokens.

        Args:
            encoding: the text as the classifier reads it.
        """
        return len(encoding)

"""What metrics read: some texts with the explanations of several methods, and the classifier that they explain."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from explearn.core.arrays import Array, Mask
from explearn.core.attribution import Attribution, each_attribution
from explearn.core.errors import DataError, UnsupportedError
from explearn.core.examples import Example
from explearn.core.words import segments_of, words_of
from explearn.metrics.params import EvaluateParams
from explearn.metrics.runs import MethodRun
from explearn.predictors.answers import Answers
from explearn.text.rationales import marks_by_id

if TYPE_CHECKING:
    # explearn.predictors imports torch, which takes seconds; reading results does not need it.
    from explearn.predictors.predictor import Predictor
    from explearn.text.encoding import Encoding

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


@dataclass(kw_only=True, eq=False)
class Shared:
    """An object that keeps what functions computed from it, so that several metrics compute it once."""

    _results: dict[Callable[[Any], Any], Any] = field(default_factory=dict, init=False, repr=False)

    def shared(self, compute: Callable[[Any], Result]) -> Result:
        """Return `compute(self)`, which is computed the first time only.

        Args:
            compute: a function of this object; the same function has the same result.
        """
        if compute not in self._results:
            self._results[compute] = compute(self)
        result: Result = self._results[compute]
        return result


@dataclass(eq=False)
class Context(Shared):
    """Some texts, and all methods that explain one classifier on them; `add` adds methods.

    Attributes:
        classifier: the explained model.
        examples: the n texts.
        gold: marked words of each text, bool (words,); all False for a text that nobody marked.
        params: settings of all metrics.
        seed: seed of all draws.
        answers: the classifier's answers to shortened texts, shared by all metrics.
        task: name of the texts, for messages.
        k: number of words that the top-K rule chooses in a text. None: the mean number of marked words.
        positive_rate: share of marked words, for methods that choose at random. None: that of these texts.
        encoded: example id -> the text as `classifier` reads it. None: the classifier encodes them.
        task_context: the same texts with the classifier of the task, if `classifier` was trained by a method: its word
            embeddings are those that the students of simulatability read.
        methods: method -> its explanations.
    """

    classifier: Predictor
    examples: Sequence[Example]
    gold: Sequence[Mask]
    params: EvaluateParams
    seed: int
    _: KW_ONLY
    answers: Answers
    task: str = "texts"
    k: int | None = None
    positive_rate: float | None = None
    encoded: Mapping[str, Encoding] | None = None
    task_context: Context | None = None
    methods: dict[str, Explanations] = field(default_factory=dict)

    def add(
        self, method: str, attributions: Sequence[Attribution], rule: str = "top_k", run: MethodRun | None = None
    ) -> Explanations:
        """Add a method.

        Args:
            method: name.
            attributions: one for each text, in the order of `examples`.
            rule: how the method chooses words (`explearn.metrics.plausibility.binarise`).
            run: how the attributions were made, if known.

        Returns:
            The method's explanations.
        """
        self.methods[method] = Explanations(self, method, attributions, rule, run or MethodRun(method, attributions))
        self._results.clear()
        return self.methods[method]

    @property
    def attributions(self) -> dict[str, Sequence[Attribution]]:
        """The attributions of each method, in the order of `examples`."""
        return {method: explanations.attributions for method, explanations in self.methods.items()}

    @cached_property
    def encodings(self) -> dict[str, Encoding]:
        """The unchanged texts as the classifier reads them, by example id."""
        if self.encoded is not None:
            return {example.id: self.encoded[example.id] for example in self.examples}
        for example in self.examples:
            if example.unit != "word":
                raise UnsupportedError(
                    f"example {example.id!r}: scores of each {example.unit}; expected scores of words (other units: "
                    "explearn.compare)"
                )
        encoded = self.classifier.read(self.examples)
        return {example.id: encoding for example, encoding in zip(self.examples, encoded, strict=True)}

    @cached_property
    def states(self) -> Array | None:
        """The texts' aggregate hidden states, (n, d); None if the model has none."""
        return self._inside(_states)

    @cached_property
    def embeddings(self) -> Sequence[ArrayLike] | None:
        """Embeddings of each text's words, (words, d), by the task's classifier; None if it has none."""
        if self.task_context is not None:
            return self.task_context.embeddings
        return self._inside(_embeddings)

    def _inside(self, compute: Callable[[Context], Result]) -> Result | None:
        """Compute something inside the model; None for a function of texts and, with a warning, if unsupported."""
        if self.classifier.transformer is None:
            return None
        try:
            return compute(self)
        except UnsupportedError as error:
            logger.warning("%s: %s, and stay empty", self.task, error)
            return None


@dataclass(eq=False)
class Explanations(Shared):
    """One method's explanations of the texts of a context: what a metric measures.

    Attributes:
        context: the texts and the classifier.
        method: name.
        attributions: one for each text, in the order of `context.examples`.
        rule: how the method chooses words.
        run: how the attributions were made.

    Example:
        >>> import explearn
        >>> from explearn.testing.tiny import classifier, TEXTS
        >>> def longest_word(explanations):
        ...     return [max(map(len, text.words)) for text in explanations.attributions]
        >>> longest = explearn.Metric("longest", "Longest word", "letters of the longest word", None, longest_word)
        >>> longest(classifier(), explearn.get_explainer("random").explain(classifier(), TEXTS))
        array([ 5., 12.,  4.,  9.,  6.])
    """

    context: Context
    method: str
    attributions: Sequence[Attribution]
    rule: str
    run: MethodRun

    @property
    def classifier(self) -> Predictor:
        return self.context.classifier


def _states(context: Context) -> Array:
    from explearn.lens.representations import aggregate_states
    from explearn.predictors.predictor import transformer_of

    inside = context.classifier.inside(list(context.encodings.values()))
    return aggregate_states(transformer_of(context.classifier), inside.encodings, f"{context.task}: states")


def _embeddings(context: Context) -> Sequence[ArrayLike]:
    from explearn.lens.representations import word_embeddings

    return word_embeddings(context.classifier, list(context.encodings.values()))


def by_method(attributions: Any) -> dict[str, list[Attribution]]:
    """Group a list of attributions by `Attribution.method`.

    Raises:
        ParamsError: got anything but a list.
        DataError: an entry is not an attribution.
    """
    grouped: dict[str, list[Attribution]] = {}
    for attribution in each_attribution(attributions):
        grouped.setdefault(attribution.method, []).append(attribution)
    return grouped


def numbered(attributions: Sequence[Attribution]) -> list[Attribution]:
    """Return attributions of free texts, which have no ids, with their numbers as ids; others as they are."""
    if any(attribution.example_id for attribution in attributions):
        return list(attributions)
    return [replace(attribution, example_id=f"text-{n}") for n, attribution in enumerate(attributions, start=1)]


def example_of(attribution: Attribution) -> Example:
    """Return the text of an attribution, without a label.

    Raises:
        DataError: its spans say that other characters than a blank are between words, and it does not have them.
    """
    name = attribution.example_id
    segments = segments_of(attribution.words, attribution.gaps, attribution.pair_start)
    words, pair, _ = words_of(segments)
    spans = list(chain.from_iterable(segment.spans for segment in segments))
    if attribution.spans and attribution.unit == "word" and list(attribution.spans) != spans:
        raise DataError(
            f"example {name!r}: its spans do not fit words with a blank between them; expected the characters between "
            "them (Attribution.gaps), or the texts (texts=...)"
        )
    return Example(name, words, "", "test", "texts", pair, attribution.focus, attribution.gaps, attribution.unit)


def in_one_order(
    attributions: Mapping[str, Sequence[Attribution]], texts: Iterable[Example] | None, task: str
) -> tuple[dict[str, list[Attribution]], list[Example]]:
    """Return each method's attributions in one order, and the texts in that order.

    Args:
        attributions: method -> its attributions, in any order.
        texts: the texts among others. None: they are made from the first method's attributions.
        task: name of the texts, for messages.

    Raises:
        DataError: methods explain different texts, words are not those of the example, or a score is infinite.
    """
    if texts is None:
        texts = [example_of(attribution) for attribution in next(iter(attributions.values()), ())]
    examples = {example.id: example for example in texts}
    ordered: dict[str, list[Attribution]] = {}
    ids: list[str] = []
    for method, of_method in attributions.items():
        by_id = {attribution.example_id: attribution for attribution in of_method}
        if not ordered:
            ids = list(by_id)
        if len(by_id) < len(of_method):
            raise DataError(f"task {task!r}, method {method!r}: got two texts with one example_id; expected unique ids")
        if odd := by_id.keys() ^ set(ids):
            raise DataError(
                f"task {task!r}, method {method!r}: example {min(odd)!r} is not explained by all methods; expected all "
                "on the same examples"
            )
        ordered[method] = [by_id[i] for i in ids]
        for attribution in ordered[method]:
            where = f"task {task!r}, method {method!r}, example {attribution.example_id!r}"
            example = examples.get(attribution.example_id)
            if example is None or tuple(attribution.words) != example.all_words:
                raise DataError(f"{where}: {len(attribution.words)} words; expected those of an example of this task")
            if len(attribution.scores) != len(attribution.words) or np.isinf(attribution.scores).any():
                raise DataError(f"{where}: {len(attribution.scores)} scores; expected a finite one for each word")
    return ordered, [examples[i] for i in ids]


def gold_masks(rationales: Any, examples: Sequence[Example], known: Collection[str] = ()) -> list[Mask]:
    """Return the marked words of each text, bool (words,); all False for a text that nobody marked."""
    marks = marks_by_id(rationales, examples, known)
    return [np.array(marks.get(example.id, [False] * len(example.all_words))) for example in examples]
